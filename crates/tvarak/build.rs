//! The versions of the simulator: digests of those of its sources that outcomes depend on, one of what all designs run, one of
//! what only the design runs that divides its ways at run time.

use std::path::{Path, PathBuf};

#[path = "src/digest.rs"]
mod digest;

/// What only says what to run, judges what came out, tests, or plants faults.
const BESIDE: [&str; 8] = [
    "trace",
    "figures",
    "tests",
    "campaign",
    "claims.rs",
    "row.rs",
    "life.rs",
    "mutants.rs",
];
/// Which numbers a cell has.
const NUMBERS: &str = "src/figures/measured.rs";
/// What nothing but the adaptive design runs.
const ADAPTIVE: [&str; 4] = [
    "controller/duel.rs",
    "controller/pace.rs",
    "controller/shadow.rs",
    "machine/divide.rs",
];

fn main() {
    println!("cargo:rerun-if-changed=src");
    let mut files = vec![PathBuf::from(NUMBERS)];
    sources(Path::new("src"), &mut files);
    files.sort();
    let is_adaptive = |file: &PathBuf| ADAPTIVE.iter().any(|name| file.ends_with(name));
    let (adaptive, all): (Vec<_>, Vec<_>) = files.into_iter().partition(is_adaptive);
    assert_eq!(adaptive.len(), ADAPTIVE.len(), "each is a source");
    for (name, files) in [("", all), ("ADAPTIVE_", adaptive)] {
        let version = version(&files);
        println!("cargo:rustc-env=FOREBAY_TVARAK_{name}VERSION={version:016x}");
    }
}

fn version(files: &[PathBuf]) -> u64 {
    let texts = files
        .iter()
        .map(|file| std::fs::read(file).expect("a source that was just listed"));
    texts.fold(digest::EMPTY, |version, text| {
        digest::digest(version, &text)
    })
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
