//! Comparing pages with their sums and rows with their parity, and repairing what differs.

use std::ops::Range;

use super::alone::{Alone, NotAsked};
use super::pages::Pages;
use super::rows::{BATCH_ROWS, Rows};
use super::state::{Engine, State};
use crate::error::Result;
use crate::format::{PAGE_BYTES, Sum};
use crate::medium::PageSum;
use crate::report::Verified;
use crate::track::Coverage;

type Page = [u8; PAGE_BYTES as usize];

/// How a page of a row stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    /// A sum vouches for it.
    Vouched,
    /// It was stored to, or may have been: the next pass has it.
    Written,
    /// No sum vouches for it, and nobody stored to it.
    Damaged,
}

impl Engine {
    /// Looks at these pages of the region, and repairs what their rows give. Pages that are stored to are left to passes.
    pub fn verify(&self, pages: &Range<u64>) -> Result<Verified> {
        self.verify_alone(pages, &NotAsked)
    }

    /// The same where no other program has an extent, which is asked again before a page is repaired.
    pub(super) fn verify_alone(&self, pages: &Range<u64>, alone: &dyn Alone) -> Result<Verified> {
        let mut state = self.lock();
        let mut verified = Verified::default();
        let geometry = self.medium.geometry;
        let mut copies = Rows::new(geometry);
        for rows in self.rows_of(std::slice::from_ref(pages)).ranges() {
            for run in geometry.runs(rows.clone(), BATCH_ROWS) {
                let (before, coverage) = self.peek_rows(&run)?;
                copies.copy(&self.medium, run.clone());
                let (after, _) = self.peek_rows(&run)?;
                let written = [before.ranges(), after.ranges()].concat();
                let look = Look {
                    wanted: pages,
                    written: Pages::new(written),
                    is_blind: coverage != Coverage::Complete || state.must_compare,
                    alone,
                };
                for row in run {
                    self.verify_row(&mut state, row, &look, &mut copies, &mut verified)?;
                }
            }
        }
        if verified.repaired > 0 {
            // What was repaired is durable before it counts as good.
            self.medium.fence_parts()?;
            self.medium.fence_sidecars()?;
        }
        state.counts.repaired_pages += verified.repaired;
        for named in [&mut verified.unverified, &mut verified.lost] {
            *named = Pages::new(std::mem::take(named)).bytes();
        }
        Ok(verified)
    }

    fn verify_row(
        &self,
        state: &mut State,
        row: u64,
        look: &Look<'_>,
        copies: &mut Rows,
        verified: &mut Verified,
    ) -> Result<()> {
        let geometry = self.medium.geometry;
        let extents = 0..geometry.extents();
        let mut standings: Vec<Standing> = Vec::with_capacity(geometry.extents());
        for extent in extents.clone() {
            standings.push(self.standing(state, extent, row, look, copies)?);
        }
        let bad: Vec<usize> = extents
            .clone()
            .filter(|&extent| standings[extent] == Standing::Damaged)
            .collect();
        let others_stand = |bad: usize| {
            let mut others = extents.clone().filter(|&other| other != bad);
            others.all(|other| standings[other] == Standing::Vouched)
        };
        for extent in bad {
            let page = geometry.page(extent, row);
            let is_repaired =
                others_stand(extent) && self.rebuild_page(state, extent, row, look, copies)?;
            if is_repaired {
                standings[extent] = Standing::Vouched;
                verified.repaired += 1;
                state.damaged.remove(&page);
                break;
            }
            state.damaged.insert(page);
        }
        for extent in extents.clone() {
            let page = geometry.page(extent, row);
            if !look.wanted.contains(&page) {
                continue;
            }
            let told = self.medium.sum(extent, row).newest();
            if told.is_unverified() {
                note(&mut verified.unverified, page);
            }
            if told.is_lost() {
                note(&mut verified.lost, page);
            }
            match standings[extent] {
                Standing::Written => verified.skipped_as_written += 1,
                Standing::Vouched => {
                    verified.looked_at += 1;
                    state.damaged.remove(&page);
                }
                Standing::Damaged => {
                    verified.looked_at += 1;
                    verified.damaged.push(page * PAGE_BYTES);
                }
            }
        }
        let all_vouched = standings.iter().all(|&one| one == Standing::Vouched);
        if all_vouched {
            verified.repaired += self.verify_sums(row, copies);
            verified.repaired += u64::from(self.verify_parity(row, copies));
        }
        Ok(())
    }

