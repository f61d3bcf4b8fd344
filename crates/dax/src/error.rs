//! What can go wrong with a mapped region, with the file it concerns, what was found and what to do.

use std::io;
use std::path::{Path, PathBuf};

use forebay_pmem::{PmemError, PmemErrorKind};

use crate::options::TrackerKind;

/// The result of everything in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a mapped region: [`Error::kind`] says what went wrong, its text what to do about it. Bugs are
/// assertions; every error can happen to a correct program.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<ErrorKind>);

/// Offsets that an error's text names; more are counted.
const NAMED_OFFSETS: usize = 8;

impl Error {
    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.0
    }

    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Error {
        ErrorKind::Io {
            action,
            path: path.to_owned(),
            source,
        }
        .into()
    }

    /// The refusal of a file of a region that has lost its end.
    #[cold]
    pub(crate) fn cut_short(path: &Path, found_bytes: u64) -> Error {
        let found = format!("it was cut short to {found_bytes} bytes");
        let todo = "move it away, and rebuild the region (forebay dax rebuild): the others and the parity give it as of its last pass";
        Error::refused(path, found, todo)
    }

    pub(crate) fn refused(path: &Path, found: impl Into<String>, todo: impl Into<String>) -> Error {
        ErrorKind::Refused {
            path: path.to_owned(),
            found: found.into(),
            todo: todo.into(),
        }
        .into()
    }
}

impl From<ErrorKind> for Error {
    #[cold]
    fn from(kind: ErrorKind) -> Error {
        Error(Box::new(kind))
    }
}

impl From<PmemError> for Error {
    #[cold]
    fn from(error: PmemError) -> Error {
        match error.kind() {
            PmemErrorKind::Locked => ErrorKind::InUse {
                path: error.path().to_owned(),
            },
            _ => ErrorKind::Media(error),
        }
        .into()
    }
}

/// What went wrong, with the numbers and names that belong to it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The persistent memory itself failed (mapping, fence, media error).
    #[error(transparent)]
    Media(PmemError),
    /// A call to the system failed.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// What was being done.
        action: &'static str,
        /// The file it was done with.
        path: PathBuf,
        /// The system's own words.
        source: io::Error,
    },
    /// What was asked for cannot be.
    #[error("{found}; {todo}")]
    Invalid {
        /// What is wrong with it.
        found: String,
        /// What to ask for instead.
        todo: &'static str,
    },
    /// A file is no part of this region, is damaged, or belongs elsewhere. Nothing was changed.
    #[error("{}: {found}; {todo}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// What was found in it.
        found: String,
        /// What a person can do about it.
        todo: String,
    },
    /// No member has anything of the region.
    #[error("no region {name:?} lies beside {}; list the pool's regions to see which there are", path.display())]
    NotFound {
        /// The region.
        name: String,
        /// The first member.
        path: PathBuf,
    },
    /// Another process has the region open.
    #[error("{}: another process has the region open; close it there first", path.display())]
    InUse {
        /// The file that it holds.
        path: PathBuf,
    },
    /// Two sidecars say different things of one generation: each went on without the other.
    #[error(
        "{} and {} say different things of generation {generation} of the region: each was used without the other; \
         move the one that is not wanted away, then open without it",
        one.display(),
        other.display()
    )]
    TwoHistories {
        /// One sidecar.
        one: PathBuf,
        /// The other one.
        other: PathBuf,
        /// The generation of both.
        generation: u64,
    },
    /// A sidecar or an extent is not there.
    #[error(
        "{}: {found}; bring it back, or, if it is gone for good, open without what is missing (forebay dax rebuild): what \
         the parity still gives is rebuilt into new files",
        path.display()
    )]
    Missing {
        /// The file, as far as it is known where it was.
        path: PathBuf,
        /// What is not there.
        found: String,
    },
    /// Pages cannot be had again from what is there. Nothing was changed.
    #[error(
        "region {name:?}: {pages} pages are lost, at {}; bring back what is missing, or accept the loss: they then \
         read as zeroes",
        named(offsets, *pages)
    )]
    Lost {
        /// The region.
        name: String,
        /// How many.
        pages: u64,
        /// Where they begin in the region, in bytes: the first ones.
        offsets: Vec<u64>,
    },
    /// Pages match no sum and their rows do not give them: the medium returned what nobody stored.
    #[error(
        "region {name:?}: {pages} pages are damaged, at {}, and their rows do not give them; restore them from a copy \
         (storing a page anew ends it), then try again",
        named(offsets, *pages)
    )]
    Damaged {
        /// The region.
        name: String,
        /// How many.
        pages: u64,
        /// Where they begin in the region, in bytes: the first ones.
        offsets: Vec<u64>,
    },
    /// A page was stored to each time that it was to be protected, and its writers could not be held.
    #[error(
        "the page at {offset} of the region was stored to all the time, and the tracker {tracker} cannot hold its \
         writers; let it rest, or open with the tracker fault or async-wp"
    )]
    NeverRested {
        /// Where it begins in the region, in bytes.
        offset: u64,
        /// The tracker in use.
        tracker: TrackerKind,
    },
    /// A tracker that was asked for cannot be had.
    #[error("the tracker {tracker} cannot be had: {found}; leave the choice open")]
    Tracker {
        /// Which.
        tracker: TrackerKind,
        /// Why.
        found: String,
    },
    /// A program still has an extent open or mapped, so that the region cannot be sealed.
    #[error("{}: a program has it open or mapped; end the program, then seal", path.display())]
    Mapped {
        /// The extent.
        path: PathBuf,
    },
}

fn named(offsets: &[u64], pages: u64) -> String {
    let shown: Vec<String> = offsets
        .iter()
        .take(NAMED_OFFSETS)
        .map(u64::to_string)
        .collect();
    let rest = pages.saturating_sub(shown.len() as u64);
    match rest {
        0 => shown.join(", "),
        _ => format!("{} and {rest} more", shown.join(", ")),
    }
}
