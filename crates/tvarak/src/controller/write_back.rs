//! A line on its way from the LLC to NVM (§3.5): its checksums and its stripe's parity follow.

use crate::controller::state::{Controllers, Loss, Seen, Verified};
use crate::line::{PAGE_LINES, Words, difference, line_sum, set_sum, sum_at};
use crate::mutants::{Mutant, mutated};
use crate::nvm::Nvm;

/// The checksum of a page in which a line changes by `change`: the CRC is linear.
fn sum_after(sum: u32, change: &Words, line: u32) -> u32 {
    let tail_bytes = 64 * (PAGE_LINES - 1 - line % PAGE_LINES) as usize;
    let mut bytes = [0; 64];
    for (bytes, word) in bytes.chunks_exact_mut(8).zip(change) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    forebay_pmem::crc32c_combine_delta(sum, &[0; 64], &bytes, tail_bytes)
}

/// A line that is written.
struct Change<'a> {
    line: u32,
    new: &'a Words,
    diff: &'a Words,
}

impl Controllers {
    /// Writes a line of the file back. `diff` is by what it differs from NVM, where the design keeps that; others read
    /// the old line, and verify it, for a diff from wrong data would make redundancy wrong, too.
    ///
    /// # Errors
    /// The old line is wrong and cannot be recovered. Nothing was written.
    pub fn write_back(
        &mut self,
        bank: usize,
        line: u32,
        new: &Words,
        diff: Option<Words>,
        nvm: &mut Nvm,
        now: u64,
    ) -> Result<(), Loss> {
        if !self.covers(line) {
            nvm.write(nvm.layout.data(line), new, now);
            return Ok(());
        }
        let now = now + self.times.range_match_cycles;
        let (diff, seen, now) = match diff {
            Some(diff) => (diff, None, now),
            None => {
                let old = self.old_line(bank, line, nvm, now)?;
                (difference(&old.words, new), old.seen, old.done)
            }
        };
        let change = Change {
            line,
            new,
            diff: &diff,
        };
        let now = now + self.times.computation_cycles;
        self.update_redundancy(bank, &change, seen, nvm, now);
        nvm.write(nvm.layout.data(line), new, now);
        Ok(())
    }

    fn old_line(
        &mut self,
        bank: usize,
        line: u32,
        nvm: &mut Nvm,
        now: u64,
    ) -> Result<Verified, Loss> {
        if mutated(Mutant::OldDataUnverified) {
            let (words, done) = nvm.read(nvm.layout.data(line), now);
            let words = words.unwrap_or_default();
            let seen = None;
            return Ok(Verified { words, done, seen });
        }
        self.verified(bank, line, nvm, now)
    }

    fn update_redundancy(
        &mut self,
        bank: usize,
        change: &Change<'_>,
        seen: Option<Seen>,
        nvm: &mut Nvm,
        now: u64,
    ) {
        let Change { line, new, diff } = *change;
        let layout = nvm.layout;
        let page = line / PAGE_LINES;
        if !mutated(Mutant::SumNotUpdated) {
            let (sums, place) = layout.sum(page);
            self.change_redundancy((bank, sums), seen, nvm, now, |words| {
                let sum = sum_after(sum_at(words, place), diff, line);
                set_sum(words, place, sum);
            });
        }
        if self.design.has_line_sums() && !mutated(Mutant::LineSumNotUpdated) {
            let (sums, place) = layout.line_sum(line);
            self.change_redundancy((bank, sums), seen, nvm, now, |words| {
                set_sum(words, place, line_sum(new));
            });
        }
        if !mutated(Mutant::ParityNotUpdated) {
            let parity = layout.parity(layout.stripe(page), line % PAGE_LINES);
            self.change_redundancy((bank, parity), seen, nvm, now, |words| {
                *words = difference(words, diff);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::page_sum;

    #[test]
    fn a_page_s_checksum_follows_from_the_change_alone() {
        let mut page = [[5; 8]; PAGE_LINES as usize];
        let mut sum = page_sum(&page);
        for line in [0_u32, 1, 31, 63, 31] {
            let change = [u64::from(line) << 7 | 1; 8];
            page[line as usize] = difference(&page[line as usize], &change);
            sum = sum_after(sum, &change, 64 * 7 + line);
            assert_eq!(sum, page_sum(&page));
        }
    }
}
