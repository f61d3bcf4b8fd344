//! Sealing: every sum matches its page, the parity is that of its rows, all is durable, and a line says so.

use super::format::{file_lines, put_lines};
use super::pass::damaged;
use super::state::Engine;
use crate::error::{ErrorKind, Result};
use crate::format::Line;
use crate::medium::Medium;
use crate::mutants::{Mutant, mutated};
use crate::report::{RegionState, Sealed};
use crate::track::Coverage;

/// That no other program has an extent open or mapped, for as long as it lives.
pub(crate) trait Alone {
    /// An error if one waits to open an extent.
    fn check(&self) -> Result<()>;
}

/// Makes sure of that, or says by an error that a program has an extent.
pub(crate) type TakeAlone<'a> = &'a dyn for<'m> Fn(&'m Medium) -> Result<Box<dyn Alone + 'm>>;

struct NotAsked;

impl Alone for NotAsked {
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

impl Engine {
    /// Seals the region, whose writers are gone as far as this process knows; `take_alone` knows of other processes.
    pub fn seal(self, take_alone: TakeAlone<'_>) -> Result<Sealed> {
        let alone = match mutated(Mutant::SealedWhileMapped) {
            true => Box::new(NotAsked),
            false => take_alone(&self.medium)?,
        };
        let all = 0..self.medium.geometry.pages();
        let before = self.lock().counts.covered_pages;
        // What programs stored last: a page that no tracker vouches for and no sum matches is a store.
        self.pass()?;
        let verified = self.verify(&all)?;
        let mut state = self.lock();
        if !verified.damaged.is_empty() {
            return Err(damaged(&state));
        }
        if verified.skipped_as_written > 0 {
            let path = self.medium.parts[0].path.clone();
            return Err(ErrorKind::Mapped { path }.into());
        }
        for extent in 0..self.medium.geometry.extents() {
            for row in 0..self.medium.geometry.rows() {
                self.medium.flush_page(extent, row);
            }
        }
        // Everything that was compared is durable before the seal vouches for it.
        self.medium.fence_parts()?;
        alone.check()?;
        let line = Line {
            generation: state.line.generation + 1,
            state: RegionState::Sealed,
            pass: state.pass,
            files: file_lines(&self.medium)?,
            ..state.line.clone()
        };
        put_lines(&self.medium, &line)?;
        state.line = line;
        if let Err(mapped) = alone.check() {
            // Somebody waits to open it who may store then.
            self.mark_open(&mut state.line)?;
            return Err(mapped);
        }
        Ok(Sealed {
            generation: state.line.generation,
            pages: verified.looked_at,
            written_pages: state.counts.covered_pages - before,
            repaired_pages: state.counts.repaired_pages,
            unverified_pages: state.line.unverified_pages,
            lost_pages: state.line.lost_pages,
        })
    }

    fn mark_open(&self, line: &mut Line) -> Result<()> {
        line.generation += 1;
        line.state = RegionState::Open;
        // The mark is durable before anybody can store.
        put_lines(&self.medium, line)
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
