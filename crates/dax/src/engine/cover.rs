//! Rows that were written are given parity and sums: steps 2 to 5 of a pass.

use std::ops::Range;
use std::time::Instant;

use super::pages::Pages;
use super::rows::{BATCH_ROWS, Rows};
use super::state::{Engine, State};
use crate::error::Result;
use crate::format::{PAGE_BYTES, Sum};
use crate::medium::PageSum;
use crate::mutants::{Mutant, mutated};
use crate::track::Coverage;

/// Which pages a pass takes for written.
pub(super) struct Written {
    /// Those that the tracker named, and those that wait.
    pub pages: Pages,
    /// And every page that matches no sum: the tracker may have missed some.
    pub compare: bool,
    /// And every other one: what a killed process left in sums and parity is seen, and may not be on the medium.
    pub all: bool,
    /// What matches no sum may be damage from before, and is named.
    pub is_in_doubt: bool,
    /// The end of the scan before: no page that is found now was stored to earlier.
    pub since: Instant,
}

/// Sums that a pass is to write.
#[derive(Default)]
struct Covered {
    /// Of pages that it covers.
    pages: Vec<PageSum>,
    /// Of pages that it leaves out, which are to be named.
    named: Vec<PageSum>,
}

/// What a batch's second look found.
struct Again {
    pages: Pages,
    /// It may not have seen all: copies are compared with their pages.
    reread: bool,
}

impl Engine {
    /// Copies the rows, leaves out those that are stored to meanwhile, makes parity and data durable, **fence**, then the
    /// sums, **fence**.
    pub(super) fn cover(&self, state: &mut State, rows: &Pages, written: &Written) -> Result<()> {
        let geometry = self.medium.geometry;
        let pass = state.pass + 1;
        let mut copies = Rows::new(geometry);
        let mut covered = Covered::default();
        let mut flushed = false;
        for range in rows.ranges() {
            for run in geometry.runs(range.clone(), BATCH_ROWS) {
                copies.copy(&self.medium, run.clone());
                let again = self.look_again(state, &run, written.compare)?;
                for row in run {
                    if written.compare {
                        // A page may have been stored to and back again: what is vouched for is to be on the medium.
                        self.flush_row(row);
                        flushed = true;
                    }
                    self.cover_row(state, row, written, &again, &mut copies, &mut covered);
                }
            }
        }
        let Covered { pages, named } = covered;
        let sums = [&pages[..], &named].concat();
        let makes_durable = flushed || !sums.is_empty();
        if mutated(Mutant::SumsBeforeParity) {
            self.put_sums(state, &sums, pass)?;
        }
        if makes_durable {
            // Data and parity are durable before the sums that vouch for them.
            self.medium.fence_parts()?;
            state.counts.fences += 1;
        }
        if !sums.is_empty() && !mutated(Mutant::SumsBeforeParity) {
            self.put_sums(state, &sums, pass)?;
        }
        if !sums.is_empty() {
            state.pass = pass;
        }
        let now = Instant::now();
        for PageSum { extent, row, .. } in &pages {
            let page = geometry.page(*extent, *row);
            state.waits.covered(page, now);
            state.damaged.remove(&page);
        }
        state.counts.covered_pages += pages.len() as u64;
        Ok(())
    }

    fn put_sums(&self, state: &mut State, covered: &[PageSum], pass: u64) -> Result<()> {
        debug_assert!(covered.iter().all(|one| one.sum.passes_after(pass) == 0));
        self.medium.put_sums(covered);
        // The sums are durable before the pages count as protected.
        self.medium.fence_sidecars()?;
        state.counts.fences += 1;
        Ok(())
    }

    fn flush_row(&self, row: u64) {
        for extent in 0..self.medium.geometry.extents() {
            self.medium.flush_page(extent, row);
        }
    }

    /// Step 3: which pages of a run were stored to since they were taken.
    fn look_again(&self, state: &mut State, run: &Range<u64>, compare: bool) -> Result<Again> {
        if mutated(Mutant::RescanSkipped) {
            return Ok(Again {
                pages: Pages::default(),
                reread: false,
            });
        }
        let (pages, coverage) = self.peek_rows(run)?;
        let is_partial = coverage != Coverage::Complete;
        state.must_compare |= is_partial;
        let reread = compare || is_partial;
        Ok(Again { pages, reread })
    }

    /// Pages of a run of rows that the tracker calls written now, without taking them.
    pub(super) fn peek_rows(&self, run: &Range<u64>) -> Result<(Pages, Coverage)> {
        let geometry = self.medium.geometry;
        let mut found = Vec::new();
        let mut coverage = Coverage::Complete;
        for extent in 0..geometry.extents() {
            let first = geometry.page(extent, run.start);
            let pages = first..first + (run.end - run.start);
            match self.tracker.peek_written(pages, &mut found)? {
                Coverage::Complete => {}
                missed => coverage = missed,
            }
        }
        Ok((Pages::new(found), coverage))
    }

