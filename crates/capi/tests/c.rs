//! Programs in C, compiled against the header and linked with the library.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use forebay::{Medium, Pool, PoolOptions};
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

/// Compiles a program of this folder.
fn compile(folder: &Path, source: &str) -> PathBuf {
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
    program
}

/// The command that runs what was compiled.
fn program_in_c(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", library_folder());
    command
}

fn run_in_c(folder: &Path, source: &str, arguments: &[&Path]) {
    let program = compile(folder, source);
    run(program_in_c(&program).args(arguments));
}

/// Makes a pool of this kind there and closes it; false, once it has said so, where that file system takes none.
fn makes_pool(test: &str, path: &Path, medium: Medium) -> bool {
    let options = PoolOptions::new(path, 32 << 20).medium(medium);
    match Pool::create(&options) {
        Ok(pool) => {
            pool.close().unwrap();
            true
        }
        Err(error) if medium == Medium::Ssd => {
            eprintln!("skipped {test}: {error}");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_program_in_c_uses_all_of_it() {
    for medium in [Medium::Memory, Medium::Ssd] {
        let folder = tempfile::tempdir().unwrap();
        let (pool, file) = (folder.path().join("pool"), folder.path().join("file"));
        if makes_pool("a_program_in_c_uses_all_of_it", &pool, medium) {
            run_in_c(folder.path(), "use.c", &[&pool, &file]);
            assert_eq!(std::fs::read(&file).unwrap(), b"0123456789ta");
        }
    }
}

/// Runs `kept.c` until it has said that many records, kills it, and returns how many it had said in the end.
fn add_until_killed(command: &mut Command, count: u64) -> u64 {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut acknowledged = 0;
    for line in lines {
        acknowledged = line.unwrap().parse().unwrap();
        if acknowledged == count {
            child.kill().unwrap();
        }
    }
    let ended = child.wait().unwrap();
    assert_eq!(ended.code(), None, "it ended by itself: {ended}");
    acknowledged
}

#[test]
fn what_a_program_in_c_was_told_before_a_kill_is_there() {
    for medium in [Medium::Memory, Medium::Ssd] {
        let folder = tempfile::tempdir().unwrap();
        let (pool, files) = (folder.path().join("pool"), folder.path().join("files"));
        std::fs::create_dir(&files).unwrap();
        let test = "what_a_program_in_c_was_told_before_a_kill_is_there";
        if !makes_pool(test, &pool, medium) {
            continue;
        }
        let mut acknowledged = 0_u64;
        let program = compile(folder.path(), "kept.c");
        let kept = |acknowledged: u64| {
            let mut command = program_in_c(&program);
            command.args([&pool, &files]).arg(acknowledged.to_string());
            command
        };
        for _ in 0..3 {
            let count = acknowledged + 80;
            acknowledged = add_until_killed(&mut kept(acknowledged), count);
        }
        run(kept(acknowledged).arg("0"));
        let appended = std::fs::read(files.join("appended")).unwrap();
        let records = appended.len() as u64 / 100;
        assert!(records == acknowledged || records == acknowledged + 1);
    }
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
