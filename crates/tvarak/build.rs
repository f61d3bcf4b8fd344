//! The version of the simulator: a digest of those of its sources that an outcome depends on.

use std::path::{Path, PathBuf};

#[path = "src/digest.rs"]
mod digest;

/// What only says what to run, or judges what came out.
const BESIDE: [&str; 7] = [
    "trace",
    "figures",
    "tests",
    "campaign",
    "claims.rs",
    "row.rs",
    "life.rs",
];

fn main() {
    println!("cargo:rerun-if-changed=src");
    let mut files = Vec::new();
    sources(Path::new("src"), &mut files);
    files.sort();
    let mut version = digest::EMPTY;
    for file in files {
        let text = std::fs::read(&file).expect("a source that was just listed");
        version = digest::digest(version, &text);
    }
    println!("cargo:rustc-env=FOREBAY_TVARAK_VERSION={version:016x}");
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the sources") {
        let path = entry.expect("an entry of the sources").path();
        let is_beside = BESIDE.iter().any(|name| path.ends_with(name));
        match path.is_dir() {
            _ if is_beside => {}
            true => sources(&path, files),
            false => files.push(path),
        }
    }
}
