//! Databases whose own protection against torn pages is switched off, under power cuts: each recovers
//! by itself from what a cut left, and then its own tools look for pages that are damaged.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use forebay_harness::{Group, must};

use super::arrivals::Notes;
use super::mounted::Looped;
use super::page_disk::PageDisk;
use crate::machine::Cut;
use crate::{Result, Scratch};

const POOL_BYTES: u64 = 64 << 20;
const DISK_BYTES: u64 = 640 << 20;
const WARM_UP: Duration = Duration::from_secs(3);
const BETWEEN_CUTS_MS: std::ops::Range<u64> = 200..1500;

/// A database and the file system that keeps its pages in one piece.
#[derive(Clone, Copy, Debug)]
pub struct Database {
    /// What it is called.
    pub name: &'static str,
    /// Starts, loads, stops and checks it.
    script: &'static str,
    /// Bytes of its pages.
    page_bytes: usize,
    file_system: &'static str,
    /// The program and arguments that make its file system, without the device.
    pub make: &'static [&'static str],
}

/// Those that are tried.
pub const DATABASES: [Database; 2] = [
    Database {
        name: "postgres",
        script: include_str!("database/postgres.sh"),
        page_bytes: 8192,
        file_system: "xfs",
        make: &["mkfs.xfs", "-q", "-f", "-b", "size=8192"],
    },
    Database {
        name: "mariadb",
        script: include_str!("database/mariadb.sh"),
        page_bytes: 16384,
        file_system: "ext4",
        make: &[
            "mkfs.ext4",
            "-q",
            "-F",
            "-b",
            "4096",
            "-O",
            "bigalloc",
            "-C",
            "16384",
        ],
    },
];

/// What came of a database.
#[derive(Debug, Default)]
pub struct Rounds {
    /// States that a cut could leave, each recovered and checked.
    pub rounds: u64,
    /// Those in which the database found nothing wrong.
    pub clean: u64,
    /// How its writes arrived.
    pub arrived: Notes,
    /// What it said of the others.
    pub complaints: Vec<String>,
}

impl Rounds {
    /// Adds what another try came to.
    pub fn join(&mut self, other: Rounds) {
        self.rounds += other.rounds;
        self.clean += other.clean;
        self.arrived = other.arrived;
        self.complaints.extend(other.complaints);
    }
}

/// A database that runs; it is stopped when this is dropped.
struct Started<'a> {
    database: &'a Database,
    place: &'a Path,
}

impl Drop for Started<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.database.run("stop", self.place) {
            eprintln!("{}: not stopped: {error}", self.database.name);
        }
    }
}

impl Database {
    fn command(&self, what: &str, place: &Path) -> Command {
        let mut command = Command::new("bash");
        command.args(["-c", self.script, self.name, what]);
        command.arg(place).stdin(Stdio::null());
        command
    }

    /// Runs a part of the script; returns what it printed.
    fn run(&self, what: &str, place: &Path) -> Result<String> {
        // A file, since servers that stay keep what they print to open.
        let log = tempfile::NamedTempFile::new()?;
        let mut command = self.command(what, place);
        let status = command
            .stdout(log.reopen()?)
            .stderr(log.reopen()?)
            .status()?;
        let said = String::from_utf8_lossy(&std::fs::read(log.path())?).into_owned();
        match status.success() {
            true => Ok(said),
            false => Err(format!("{what}: {status}: {}", said.trim()).into()),
        }
    }

    /// Why it cannot be tried here, if so.
    pub fn obstacle(&self) -> Option<String> {
        let why = self.run("obstacle", Path::new("/"));
        match why {
            Ok(why) if why.trim().is_empty() => None,
            Ok(why) => Some(why.trim().replace('\n', ", ")),
            Err(error) => Some(error.to_string()),
        }
    }

    /// Cuts the power under its load and has it recover from what that leaves; without a pool, from
    /// what a disk leaves that tears writes.
    pub fn try_rounds(
        &self,
        scratch: &Scratch,
        (cuts, images): (usize, usize),
        is_plain: bool,
        seed: u64,
    ) -> Result<Rounds> {
        let mut rng = Rng::with_seed(seed);
        let folder = scratch.new_folder(self.name)?;
        // The database's user has to get to the mount.
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o711))?;
        let [file, place] = ["file", "mounted"].map(|name| folder.join(name));
        std::fs::create_dir(&file)?;
        std::fs::create_dir(&place)?;
        let pool_bytes = (!is_plain).then_some(POOL_BYTES);
        let disk = PageDisk::new(pool_bytes, DISK_BYTES, self.page_bytes)?;
        let mut result = Rounds::default();
        let taken = self.take_cuts(&disk, [&file, &place], cuts, &mut rng)?;
        result.arrived = disk.device.take();
        drop(disk);
        let pool = folder.join("pool");
        for cut in &taken {
            for _ in 0..images {
                forebay_harness::check_interrupt()?;
                result.rounds += 1;
                match self.recover(cut, &pool, [&file, &place], &mut rng) {
                    Ok(()) => result.clean += 1,
                    Err(error) => result.complaints.push(error.to_string()),
                }
            }
        }
        std::fs::remove_dir_all(folder)?;
        Ok(result)
    }

    fn take_cuts(
        &self,
        disk: &PageDisk,
        [file, place]: [&PathBuf; 2],
        cuts: usize,
        rng: &mut Rng,
    ) -> Result<Vec<Cut>> {
        let mut looped = Looped::new(Arc::clone(&disk.device), file, true)?;
        looped.keep_pages_stable()?;
        must(
            self.make[0],
            &[&self.make[1..], &[looped.device()]].concat(),
        )?;
        looped.mount(self.file_system, "noatime", place)?;
        let _started = Started {
            database: self,
            place,
        };
        self.run("make", place)?;
        disk.device.take();
        let mut load = self.command("load", place);
        load.stdout(Stdio::null()).stderr(Stdio::null());
        let mut loading = Group::start(&mut load)?;
        forebay_harness::sleep(WARM_UP)?;
        let mut taken = Vec::new();
        for _ in 0..cuts {
            forebay_harness::sleep(Duration::from_millis(rng.u64(BETWEEN_CUTS_MS)))?;
            taken.push(disk.cut());
        }
        loading.kill()?;
        Ok(taken)
    }

    fn recover(
        &self,
        cut: &Cut,
        pool: &Path,
        [file, place]: [&PathBuf; 2],
        rng: &mut Rng,
    ) -> Result<()> {
        let disk = PageDisk::recover(cut, rng, pool)?;
        let mut looped = Looped::new(Arc::clone(&disk.device), file, true)?;
        looped.mount(self.file_system, "noatime", place)?;
        let checked = self.run("check", place);
        if checked.is_err() {
            // What does not start, or not stop, must not keep the file system busy.
            let _ = self.run("stop", place);
        }
        checked.map(drop)
    }
}
