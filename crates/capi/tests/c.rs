//! Programs in C, compiled against the header and linked with the library.

use std::path::{Path, PathBuf};
use std::process::Command;

use forebay::{Pool, PoolOptions};
use forebay_dax::{CreateOptions, DaxPool, DaxRegion};

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

/// Compiles a program of this folder, and runs it with these arguments.
fn run_in_c(folder: &Path, source: &str, arguments: &[&Path]) {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (program, libraries) = (folder.join("program"), library_folder());
    run(Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-std=c11", "-o"])
        .arg(&program)
        .arg(own.join("tests").join(source))
        .arg("-I")
        .arg(own.join("include"))
        .arg("-L")
        .arg(&libraries)
        .arg("-lforebay_c"));
    run(Command::new(&program)
        .args(arguments)
        .env("LD_LIBRARY_PATH", &libraries));
}

#[test]
fn a_program_in_c_uses_all_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let (pool, file) = (folder.path().join("pool"), folder.path().join("file"));
    let made = Pool::create(&PoolOptions::new(&pool, 32 << 20)).unwrap();
    made.close().unwrap();
    run_in_c(folder.path(), "use.c", &[&pool, &file]);
    assert_eq!(std::fs::read(&file).unwrap(), b"0123456789ta");
}

#[test]
fn a_program_in_c_stores_into_a_mapped_region_while_the_pool_is_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let pool = Pool::create(&PoolOptions::new(&path, 8 << 20)).unwrap();
    let beside = DaxPool::new(&[std::fs::canonicalize(&path).unwrap()], pool.uuid());
    DaxRegion::create(&beside, "r", &CreateOptions::new(1 << 20)).unwrap();
    run_in_c(folder.path(), "dax.c", &[&path, Path::new("r")]);
    let bytes = std::fs::read(folder.path().join("pool.dax/r")).unwrap();
    assert_eq!(&bytes[5000..5006], b"stored");
    let region = forebay_dax::list(&beside).unwrap().remove(0);
    assert_eq!(region.state, forebay_dax::RegionState::Sealed);
    pool.close().unwrap();
}
