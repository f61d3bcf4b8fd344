//! An open region: its files, its tracker, and what passes know of it.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::pages::Pages;
use super::window::Waits;
use crate::format::Line;
use crate::medium::Medium;
use crate::mutants::{Mutant, mutated};
use crate::report::{Counts, RegionState, Status};
use crate::track::Tracker;

/// An open region. The mark `open` is durable before there is one.
pub(crate) struct Engine {
    pub medium: Medium,
    pub(super) tracker: Box<dyn Tracker>,
    state: Mutex<State>,
}

/// What one pass leaves to the next.
pub(super) struct State {
    pub line: Line,
    /// The last pass that ended.
    pub pass: u64,
    pub waits: Waits,
    pub counts: Counts,
    /// Pages that match no sum although nobody stored to them, and that their rows do not give.
    pub damaged: BTreeSet<u64>,
    /// The tracker may have missed something: the next pass compares every page.
    pub must_compare: bool,
    /// It takes every page, also of those that match.
    pub must_take_all: bool,
    /// What matches no sum in it is unverified.
    pub is_in_doubt: bool,
    /// When the last scan of the whole region began: what it did not find was stored to later.
    pub scanned: Instant,
    pub last_failure: Option<String>,
}

impl State {
    /// Notes pages that a scan found written; since when they may wait.
    pub fn note_found(&mut self, found: Vec<Range<u64>>) -> Instant {
        for page in Pages::new(found).iter() {
            self.waits.found(page, self.scanned);
        }
        self.scanned
    }
}

/// What the first pass of an engine takes for written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstPass {
    /// What its tracker names.
    Tracked,
    /// What matches no sum, too: pages may have been stored to that the tracker has not seen.
    Compares,
    /// Every page: a process that was killed may have left sums and parity that are seen, and are not on the medium.
    TakesAll,
    /// The same after an end that nobody saw: what matches no sum is damage or a store, nobody can tell, and is named.
    Doubts,
}

impl Engine {
    pub fn new(medium: Medium, line: Line, tracker: Box<dyn Tracker>, first: FirstPass) -> Engine {
        Engine {
            medium,
            tracker,
            state: Mutex::new(State {
                pass: line.pass,
                line,
                waits: Waits::default(),
                counts: Counts::default(),
                damaged: BTreeSet::new(),
                must_compare: first != FirstPass::Tracked,
                must_take_all: matches!(first, FirstPass::TakesAll | FirstPass::Doubts)
                    && !mutated(Mutant::FirstPassTakesDifferingOnly),
                is_in_doubt: first == FirstPass::Doubts,
                scanned: Instant::now(),
                last_failure: None,
            }),
        }
    }

    /// The same region with another tracker; the one before is dropped.
    pub fn with_tracker(self, tracker: Box<dyn Tracker>) -> Engine {
        Engine { tracker, ..self }
    }

    /// One pass, verification or seal at a time.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // A pass that panicked has written no sum for what it did not fence.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a page was found written and is not covered.
    #[cfg(any(test, feature = "campaign"))]
    pub fn is_waiting(&self, page: u64) -> bool {
        self.lock().waits.is_waiting(page)
    }

    /// The line that stands.
    pub fn line(&self) -> Line {
        self.lock().line.clone()
    }

    pub fn status(&self) -> Status {
        let state = self.lock();
        let (line, kind) = (&state.line, self.tracker.kind());
        Status {
            name: line.name.clone(),
            size_bytes: line.geometry.size_bytes,
            width: line.geometry.width,
            state: RegionState::of(line.mark),
            generation: line.generation.count(),
            tracker: kind,
            misses: kind.misses(),
            window: state.waits.report(Instant::now()),
            counts: state.counts,
            unverified_pages: line.unverified_pages,
            lost_pages: line.lost_pages,
            damaged: offsets(&state.damaged),
            last_failure: state.last_failure.clone(),
        }
    }
}

/// Where pages begin in the region, in bytes.
pub(super) fn offsets(pages: &BTreeSet<u64>) -> Vec<u64> {
    let page_bytes = crate::format::PAGE_BYTES;
    pages.iter().map(|page| page * page_bytes).collect()
}
