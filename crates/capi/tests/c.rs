//! A program in C, compiled against the header and linked with the library.

use std::path::{Path, PathBuf};
use std::process::Command;

use forebay::{Pool, PoolOptions};

/// Where cargo put the shared library: beside the tests, or one folder up.
fn library_folder() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap();
    let mut folders = [folder, folder.parent().unwrap()].into_iter();
    let found = folders.find(|folder| folder.join("libforebay_c.so").exists());
    found.expect("cargo builds libforebay_c.so").to_path_buf()
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}

#[test]
fn a_program_in_c_uses_all_of_it() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let (program, libraries) = (folder.path().join("use"), library_folder());
    run(Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-std=c11", "-o"])
        .arg(&program)
        .arg(source.join("tests/use.c"))
        .arg("-I")
        .arg(source.join("include"))
        .arg("-L")
        .arg(&libraries)
        .arg("-lforebay_c"));
    let (pool, file) = (folder.path().join("pool"), folder.path().join("file"));
    let made = Pool::create(&PoolOptions::new(&pool, 32 << 20)).unwrap();
    made.close().unwrap();
    run(Command::new(&program)
        .args([&pool, &file])
        .env("LD_LIBRARY_PATH", &libraries));
    assert_eq!(std::fs::read(&file).unwrap(), b"0123456789ta");
}
