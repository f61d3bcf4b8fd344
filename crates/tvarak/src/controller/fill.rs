//! A line on its way from NVM into the LLC (§3.5): verified.

use crate::controller::state::{Controllers, Loss, Seen, Verified};
use crate::line::{PAGE_LINES, Words, line_sum, page_sum, sum_at};
use crate::mutants::{Mutant, mutated};
use crate::nvm::Nvm;

impl Controllers {
    /// Reads a line of the file for a bank of the LLC: its bytes, and when they are handed over.
    ///
    /// # Errors
    /// It does not match, and cannot be recovered.
    pub fn fill(
        &mut self,
        bank: usize,
        line: u32,
        nvm: &mut Nvm,
        now: u64,
    ) -> Result<(Words, u64), Loss> {
        if self.covers(line) {
            let now = now + self.times.range_match_cycles;
            let verified = self.verified(bank, line, nvm, now)?;
            return Ok((verified.words, verified.done));
        }
        let (words, done) = nvm.read(nvm.layout.data(line), now);
        let words = words.ok_or(Loss {
            page: line / PAGE_LINES,
        })?;
        Ok((words, done))
    }

    /// A mapped line as NVM has it, verified by what the design verifies with. The redundancy and the data are asked
    /// for at the same time.
    pub(in crate::controller) fn verified(
        &mut self,
        bank: usize,
        line: u32,
        nvm: &mut Nvm,
        now: u64,
    ) -> Result<Verified, Loss> {
        let read = match self.design.has_line_sums() {
            true => self.read_with_line_sum(bank, line, nvm, now),
            false => self.read_with_page(bank, line, nvm, now),
        };
        let done = read.done + self.times.computation_cycles;
        if let Some(words) = read.words
            && (read.is_right || mutated(Mutant::VerificationSkipped))
        {
            let seen = read.seen;
            return Ok(Verified { words, done, seen });
        }
        // A trap into the file system; what it takes is no part of a run without bugs.
        self.findings.detected += u64::from(read.words.is_some());
        let words = self.recover(line, nvm)?;
        let seen = None;
        Ok(Verified { words, done, seen })
    }

    fn read_with_line_sum(&mut self, bank: usize, line: u32, nvm: &mut Nvm, now: u64) -> Read {
        let (sum_line, place) = nvm.layout.line_sum(line);
        let (sums, sums_done) = self.redundancy(bank, sum_line, nvm, now);
        let (words, done) = nvm.read(nvm.layout.data(line), now);
        let is_right = match (words, sums) {
            (Some(words), Some(sums)) => line_sum(&words) == sum_at(&sums, place),
            // The DIMM of the checksums is dead, which is known: the data is not held to be wrong.
            (_, None) => true,
            (None, _) => false,
        };
        Read {
            words,
            is_right,
            done: done.max(sums_done),
            seen: sums.map(|words| Seen {
                line: sum_line,
                words,
            }),
        }
    }

    fn read_with_page(&mut self, bank: usize, line: u32, nvm: &mut Nvm, now: u64) -> Read {
        let page = line / PAGE_LINES;
        let (sum_line, place) = nvm.layout.sum(page);
        let (sums, mut done) = self.redundancy(bank, sum_line, nvm, now);
        let mut words = [[0; 8]; PAGE_LINES as usize];
        let mut is_whole = true;
        for (at, words) in words.iter_mut().enumerate() {
            let physical = nvm.layout.data(page * PAGE_LINES + at as u32);
            let (read, read_done) = nvm.read(physical, now);
            is_whole &= read.is_some();
            *words = read.unwrap_or_default();
            done = done.max(read_done);
        }
        let is_sum = |sums| page_sum(&words) == sum_at(&sums, place);
        Read {
            words: is_whole.then_some(words[(line % PAGE_LINES) as usize]),
            is_right: is_whole && sums.is_some_and(is_sum),
            done,
            seen: sums.map(|words| Seen {
                line: sum_line,
                words,
            }),
        }
    }
}

/// What NVM returned.
struct Read {
    /// The line; none of a dead DIMM.
    words: Option<Words>,
    is_right: bool,
    done: u64,
    seen: Option<Seen>,
}
