//! Tells the bench which compiler and profile built it: instruction counts belong to both.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let compiler = std::env::var_os("RUSTC")
        .and_then(|rustc| Command::new(rustc).arg("--version").output().ok())
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .unwrap_or_default();
    // .../target/PROFILE/build/PACKAGE-HASH/out; cargo's own PROFILE names only what it inherits.
    let profile = std::env::var_os("OUT_DIR")
        .map(PathBuf::from)
        .and_then(|out| Some(out.ancestors().nth(3)?.file_name()?.to_owned()))
        .unwrap_or_default();
    println!("cargo::rustc-env=FOREBAY_COMPILER={compiler}");
    println!("cargo::rustc-env=FOREBAY_PROFILE={}", profile.display());
}
