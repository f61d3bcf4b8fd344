//! The file that is used, the ways in which it is open, and the bytes in memory that each answer is compared with.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use fastrand::Rng;
use forebay_harness::Result;

pub const FILE_BYTES_MAX: usize = 512 << 10;
pub const OPERATION_BYTES_MAX: usize = 64 << 10;
const RECENT_MAX: usize = 40;

/// What direct reads and writes are multiples of.
pub const DIRECT_BYTES: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Plain,
    DataSync,
    Sync,
    Append,
    AppendDataSync,
    Direct,
    ReadOnly,
}

impl Kind {
    fn flags(self) -> i32 {
        match self {
            Kind::Plain | Kind::ReadOnly => 0,
            Kind::DataSync => libc::O_DSYNC,
            Kind::Sync => libc::O_SYNC,
            Kind::Append => libc::O_APPEND,
            Kind::AppendDataSync => libc::O_APPEND | libc::O_DSYNC,
            Kind::Direct => libc::O_DIRECT,
        }
    }

    pub fn is_append(self) -> bool {
        matches!(self, Kind::Append | Kind::AppendDataSync)
    }

    pub fn open(self, path: &Path, truncates: bool) -> io::Result<File> {
        File::options()
            .read(true)
            .write(self != Kind::ReadOnly)
            .truncate(truncates && self != Kind::ReadOnly)
            .custom_flags(self.flags())
            .open(path)
    }
}

#[derive(Debug)]
pub struct Descriptor {
    pub file: File,
    pub kind: Kind,
}

#[derive(Debug)]
pub struct Exercise {
    pub directory: PathBuf,
    /// Which of the names it has now.
    pub path: PathBuf,
    pub descriptors: Vec<Descriptor>,
    pub contents: Vec<u8>,
    pub rng: Rng,
    /// How many operations it took part in; bytes written are drawn from it.
    pub count: u64,
    /// The latest operations, in words.
    pub recent: VecDeque<String>,
}

impl Exercise {
    pub fn new(directory: &Path, seed: u64) -> Exercise {
        Exercise {
            directory: directory.to_owned(),
            path: directory.join("exercised"),
            descriptors: Vec::new(),
            contents: Vec::new(),
            rng: Rng::with_seed(seed),
            count: 0,
            recent: VecDeque::new(),
        }
    }

    pub fn note(&mut self, text: String) {
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(text);
    }

    /// Says more about the latest operation.
    pub fn detail(&mut self, text: &str) {
        if let Some(last) = self.recent.back_mut() {
            last.push_str(text);
        }
    }

    pub fn check_size(&mut self) -> Result<()> {
        let which = self.rng.usize(..self.descriptors.len());
        let found = self.descriptors[which].file.metadata()?;
        self.expect_size("fstat", found.size())?;
        if self.count.is_multiple_of(7) {
            let found = std::fs::metadata(&self.path)?.size();
            self.expect_size("stat", found)?;
        }
        Ok(())
    }

    pub fn expect_size(&self, call: &str, found: u64) -> Result<()> {
        let wanted = self.contents.len() as u64;
        match found == wanted {
            true => Ok(()),
            false => Err(format!("{call} says {found} bytes; the file has {wanted}").into()),
        }
    }

    /// Everything, by any descriptor that reads without rules of its own.
    pub fn compare_all(&mut self) -> Result<()> {
        let mut found = vec![0; self.contents.len() + 1];
        let file = self.readable()?;
        let mut done = 0;
        while done < found.len() {
            match file.read_at(&mut found[done..], done as u64)? {
                0 => break,
                more => done += more,
            }
        }
        found.truncate(done);
        self.expect(0, &found)
    }

    /// What was read at `offset` against the model.
    pub fn expect(&self, offset: usize, found: &[u8]) -> Result<()> {
        let start = offset.min(self.contents.len());
        let end = (offset + found.len()).min(self.contents.len());
        let wanted = &self.contents[start..end];
        if wanted == found {
            return Ok(());
        }
        if wanted.len() != found.len() {
            let (found, wanted) = (found.len(), wanted.len());
            return Err(format!("read {found} bytes at {offset}, {wanted} are there").into());
        }
        let is_bad = |at: &usize| wanted[*at] != found[*at];
        let first = (0..found.len()).find(is_bad).unwrap_or(0);
        let last = (0..found.len()).rev().find(is_bad).unwrap_or(0);
        Err(format!(
            "bytes {} to {} differ: the first is {:#04x}, not {:#04x}",
            offset + first,
            offset + last,
            found[first],
            wanted[first]
        )
        .into())
    }

    pub fn open_path(&self) -> &Path {
        &self.path
    }

    pub fn remove(mut self) -> Result<()> {
        self.descriptors.clear();
        Ok(std::fs::remove_file(&self.path)?)
    }

    /// One that reads at any offset.
    pub fn readable(&mut self) -> Result<&File> {
        self.pick(|kind| kind != Kind::Direct)
    }

    /// One that writes at any offset.
    pub fn writable(&mut self) -> Result<&File> {
        self.pick(|kind| matches!(kind, Kind::Plain | Kind::DataSync | Kind::Sync))
    }

    /// One that may write.
    pub fn changing(&mut self) -> Result<&File> {
        self.pick(|kind| kind != Kind::ReadOnly)
    }

    /// One of those whose kind is `wanted`; the first descriptor always is.
    fn pick(&mut self, wanted: impl Fn(Kind) -> bool) -> Result<&File> {
        let those: Vec<&Descriptor> = self
            .descriptors
            .iter()
            .filter(|one| wanted(one.kind))
            .collect();
        let one = self.rng.choice(those).ok_or("no descriptor for it")?;
        Ok(&one.file)
    }
}
