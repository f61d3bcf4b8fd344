//! Sealing: every sum matches its page, the parity is that of its rows, all is durable, and a line says so.

use super::alone::{Alone, NotAsked, TakeAlone};
use super::format::{note_files, put_on_all};
use super::pass::damaged;
use super::state::{Engine, State};
use crate::error::{ErrorKind, Result};
use crate::format::{Line, Mark};
use crate::mutants::{Mutant, mutated};
use crate::report::{Sealed, Verified};
use crate::track::Coverage;

impl Engine {
    /// Seals the region, whose writers are gone as far as this process knows; `take_alone` knows of other processes.
    pub fn seal(self, take_alone: TakeAlone<'_>) -> Result<Sealed> {
        let alone = match mutated(Mutant::SealedWhileMapped) {
            true => Box::new(NotAsked),
            false => take_alone(&self.medium)?,
        };
        let before = {
            let mut state = self.lock();
            state.must_compare |= !alone.was_alone();
            state.counts.covered_pages
        };
        // What programs stored last: a page that no tracker vouches for and no sum matches is a store.
        self.pass()?;
        let (line, verified) = self.read_back(&*alone)?;
        let mut state = self.lock();
        for extent in 0..self.medium.geometry.extents() {
            for row in 0..self.medium.geometry.rows() {
                self.medium.flush_page(extent, row);
            }
        }
        // Everything that was compared is durable before the seal vouches for it.
        self.medium.fence_parts()?;
        alone.check()?;
        let line = Line {
            pass: state.pass,
            unverified_pages: verified.unverified_pages(),
            lost_pages: verified.lost_pages(),
            ..line
        };
        self.put(&mut state, line)?;
        if let Err(mapped) = alone.check() {
            // Somebody waits to open it who may store then: the mark is durable before that.
            let line = state.line.next(Mark::Open);
            self.put(&mut state, line)?;
            return Err(mapped);
        }
        Ok(Sealed {
            generation: state.line.generation.count(),
            pages: verified.looked_at,
            written_pages: state.counts.covered_pages - before,
            repaired_pages: state.counts.repaired_pages,
            unverified_pages: state.line.unverified_pages,
            lost_pages: state.line.lost_pages,
        })
    }

    /// Compares every page with its sum. The times of the files that the seal is to keep are from before that, so that a
    /// store after it shows; where a repair has moved them it is done once more.
    fn read_back(&self, alone: &dyn Alone) -> Result<(Line, Verified)> {
        let all = 0..self.medium.geometry.pages();
        loop {
            let mut line = self.line().next(Mark::Sealed);
            note_files(&mut line, &self.medium)?;
            let verified = self.verify_alone(&all, alone)?;
            if !verified.damaged.is_empty() {
                return Err(damaged(&self.lock()));
            }
            if verified.skipped_as_written > 0 {
                let path = self.medium.parts[0].path.clone();
                return Err(ErrorKind::Mapped { path }.into());
            }
            if verified.repaired == 0 {
                return Ok((line, verified));
            }
        }
    }

    /// Writes a line to all sidecars, durably. Its generation is used up, whether that succeeds or not.
    pub(super) fn put(&self, state: &mut State, line: Line) -> Result<()> {
        state.line.generation = line.generation;
        put_on_all(&self.medium, &line)?;
        state.line = line;
        Ok(())
    }

    /// Whether the tracker has seen every store until now, when no more can come, and passes have covered all: what
    /// matches no sum is then damage.
    pub fn has_seen_all(&self) -> bool {
        let all = 0..self.medium.geometry.pages();
        let mut found = Vec::new();
        let taken = self.tracker.take_written(all.clone(), &mut found);
        let state = self.lock();
        matches!(taken, Ok(Coverage::Complete))
            && found.is_empty()
            && state.waits.waiting(&all).next().is_none()
            && !state.must_compare
    }
}
