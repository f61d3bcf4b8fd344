//! Which pages of a mapping were stored to.

mod compare;

pub(crate) use compare::CompareTracker;

use std::ops::Range;

use crate::error::Result;
use crate::options::TrackerKind;

/// Which pages of a mapping were stored to. Pages are of 4 KiB, counted from the mapping's start.
pub(crate) trait Tracker: Send + Sync {
    /// Which one it is.
    fn kind(&self) -> TrackerKind;
    /// Pages of `pages` stored to since they were taken last, in ascending ranges; stores after this are seen again.
    fn take_written(&self, pages: Range<u64>, written: &mut Vec<Range<u64>>) -> Result<Coverage>;
    /// The same, without taking them.
    fn peek_written(&self, pages: Range<u64>, written: &mut Vec<Range<u64>>) -> Result<Coverage>;
    /// Threads of this process that store to these pages wait until the guard is dropped; what they stored before is
    /// seen. None where the tracker cannot.
    fn hold(&self, pages: Range<u64>) -> Result<Option<Hold<'_>>>;
}

/// Whether a tracker has seen every store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coverage {
    /// It has.
    Complete,
    /// It may have missed some: every page has to be compared.
    MayHaveMissed(Missed),
}

/// Why a tracker may have missed stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missed {
    /// It sees none: every page is compared.
    Untracked,
}

/// Writers are held until it is dropped.
pub(crate) struct Hold<'t> {
    release: Option<Box<dyn FnOnce() + 't>>,
}

impl<'t> Hold<'t> {
    pub(crate) fn new(release: impl FnOnce() + 't) -> Hold<'t> {
        Hold {
            release: Some(Box::new(release)),
        }
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        if let Some(release) = self.release.take() {
            release();
        }
    }
}
