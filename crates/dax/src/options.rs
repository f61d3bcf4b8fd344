//! What a caller may choose when a region is made or opened.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How to make a region.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CreateOptions {
    /// Bytes of the region: a multiple of 4096, with a width above 1 of the width times 2 MiB.
    pub size_bytes: u64,
    /// Data extents, each beside a member of its own: 1 to 7.
    pub width: u32,
}

impl CreateOptions {
    /// A region of so many bytes and of width 1.
    #[must_use]
    pub fn new(size_bytes: u64) -> CreateOptions {
        CreateOptions {
            size_bytes,
            width: 1,
        }
    }

    /// So many data extents.
    #[must_use]
    pub fn width(mut self, width: u32) -> CreateOptions {
        self.width = width;
        self
    }
}

/// How to open a region.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenOptions {
    /// From one pass to the next: 0.1 to 30 s.
    pub period: Duration,
    /// The tracker to use; none: the best that can be had.
    pub tracker: Option<TrackerKind>,
    /// Files that are missing are gone for good: rebuild what can be, into new ones.
    pub without_missing: bool,
    /// Pages that cannot be rebuilt read as zeroes from now on.
    pub accept_loss: bool,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions {
            period: Duration::from_secs(1),
            tracker: None,
            without_missing: false,
            accept_loss: false,
        }
    }
}

impl OpenOptions {
    /// From one pass to the next.
    #[must_use]
    pub fn period(mut self, period: Duration) -> OpenOptions {
        self.period = period;
        self
    }

    /// Uses this tracker, or fails.
    #[must_use]
    pub fn tracker(mut self, tracker: impl Into<Option<TrackerKind>>) -> OpenOptions {
        self.tracker = tracker.into();
        self
    }

    /// Files that are missing are gone for good.
    #[must_use]
    pub fn without_missing(mut self, without_missing: bool) -> OpenOptions {
        self.without_missing = without_missing;
        self
    }

    /// Pages that cannot be rebuilt read as zeroes from now on.
    #[must_use]
    pub fn accept_loss(mut self, accept_loss: bool) -> OpenOptions {
        self.accept_loss = accept_loss;
        self
    }
}

/// How it is found out which pages were stored to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TrackerKind {
    /// Asynchronous write protection by userfaultfd, read by PAGEMAP_SCAN.
    AsyncWriteProtect,
    /// The soft-dirty bit of /proc/PID/pagemap.
    SoftDirty,
    /// mprotect, and a handler of SIGSEGV.
    Fault,
    /// None: every page is read by each pass and compared with its sum.
    Compare,
}

impl TrackerKind {
    /// All of them, the best first.
    pub const ALL: [TrackerKind; 4] = [
        TrackerKind::AsyncWriteProtect,
        TrackerKind::SoftDirty,
        TrackerKind::Fault,
        TrackerKind::Compare,
    ];

    /// Which stores it does not see, in words.
    #[must_use]
    pub fn misses(self) -> &'static str {
        match self {
            TrackerKind::AsyncWriteProtect => {
                "write(2) to the files, other mappings of them, forked children"
            }
            TrackerKind::SoftDirty => {
                "write(2) to the files, other mappings of them, processes that have ended"
            }
            TrackerKind::Fault => {
                "write(2) to the files, other mappings of them, forked children; system calls that store into the \
                 region fail with EFAULT"
            }
            TrackerKind::Compare => "no store, but it cannot tell a store from damage",
        }
    }
}

impl fmt::Display for TrackerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            TrackerKind::AsyncWriteProtect => "async-wp",
            TrackerKind::SoftDirty => "soft-dirty",
            TrackerKind::Fault => "fault",
            TrackerKind::Compare => "compare",
        })
    }
}

/// A text that names no tracker.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no tracker; the trackers are async-wp, soft-dirty, fault and compare")]
pub struct UnknownTracker(String);

impl FromStr for TrackerKind {
    type Err = UnknownTracker;

    fn from_str(text: &str) -> Result<TrackerKind, UnknownTracker> {
        TrackerKind::ALL
            .into_iter()
            .find(|kind| kind.to_string() == text)
            .ok_or_else(|| UnknownTracker(text.to_owned()))
    }
}
