//! The tracker of faults: pages are read-only until a thread stores to them, which a handler of SIGSEGV notes.

use std::io;
use std::ops::Range;

#[cfg(test)]
use super::guard::Counts;
use super::guard::{Mode, Registered};
use super::span::Span;
use super::{Coverage, Hold, Missed, Tracker};
use crate::error::{ErrorKind, Result};
use crate::options::TrackerKind;

/// Sees stores by threads. A system call that stores into a page that no thread stored to fails with EFAULT.
#[derive(Debug)]
pub(crate) struct FaultTracker {
    region: Registered,
}

fn refused(tracker: TrackerKind, found: String) -> ErrorKind {
    ErrorKind::Tracker { tracker, found }
}

impl FaultTracker {
    /// Begins to track the mapping.
    pub(crate) fn new(mapping: Span) -> Result<FaultTracker> {
        let step = |what: &'static str| {
            move |error: io::Error| refused(TrackerKind::Fault, format!("{what}: {error}"))
        };
        let region = Registered::new(mapping, Mode::Noting).map_err(step("SIGSEGV"))?;
        region.arm().map_err(step("mprotect"))?;
        Ok(FaultTracker { region })
    }

    fn coverage(&self) -> Coverage {
        // A program's handler that came after ours may keep faults to itself, or let stores pass on its own.
        match self.region.is_installed() {
            true => Coverage::Complete,
            false => Coverage::MayHaveMissed(Missed::TrackerFailed),
        }
    }

    #[cfg(test)]
    pub(crate) fn counts(&self) -> Counts {
        self.region.counts()
    }

    #[cfg(test)]
    pub(crate) fn region(&self) -> &Registered {
        &self.region
    }
}

impl Tracker for FaultTracker {
    fn kind(&self) -> TrackerKind {
        TrackerKind::Fault
    }

    fn find_written(
        &self,
        pages: Range<u64>,
        takes: bool,
        written: &mut Vec<Range<u64>>,
    ) -> Result<Coverage> {
        self.region.noted(pages, takes, written);
        Ok(self.coverage())
    }

    fn hold(&self, pages: Range<u64>) -> Result<Option<Hold<'_>>> {
        hold(&self.region, &pages, self.kind())
    }
}

/// Holds the writers of these pages of the region. None where another handler than ours hears of stores to them first.
pub(super) fn hold<'r>(
    region: &'r Registered,
    pages: &Range<u64>,
    tracker: TrackerKind,
) -> Result<Option<Hold<'r>>> {
    if !region.is_installed() {
        return Ok(None);
    }
    let held = region.hold(pages).map_err(|error| {
        refused(
            tracker,
            format!("pages {pages:?} could not be held: {error}"),
        )
    })?;
    Ok(Some(Hold::new(move || drop(held))))
}
