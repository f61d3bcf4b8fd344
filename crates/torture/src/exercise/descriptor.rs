//! The ways in which the file is open.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::Exercise;
use forebay_harness::Result;

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

    fn open(self, path: &Path, truncates: bool) -> io::Result<File> {
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

const KINDS: [(u32, Kind); 7] = [
    (6, Kind::Plain),
    (3, Kind::DataSync),
    (1, Kind::Sync),
    (2, Kind::Append),
    (1, Kind::AppendDataSync),
    (1, Kind::Direct),
    (1, Kind::ReadOnly),
];

impl Exercise {
    /// Closes every descriptor and opens one, or some; the first can write anywhere.
    pub(super) fn open_again(&mut self) -> Result<bool> {
        self.descriptors.clear();
        let count = if self.rng.u8(..10) < 6 {
            1
        } else {
            self.rng.usize(2..=4)
        };
        let mut truncates = self.rng.u8(..40) == 0;
        for index in 0..count {
            let kind = match index {
                0 => [Kind::Plain, Kind::Plain, Kind::DataSync][self.rng.usize(..3)],
                _ => self.draw_kind(),
            };
            let (file, kind) = match kind.open(self.open_path(), truncates) {
                // A file system need not know direct access.
                Err(error)
                    if kind == Kind::Direct && error.raw_os_error() == Some(libc::EINVAL) =>
                {
                    (Kind::Plain.open(self.open_path(), false)?, Kind::Plain)
                }
                opened => (opened?, kind),
            };
            if truncates {
                self.contents.clear();
                self.detail(" truncating");
            }
            truncates = false;
            self.detail(&format!(" {kind:?}"));
            self.descriptors.push(Descriptor { file, kind });
        }
        Ok(true)
    }

    fn draw_kind(&mut self) -> Kind {
        let total = KINDS.iter().map(|(weight, _)| weight).sum();
        let mut drawn = self.rng.u32(0..total);
        for (weight, kind) in KINDS {
            if drawn < weight {
                return kind;
            }
            drawn -= weight;
        }
        Kind::Plain
    }

    /// One that reads at any offset.
    pub(super) fn readable(&mut self) -> Result<&File> {
        self.pick(|kind| kind != Kind::Direct)
    }

    /// One that writes at any offset.
    pub(super) fn writable(&mut self) -> Result<&File> {
        self.pick(|kind| matches!(kind, Kind::Plain | Kind::DataSync | Kind::Sync))
    }

    /// One that may write.
    pub(super) fn changing(&mut self) -> Result<&File> {
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
