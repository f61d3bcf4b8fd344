//! The mark of a pool that stands in front of another: at the backing, beside the other's own mark.
//!
//! The pool in front writes it and goes by it as any pool by its backing's mark. The pool behind looks at it when it is attached
//! to the backing without one in front: what an open one says is newer than all that this pool has. A whole one is
//! replaced by the pool's own before any thread writes, so that the pool that was in front does not take what it kept for what stands here.

use std::path::{Path, PathBuf};

use forebay_pmem::MediaKind;

use super::classify::{DAMAGED, StaleRefusal};
use super::mark::{FoundMark, Mark, MarkState};
use super::side::{PoolSide, Stage};
use super::steps::{read_mark, stale_error, write_mark};
use super::text::{hex, utc};
use crate::backing::MarkPlace;
use crate::error::Result;
use crate::mutants::{Mutant, mutated};

const WITH_FRONT: &str = "serve it with that pool in front and this one as --behind; if that pool is lost, or what it has is not wanted: \
     --accept-stale";
const WITH_BEHIND: &str =
    "serve it with the other pool as --behind; if that is lost: --accept-stale";

/// The mark of a pool in front, read.
pub(crate) struct Front<'a> {
    path: &'a Path,
    place: &'a dyn MarkPlace,
    found: FoundMark,
}

impl<'a> Front<'a> {
    /// Reads it, at the backing at `path`.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn read(path: &'a Path, place: &'a dyn MarkPlace) -> Result<Front<'a>> {
        Ok(Front {
            path,
            place,
            found: read_mark(path, place)?,
        })
    }

    /// Whether `pool` may be attached without a pool in front.
    ///
    /// # Errors
    /// [`ErrorKind::Stale`](crate::ErrorKind::Stale): a pool in front may have newer data.
    pub(crate) fn check(&self, pool: [u8; 16]) -> Result<()> {
        let (found, todo) = match &self.found {
            FoundMark::None => return Ok(()),
            FoundMark::Mark(mark) if mark.state == MarkState::Whole => return Ok(()),
            FoundMark::Mark(mark) if mark.pool == pool => (
                String::from("this pool stands in front of another one, which is left out"),
                WITH_BEHIND,
            ),
            FoundMark::Mark(mark) => (
                format!(
                    "its newest data is in a pool in front of this one, {} ({}), open since {}",
                    hex(&mark.pool),
                    mark.pool_path.display(),
                    utc(mark.since_unix_s)
                ),
                WITH_FRONT,
            ),
            FoundMark::Damaged => (
                String::from(
                    "the mark of a pool in front of this one is damaged, or of a later version",
                ),
                DAMAGED,
            ),
        };
        match mutated(Mutant::FrontMarkIgnored) {
            true => Ok(()),
            false => Err(stale_error(self.path, StaleRefusal { found, todo })),
        }
    }

    /// Says in its place that `pool` has everything: a pool that was in front no longer goes on with what it kept. Where there is none,
    /// or this pool's, it stays.
    ///
    /// # Errors
    /// The mark cannot be written.
    pub(crate) fn replace(&self, pool: [u8; 16], pool_path: PathBuf) -> Result<()> {
        let is_own = |mark: &Mark| mark.pool == pool && mark.state == MarkState::Whole;
        if self.found == FoundMark::None || self.found.mark().is_some_and(is_own) {
            return Ok(());
        }
        let side = PoolSide {
            pool,
            volume: 0,
            generation: 0,
            stage: Stage::Clean,
            is_kept_for_a_boot: false,
        };
        let generation = self.found.mark().map_or(0, |mark| mark.generation) + 1;
        let own = Mark::open_now(&side, pool_path, generation, MediaKind::PlainFile);
        write_mark(self.path, self.place, &own.whole())
    }
}
