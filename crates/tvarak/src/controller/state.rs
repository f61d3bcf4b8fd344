//! What the controllers are made of, and how they reach redundancy.
//!
//! Two things hold between any two accesses to NVM. A page's system checksum, a line's DAX-CL-checksum and
//! a stripe's parity, each as the controllers have them, are those of what was last written to NVM, not of what caches
//! have of the data. And with diffs, a mapped line is dirty in the LLC exactly while it has a diff.

use std::ops::Range;

use crate::controller::caches::Caches;
use crate::controller::diffs::Diffs;
use crate::controller::duel::Duel;
use crate::design::Design;
use crate::line::{PAGE_LINES, Words, sum_at};
use crate::mutants::{Mutant, mutated};
use crate::nvm::Nvm;
use crate::nvm::layout::Layout;

/// Data that no copy and no parity has: what the file system tells the program instead of wrong bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "page {page} of the file is lost: it matches no checksum, and what its stripe's parity gives does not either; \
     restore the page from a backup"
)]
pub struct Loss {
    /// The page.
    pub page: u32,
}

/// What the controllers found, and what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Lines or pages that did not match, when they were read from NVM.
    pub detected: u64,
    /// Of these the ones that were right when the file system read them again.
    pub right_again: u64,
    /// Data pages that were written anew from their stripe.
    pub data_repaired: u64,
    /// System checksums, DAX-CL-checksums and parity that were wrong and were made anew: things of one page.
    pub redundancy_repaired: u64,
    /// Lines that were made from their stripe because their DIMM is dead.
    pub degraded_reads: u64,
    /// Pages that could not be recovered.
    pub lost: u64,
}

/// A line of redundancy that was read to verify by.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The line.
    pub line: u32,
    /// What it holds.
    pub words: Words,
}

/// A line that was verified.
#[derive(Clone, Copy, Debug)]
pub struct Verified {
    /// Its bytes.
    pub words: Words,
    /// When they are handed over.
    pub done: u64,
    /// What they were verified by; none after a recovery, which may have changed it.
    pub seen: Option<Seen>,
}

/// How long a controller's own work takes.
#[derive(Clone, Copy, Debug)]
pub struct ControllerTimes {
    /// To match an address.
    pub range_match_cycles: u64,
    /// To compute or to compare a checksum or parity.
    pub computation_cycles: u64,
}

/// The controllers of all banks.
#[derive(Debug)]
pub struct Controllers {
    /// The design.
    pub design: Design,
    /// Their times.
    pub times: ControllerTimes,
    /// Redundancy in caches, if the design has them.
    pub caches: Option<Caches>,
    /// Diffs of dirty lines, if the design has them.
    pub diffs: Option<Diffs>,
    /// The lines of the file that are mapped.
    pub mapped: Range<u32>,
    /// What was found.
    pub findings: Findings,
}

impl Controllers {
    /// The range match: whether a line of the file is one that the controllers protect.
    #[inline]
    pub fn covers(&self, line: u32) -> bool {
        let end = self.mapped.end - u32::from(mutated(Mutant::LastLineNotMatched));
        self.design.has_controller() && self.mapped.start <= line && line < end
    }

    /// How sets divide their ways, in the design that adapts.
    pub fn duel(&self) -> Option<&Duel> {
        self.caches.as_ref().and_then(|caches| caches.duel.as_ref())
    }

    /// The same, to be charged.
    #[inline]
    pub fn duel_mut(&mut self) -> Option<&mut Duel> {
        self.caches.as_mut().and_then(|caches| caches.duel.as_mut())
    }

    /// A line of redundancy, for a look at it: none of a dead DIMM.
    pub fn redundancy(
        &mut self,
        bank: usize,
        line: u32,
        nvm: &mut Nvm,
        now: u64,
    ) -> (Option<Words>, u64) {
        match &mut self.caches {
            Some(caches) => caches.read(bank, line, nvm, now),
            None => nvm.read(line, now),
        }
    }

    /// Changes a line of redundancy; nothing, where its DIMM is dead. A design without caches uses what it has just
    /// `seen` instead of reading the line again.
    pub fn change_redundancy(
        &mut self,
        (bank, line): (usize, u32),
        seen: Option<Seen>,
        nvm: &mut Nvm,
        now: u64,
        change: impl FnOnce(&mut Words),
    ) {
        let seen = seen.filter(|seen| seen.line == line);
        match &mut self.caches {
            Some(caches) => caches.update(bank, line, nvm, now, change),
            None => {
                let (read, done) = match seen {
                    Some(seen) => (Some(seen.words), now),
                    None => nvm.read(line, now),
                };
                if let Some(mut words) = read {
                    change(&mut words);
                    nvm.write(line, &words, done);
                }
            }
        }
    }

    /// A line of redundancy as it holds now, read by the file system; none of a dead DIMM that no cache has.
    pub fn current(&self, line: u32, nvm: &mut Nvm) -> Option<Words> {
        let cached = self.caches.as_ref().and_then(|caches| caches.peek(line));
        cached.or_else(|| nvm.file_system_read(line))
    }

    /// Replaces a line of redundancy, wherever it is.
    pub fn replace(&mut self, line: u32, words: &Words, nvm: &mut Nvm) {
        // Power may fail before the write: what caches have is of other pages, too.
        nvm.file_system_write(line, words);
        if let Some(caches) = &mut self.caches {
            caches.forget(line);
        }
    }

    /// The system checksum of a page as it holds now.
    pub fn current_sum(&self, page: u32, nvm: &mut Nvm) -> Option<u32> {
        let (line, place) = nvm.layout.sum(page);
        let words = self.current(line, nvm)?;
        Some(sum_at(&words, place))
    }

    /// The DAX-CL-checksums of a page's lines as they hold now; `None` for those of a dead DIMM, and for all where the
    /// design has none.
    pub fn current_line_sums(&self, page: u32, nvm: &mut Nvm) -> Vec<Option<u32>> {
        let layout: Layout = nvm.layout;
        let lines = page * PAGE_LINES..(page + 1) * PAGE_LINES;
        if !self.design.has_line_sums() || !self.mapped.contains(&lines.start) {
            return vec![None; PAGE_LINES as usize];
        }
        let mut sums = Vec::with_capacity(PAGE_LINES as usize);
        for first in lines.step_by(16) {
            let (line, _) = layout.line_sum(first);
            let words = self.current(line, nvm);
            sums.extend((0..16).map(|place| words.map(|words| sum_at(&words, place))));
        }
        sums
    }
}