    /// Streams the parity of a row whose copies are good, and adds its written pages to `covered`.
    fn cover_row(
        &self,
        state: &mut State,
        row: u64,
        written: &Written,
        again: &Again,
        copies: &mut Rows,
        covered: &mut Covered,
    ) {
        let geometry = self.medium.geometry;
        let extents = 0..geometry.extents();
        let vouched: Vec<bool> = extents
            .clone()
            .map(|extent| copies.is_vouched(&self.medium, extent, row))
            .collect();
        let is_written = |extent: usize| {
            written.all
                || written.pages.contains(geometry.page(extent, row))
                || (written.compare && !vouched[extent])
        };
        let is_doubted = |extent: usize| written.is_in_doubt && !vouched[extent];
        let taken: Vec<usize> = extents
            .clone()
            .filter(|&extent| is_written(extent))
            .collect();
        if taken.is_empty() {
            return;
        }
        for &extent in &taken {
            state.waits.found(geometry.page(extent, row), written.since);
        }
        let is_again = |extent: usize| {
            let page = geometry.page(extent, row);
            again.pages.contains(page)
                || (again.reread && !copies.is_unchanged(&self.medium, extent, row))
        };
        let has_moved = extents.clone().any(is_again);
        let is_sound = !has_moved
            && extents
                .filter(|extent| !taken.contains(extent))
                .all(|mate| vouched[mate] || self.is_mate_sound(state, mate, row, copies));
        if !is_sound
            || taken
                .iter()
                .any(|&extent| copies.check(extent, row).is_none())
        {
            for extent in taken {
                self.leave_out(state, extent, row, is_doubted(extent), covered);
            }
            return;
        }
        let mut parity = [0; PAGE_BYTES as usize];
        copies.parity(row, &mut parity);
        self.medium
            .stream_page(geometry.parity_role(), row, &parity);
        for extent in taken {
            match written.all && !vouched[extent] {
                true => self.medium.flush_found_page(extent, row),
                false => self.medium.flush_page(extent, row),
            }
            let check = copies.check(extent, row).expect("looked at above");
            // A store does not make right what it does not reach: what was told of the page is still told, by whichever
            // copy: one of them may be what the medium put there.
            let [one, other] = self.medium.sums(extent, row);
            let sum = Sum::from_check(check, state.pass + 1);
            let mut sum = sum.with_flags_of(one).with_flags_of(other);
            if is_doubted(extent) {
                sum = sum.unverified();
            }
            covered.pages.push(PageSum { extent, row, sum });
        }
    }

    /// Leaves a page to a later pass, which hands on what its sum tells: that it is in doubt, if it is.
    fn leave_out(
        &self,
        state: &mut State,
        extent: usize,
        row: u64,
        is_doubted: bool,
        covered: &mut Covered,
    ) {
        state.waits.skipped(self.medium.geometry.page(extent, row));
        state.counts.skipped_pages += 1;
        if is_doubted {
            let told = self.medium.sum(extent, row).newest().unverified();
            let sum = Sum::from_check(told.check(), state.pass + 1).with_flags_of(told);
            covered.named.push(PageSum { extent, row, sum });
        }
    }

    /// A mate that matches no sum although nobody stored to it is looked at once more, from the medium. If it still does
    /// not match it is damaged: the row's parity is from before the store, so it does not give the page, and nothing
    /// that is made of it may replace that parity.
    fn is_mate_sound(&self, state: &mut State, mate: usize, row: u64, copies: &mut Rows) -> bool {
        if mutated(Mutant::MateFromUnverifiedPage) {
            return true;
        }
        copies.copy_anew(&self.medium, mate, row);
        if copies.is_vouched(&self.medium, mate, row) {
            return true;
        }
        let page = self.medium.geometry.page(mate, row);
        let peeked = self.peek_rows(&(row..row + 1));
        let peeked = peeked.and_then(|peeked| Ok((peeked, self.tracker.may_be_blind()?)));
        match peeked {
            Ok(((pages, Coverage::Complete), false)) if !pages.contains(page) => {
                state.damaged.insert(page);
            }
            // It may have been stored to unseen: the next pass compares.
            Ok((_, true)) => state.must_compare = true,
            // It was stored to: the next pass has it.
            Ok(_) => {}
            Err(error) => state.last_failure = Some(error.to_string()),
        }
        false
    }
}
