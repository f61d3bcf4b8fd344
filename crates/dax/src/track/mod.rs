//! Which pages of a mapping were stored to, and how writers are held while one of them is protected.
//!
//! | | sees | blind to |
//! |---|---|---|
//! | `async-wp` | stores by threads and by system calls through the mapping | write(2) to the file, other mappings, forked children, a device that stores into pages it pinned before they were taken (O_DIRECT reads into the mapping) |
//! | `fault` | stores by threads | the same; and read(2) into the mapping fails with EFAULT |
//! | `compare` | nothing, and says so | |
//!
//! [`Watch`] notices what all of them are blind to, as far as it can be noticed.

mod async_wp;
mod choose;
mod compare;
mod fault;
mod guard;
mod moved;

mod maps;
mod pagemap;
mod ranges;
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "a keeper tracks no other process's stores yet")
)]
mod remote;
mod soft_dirty;
mod span;
mod userfault;
mod watch;

#[cfg(test)]
mod tests;

pub(crate) use choose::open;
pub(crate) use compare::CompareTracker;
pub(crate) use span::Span;
pub(crate) use watch::{Children, Look, Openers, Watch};

use std::marker::PhantomData;
use std::ops::Range;

use crate::error::Result;
use crate::options::TrackerKind;

/// Which pages of a mapping were stored to. Pages are of 4 KiB, counted from the mapping's start.
///
/// A tracker begins with no page written. A store that ended before a take began is in that take or was in an earlier
/// one; a store that runs beside it is in that take or in the next one. It is dropped while its mapping still
/// is the library's: before it is unmapped.
pub(crate) trait Tracker: Send + Sync {
    /// Which one it is.
    fn kind(&self) -> TrackerKind;
    /// As [`Tracker::take_written`] or, if pages are not to be taken, [`Tracker::peek_written`], by which it is called.
    fn find_written(
        &self,
        pages: Range<u64>,
        takes: bool,
        written: &mut Vec<Range<u64>>,
    ) -> Result<Coverage>;
    /// Pages of `pages` stored to since they were taken last, in ascending ranges that do not touch, added to `written`;
    /// stores after this are seen again. Where this fails or may have missed some, all pages have to be compared: what
    /// was taken is not told again.
    fn take_written(&self, pages: Range<u64>, written: &mut Vec<Range<u64>>) -> Result<Coverage> {
        self.find_written(pages, true, written)
    }
    /// The same, without taking them.
    fn peek_written(&self, pages: Range<u64>, written: &mut Vec<Range<u64>>) -> Result<Coverage> {
        self.find_written(pages, false, written)
    }
    /// Threads of this process that store to these pages wait until the guard is dropped; what they stored before is
    /// seen by a peek or a take under the guard. None where the tracker cannot.
    ///
    /// The thread that holds must not store through the mapping, nor wait for a thread of the program: it writes
    /// through another mapping of the file. System calls that store into a held page fail with EFAULT meanwhile.
    fn hold(&self, pages: Range<u64>) -> Result<Option<Hold<'_>>>;
    /// Whether stores may have come, until now, that it does not see: a page that matches no sum may then be one, though
    /// no look shows it.
    fn may_be_blind(&self) -> Result<bool> {
        Ok(false)
    }
    /// For pages that never rest: the same, but system calls that access a held page wait too, where the tracker can
    /// do that (else they fail, as under `hold`). Held pages count as written until they are taken, whether they were
    /// or not. So it is not for repairs, which must know; and as little as it may store may the thread that holds
    /// read them through the mapping: it would wait for itself.
    fn hold_hot(&self, pages: Range<u64>) -> Result<Option<Hold<'_>>> {
        self.hold(pages)
    }
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
    /// A child process may store through the mapping that it inherited.
    Forked,
    /// Another opener of an extent may store into it, through a mapping of its own too.
    ForeignOpener,
    /// An extent was changed by a system call, or its size or times moved and no page was found.
    Moved,
    /// The system no longer tells of this mapping.
    TrackerFailed,
}

/// Writers are held until it is dropped, and so are signals to the thread that has it: a handler of the program's
/// that stored into a held page would wait for the thread that it interrupted.
pub(crate) struct Hold<'t> {
    release: Option<Box<dyn FnOnce() + 't>>,
    /// Signals are given back to the thread that they were taken from.
    not_send: PhantomData<*const ()>,
}

impl<'t> Hold<'t> {
    pub(crate) fn new(release: impl FnOnce() + 't) -> Hold<'t> {
        Hold {
            release: Some(Box::new(release)),
            not_send: PhantomData,
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
