//! What writes inside the guest when a file system's double writes are counted: it knows to the byte
//! what it asked for.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Timespec, Timestamps, futimens};

use super::KIB;
use crate::Result;

const BLOCK_BYTES: usize = 4096;
/// A file server's files, at the start.
const FILES: usize = 400;
const FILE_BYTES_MAX: u64 = 64 * KIB;
const APPEND_BYTES: usize = 8 * 1024;
/// After so many operations of a file server everything is synced, as a server's clients would have it.
const OPERATIONS_PER_SYNC: u64 = 16;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Work {
    /// One file is overwritten in random blocks of 4 KiB; each write has its own time, and an fsync.
    Random,
    /// Files are made, appended to, read whole, and deleted.
    Fileserver,
}

/// Where and how much.
#[derive(Clone, Debug, clap::Args)]
pub struct Order {
    /// What is done.
    #[arg(long, value_enum)]
    pub work: Work,
    /// An existing directory.
    #[arg(long)]
    pub folder: PathBuf,
    /// Bytes of the one file.
    #[arg(long, default_value_t = 64 << 20)]
    pub span: u64,
    /// Writes or operations; 0 only makes what has to be there first.
    #[arg(long)]
    pub count: u64,
    /// Decides what is written where.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Carries it out; returns the bytes written.
pub fn write(order: &Order) -> Result<u64> {
    match order.work {
        Work::Random => random(order),
        Work::Fileserver => fileserver(order),
    }
}

fn random(order: &Order) -> Result<u64> {
    let path = order.folder.join("file");
    let mut random = fastrand::Rng::with_seed(order.seed);
    let mut block = vec![0; BLOCK_BYTES];
    if order.count == 0 {
        let mut file = File::create(path)?;
        for _ in 0..order.span / BLOCK_BYTES as u64 {
            random.fill(&mut block);
            file.write_all(&block)?;
        }
        file.sync_all()?;
        return Ok(order.span);
    }
    let file = File::options().write(true).open(path)?;
    for number in 0..order.count {
        random.fill(&mut block);
        let place = random.u64(0..order.span / BLOCK_BYTES as u64) * BLOCK_BYTES as u64;
        file.write_all_at(&block, place)?;
        // The guest's clock ticks a hundred times a second: most writes would find the inode unchanged,
        // and their fsync nothing to commit. Real machines' inodes change with every write.
        let time = Timespec {
            tv_sec: 1_700_000_000 + number as i64,
            tv_nsec: 0,
        };
        let times = Timestamps {
            last_access: time,
            last_modification: time,
        };
        futimens(&file, &times)?;
        file.sync_all()?;
    }
    Ok(order.count * BLOCK_BYTES as u64)
}

fn fileserver(order: &Order) -> Result<u64> {
    let mut server = FileServer {
        folder: &order.folder,
        random: fastrand::Rng::with_seed(order.seed),
        // What was there before has the lower numbers.
        next: if order.count == 0 { 0 } else { FILES },
        files: if order.count == 0 {
            Vec::new()
        } else {
            (0..FILES).collect()
        },
        written_bytes: 0,
    };
    if order.count == 0 {
        for _ in 0..FILES {
            server.create()?;
        }
    }
    for number in 0..order.count {
        server.operate()?;
        if number % OPERATIONS_PER_SYNC == OPERATIONS_PER_SYNC - 1 {
            server.sync()?;
        }
    }
    server.sync()?;
    Ok(server.written_bytes)
}

struct FileServer<'a> {
    folder: &'a Path,
    random: fastrand::Rng,
    next: usize,
    files: Vec<usize>,
    written_bytes: u64,
}

impl FileServer<'_> {
    fn path(&self, number: usize) -> PathBuf {
        self.folder.join(format!("{}/{number}", number % 20))
    }

    fn operate(&mut self) -> Result<()> {
        match self.random.u32(0..5) {
            0 | 1 => self.create(),
            2 => self.append(),
            3 => self.read(),
            _ => self.delete(),
        }
    }

    fn some_file(&mut self) -> Option<usize> {
        let count = self.files.len();
        (count > 0).then(|| self.random.usize(0..count))
    }

    fn create(&mut self) -> Result<()> {
        let mut bytes = vec![0; self.random.u64(1..=FILE_BYTES_MAX) as usize];
        self.random.fill(&mut bytes);
        let path = self.path(self.next);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, &bytes)?;
        self.written_bytes += bytes.len() as u64;
        self.files.push(self.next);
        self.next += 1;
        // As many are deleted as made, in the long run.
        match self.files.len() > FILES + FILES / 10 {
            true => self.delete(),
            false => Ok(()),
        }
    }

    fn append(&mut self) -> Result<()> {
        let Some(index) = self.some_file() else {
            return Ok(());
        };
        let mut bytes = vec![0; APPEND_BYTES];
        self.random.fill(&mut bytes);
        let path = self.path(self.files[index]);
        File::options().append(true).open(path)?.write_all(&bytes)?;
        self.written_bytes += bytes.len() as u64;
        Ok(())
    }

    fn read(&mut self) -> Result<()> {
        match self.some_file() {
            Some(index) => Ok(fs::read(self.path(self.files[index])).map(drop)?),
            None => Ok(()),
        }
    }

    fn delete(&mut self) -> Result<()> {
        match self.some_file() {
            Some(index) => {
                let number = self.files.swap_remove(index);
                Ok(fs::remove_file(self.path(number))?)
            }
            None => Ok(()),
        }
    }

    fn sync(&self) -> Result<()> {
        Ok(rustix::fs::syncfs(File::open(self.folder)?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_made_first_and_then_done_and_counted() {
        let folder = tempfile::tempdir().expect("a folder");
        for work in [Work::Random, Work::Fileserver] {
            let mut order = Order {
                work,
                folder: folder.path().join(format!("{work:?}")),
                span: 1 << 20,
                count: 0,
                seed: 7,
            };
            fs::create_dir(&order.folder).expect("a folder");
            assert!(write(&order).expect("made") >= 1 << 20);
            order.count = 50;
            let bytes = write(&order).expect("done");
            match work {
                Work::Random => assert_eq!(bytes, 50 * 4096),
                Work::Fileserver => assert!(bytes > 50 * 4096),
            }
        }
    }
}
