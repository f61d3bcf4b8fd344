//! A folder, a pool, and programs that run in the folder with the library or without.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use forebay::{Medium, Pool, PoolOptions};
use tempfile::TempDir;

const POOL_BYTES: u64 = 64 << 20;

pub struct Rig {
    files: TempDir,
    aside: TempDir,
}

/// Beside the test programs: cargo builds the library first.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap();
    let places =
        [folder, folder.parent().unwrap()].map(|folder| folder.join("libforebay_preload.so"));
    let newest = places
        .into_iter()
        .filter_map(|place| Some((place.metadata().ok()?.modified().ok()?, place)));
    newest
        .max()
        .expect("cargo builds the library before its tests")
        .1
}

pub fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}

/// The program of a C source, or none where there is no compiler.
pub fn compile(name: &str) -> Option<PathBuf> {
    if !is_there("cc") {
        println!("skipped {name}: no cc here");
        return None;
    }
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/{name}.c"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if program.exists() && modified(&program) > modified(&source) {
        return Some(program);
    }
    let output = Command::new("cc")
        .args(["-O2", "-pthread", "-w", "-o"])
        .arg(&program)
        .arg(&source)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    Some(program)
}

fn modified(path: &Path) -> SystemTime {
    path.metadata().unwrap().modified().unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Rig {
    pub fn new() -> Rig {
        let aside = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new());
        Rig::on(aside.unwrap(), Medium::default()).unwrap()
    }

    /// The same with a pool on an SSD; none where no file of temporary folders can be one.
    pub fn on_ssd() -> Option<Rig> {
        let made = Rig::on(TempDir::new().unwrap(), Medium::Ssd);
        made.inspect_err(|error| println!("skipped: {error}")).ok()
    }

    fn on(aside: TempDir, medium: Medium) -> forebay::Result<Rig> {
        let files = TempDir::new().unwrap();
        let rig = Rig { files, aside };
        Pool::create(&PoolOptions::new(rig.pool(), POOL_BYTES).medium(medium))?.close()?;
        // A child that another test was starting may have it for a moment.
        while std::fs::File::open(rig.pool()).unwrap().try_lock().is_err() {
            std::thread::yield_now();
        }
        Ok(rig)
    }

    pub fn pool(&self) -> PathBuf {
        self.aside.path().join("pool")
    }

    pub fn owner_mark(&self) -> PathBuf {
        self.aside.path().join("pool.owner")
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.aside.path().join("log")).unwrap_or_default()
    }

    pub fn path(&self) -> &Path {
        self.files.path()
    }

    fn command(&self, program: impl AsRef<OsStr>, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(self.path())
            .env("LC_ALL", "C");
        command
    }

    /// The command with the library.
    pub fn preloaded(&self, program: impl AsRef<OsStr>, arguments: &[&str]) -> Command {
        let mut command = self.command(program, arguments);
        command
            .env("LD_PRELOAD", library())
            .env("FOREBAY_POOL", self.pool())
            .env("FOREBAY_MARK", self.aside.path().join("mark"))
            .env("FOREBAY_LOG", self.aside.path().join("log"));
        command
    }

    pub fn run(&self, program: impl AsRef<OsStr>, arguments: &[&str]) -> Output {
        self.preloaded(program, arguments).output().unwrap()
    }

    pub fn run_plain(&self, program: impl AsRef<OsStr>, arguments: &[&str]) -> Output {
        self.command(program, arguments).output().unwrap()
    }

    /// Every file below the folder.
    pub fn content(&self) -> BTreeMap<String, Vec<u8>> {
        let mut content = BTreeMap::new();
        let mut folders = vec![self.path().to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path
                    .strip_prefix(self.path())
                    .unwrap()
                    .display()
                    .to_string();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    content.insert(name, std::fs::read(&path).unwrap());
                }
            }
        }
        content
    }
}

/// Both folders hold the same files with the same bytes.
pub fn assert_same_content(one: &Rig, other: &Rig, what: &str) {
    let (one, other) = (one.content(), other.content());
    let differs = |name: &&String| one.get(*name) != other.get(*name);
    let differing: Vec<_> = one.keys().chain(other.keys()).filter(differs).collect();
    assert!(differing.is_empty(), "{what}: {differing:?}");
}

/// Both said the same, line by line.
pub fn assert_same_text(found: &[u8], expected: &[u8], what: &str) {
    let (found, expected) = (text(found), text(expected));
    for (number, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "{what}, line {}", number + 1);
    }
    assert_eq!(found.lines().count(), expected.lines().count(), "{what}");
}