    /// How a page stands; one that no sum vouches for is looked at once more, from the medium.
    fn standing(
        &self,
        state: &State,
        extent: usize,
        row: u64,
        look: &Look<'_>,
        copies: &mut Rows,
    ) -> Result<Standing> {
        let page = self.medium.geometry.page(extent, row);
        if look.written.contains(page) || state.waits.is_waiting(page) {
            return Ok(Standing::Written);
        }
        if copies.is_vouched(&self.medium, extent, row) {
            return Ok(Standing::Vouched);
        }
        copies.copy_anew(&self.medium, extent, row);
        if copies.is_vouched(&self.medium, extent, row) {
            return Ok(Standing::Vouched);
        }
        let (written, coverage) = self.peek_rows(&(row..row + 1))?;
        let is_blind =
            look.is_blind || coverage != Coverage::Complete || self.tracker.may_be_blind()?;
        Ok(match is_blind || written.contains(page) {
            true => Standing::Written,
            false => Standing::Damaged,
        })
    }

    /// Puts a damaged page right from its row, its writers held; whether it could.
    fn rebuild_page(
        &self,
        state: &mut State,
        extent: usize,
        row: u64,
        look: &Look<'_>,
        copies: &mut Rows,
    ) -> Result<bool> {
        let medium = &self.medium;
        let mut parity: Page = [0; PAGE_BYTES as usize];
        let parity_role = medium.geometry.parity_role();
        medium.read_page(parity_role, row, &mut parity);
        let page = copies.rebuilt(extent, row, &parity);
        let sum = Sum::of(&page, extent, row, 0);
        if medium.sum(extent, row).vouching_for(sum.check()).is_none() {
            return Ok(self.right_sum(state, extent, row, sum.check(), copies));
        }
        let number = medium.geometry.page(extent, row);
        let Some(_hold) = self.tracker.hold(number..number + 1)? else {
            return Ok(false);
        };
        // A store that came before the hold is not to be overwritten.
        let (written, coverage) = self.peek_rows(&(row..row + 1))?;
        copies.copy_anew(medium, extent, row);
        let may_be_store = written.contains(number)
            || coverage != Coverage::Complete
            || self.tracker.may_be_blind()?
            || look.alone.check().is_err();
        if may_be_store || copies.is_vouched(medium, extent, row) {
            return Ok(false);
        }
        medium.stream_page(extent, row, &page);
        // The page is on the medium before its writers may add to it.
        medium.fence_parts()?;
        copies.copy_anew(medium, extent, row);
        Ok(copies.is_vouched(medium, extent, row))
    }

    /// Makes anew the sum of a page that is what its row gives, where an earlier copy of it says the same: the later copy is
    /// another page's, or nothing's. A page that was not written would have left both copies later. Whether it was so.
    fn right_sum(
        &self,
        state: &mut State,
        extent: usize,
        row: u64,
        given: u32,
        copies: &Rows,
    ) -> bool {
        let sums = self.medium.sums(extent, row);
        let Some(earlier) = sums.into_iter().find(|sum| sum.check() == given) else {
            return false;
        };
        if copies.check(extent, row) != Some(given) {
            return false;
        }
        state.pass += 1;
        let sum = Sum::from_check(given, state.pass).with_flags_of(earlier);
        self.medium.put_sums(&[PageSum { extent, row, sum }]);
        true
    }

    /// Makes both copies of each page's sum the one that vouches for it; how many were not.
    fn verify_sums(&self, row: u64, copies: &Rows) -> u64 {
        let medium = &self.medium;
        let mut repaired = 0;
        for extent in 0..medium.geometry.extents() {
            let check = copies.check(extent, row);
            let right = check.and_then(|check| medium.sum(extent, row).vouching_for(check));
            let sum = right.expect("a sum vouches for the page");
            if medium.sums(extent, row) != [sum, sum] {
                medium.put_sums(&[PageSum { extent, row, sum }]);
                repaired += 1;
            }
        }
        repaired
    }

    /// Makes the parity of a row fit pages that sums vouch for; whether it did not.
    fn verify_parity(&self, row: u64, copies: &Rows) -> bool {
        let medium = &self.medium;
        let role = medium.geometry.parity_role();
        let mut right: Page = [0; PAGE_BYTES as usize];
        let mut found: Page = [0; PAGE_BYTES as usize];
        copies.parity(row, &mut right);
        if medium.read_page(role, row, &mut found).is_some() && found == right {
            return false;
        }
        if medium.read_page_anew(role, row, &mut found).is_some() && found == right {
            return false;
        }
        medium.stream_page(role, row, &right);
        true
    }
}

/// Adds a page to ranges, most often behind the last one.
fn note(pages: &mut Vec<Range<u64>>, page: u64) {
    match pages.last_mut() {
        Some(last) if last.end == page => last.end = page + 1,
        _ => pages.push(page..page + 1),
    }
}

/// What one run of rows is looked at with.
struct Look<'p> {
    wanted: &'p Range<u64>,
    written: Pages,
    /// The tracker may have missed stores: what matches no sum may be one.
    is_blind: bool,
    alone: &'p dyn Alone,
}
