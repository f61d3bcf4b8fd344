//! The steps that a pool takes at a backing's mark, whatever kind of pool it is: read, judged, written, ended.

use std::io;
use std::path::Path;

use super::classify::{StaleRefusal, classify, next_generation};
use super::mark::{FoundMark, Mark};
use super::side::{PoolSide, Stage};
use crate::backing::{Backing, MarkPlace};
use crate::error::{Error, ErrorKind, Result};

/// What an attach does about the mark.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    /// The backing keeps none, or it and the pool say already what they are to say.
    AsItIs,
    /// Both go on with this generation.
    With(u64),
}

/// A volume and its backing's mark, read.
pub(crate) struct ReadMark<'a> {
    path: &'a Path,
    side: PoolSide,
    is_empty_directory: bool,
    found: FoundMark,
}

impl<'a> ReadMark<'a> {
    /// Reads the mark of the volume's backing.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn new(path: &'a Path, side: PoolSide, place: &dyn MarkPlace) -> Result<Self> {
        Ok(ReadMark {
            path,
            side,
            is_empty_directory: place.is_empty_directory(),
            found: read_mark(path, place)?,
        })
    }

    /// What an attach does. Where the caller insists that backing and pool are of the same moment (`accept_stale`) and they are
    /// not, the clean blocks, which the backing may have newer, are dropped first.
    ///
    /// # Errors
    /// [`ErrorKind::Stale`]; those of `drop_clean`.
    pub(crate) fn begin(
        &self,
        accept_stale: bool,
        holds_nothing: impl FnOnce() -> bool,
        drop_clean: impl FnOnce() -> Result<()>,
    ) -> Result<Begin> {
        if self.is_begun() {
            return Ok(Begin::AsItIs);
        }
        let judged = classify(
            &self.side,
            &self.found,
            self.is_empty_directory,
            holds_nothing,
        );
        match judged {
            Ok(generation) => Ok(Begin::With(generation)),
            Err(_) if accept_stale => {
                drop_clean()?;
                Ok(Begin::With(next_generation(&self.side, &self.found)))
            }
            Err(refusal) => Err(stale_error(self.path, refusal)),
        }
    }

    /// Whether the backing may be attached.
    ///
    /// # Errors
    /// [`ErrorKind::Stale`].
    pub(crate) fn check(&self, holds_nothing: impl FnOnce() -> bool) -> Result<()> {
        let (side, found) = (&self.side, &self.found);
        match classify(side, found, self.is_empty_directory, holds_nothing) {
            Ok(_) => Ok(()),
            Err(refusal) => Err(stale_error(self.path, refusal)),
        }
    }

    /// An earlier process of this boot has begun for this one too.
    fn is_begun(&self) -> bool {
        let side = &self.side;
        side.is_kept_for_a_boot
            && side.stage == Stage::Open
            && self.found.mark().is_some_and(|mark| {
                let is_ours = mark.pool == side.pool && mark.volume == side.volume;
                let is_open = mark.clone().whole() != *mark && mark.is_of_this_boot();
                is_ours && is_open && mark.generation == side.generation
            })
    }
}

/// What counts of the marks at a place.
///
/// # Errors
/// They cannot be read.
pub(super) fn read_mark(path: &Path, place: &dyn MarkPlace) -> Result<FoundMark> {
    let found = place.read().map_err(|source| mark_error(path, source))?;
    Ok(FoundMark::of(&found))
}

/// Writes a mark.
///
/// # Errors
/// It cannot be written.
pub(crate) fn write_mark(path: &Path, place: &dyn MarkPlace, mark: &Mark) -> Result<()> {
    let written = place.write(&mark.encode());
    written.map_err(|source| mark_error(path, source))
}

/// Says that the backing of an open mark has everything. If that fails, it is open again, and `reopen` says the same of the pool.
///
/// # Errors
/// The mark cannot be written; those of `reopen`.
pub(crate) fn write_whole(
    path: &Path,
    place: &dyn MarkPlace,
    open: &Mark,
    reopen: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let Err(source) = place.write(&open.clone().whole().encode()) else {
        return Ok(());
    };
    // What it says now is unknown. It has to say `open` before any thread may write again.
    if place.write(&open.encode()).is_ok() {
        reopen()?;
    }
    Err(mark_error(path, source))
}

/// Whether the backing's mark may name this volume of this pool, as far as can be seen.
pub(crate) fn may_be_marked(backing: &Backing, pool: [u8; 16], volume: u32) -> bool {
    let found = backing.mark_place().map(|place| place.read());
    match found.map(|found| found.map(|found| FoundMark::of(&found))) {
        None | Some(Ok(FoundMark::None)) => false,
        Some(Ok(FoundMark::Mark(mark))) => mark.pool == pool && mark.volume == volume,
        Some(Ok(FoundMark::Damaged) | Err(_)) => true,
    }
}

pub(crate) fn stale_error(path: &Path, refusal: StaleRefusal) -> Error {
    ErrorKind::Stale {
        path: path.to_path_buf(),
        found: refusal.found,
        todo: refusal.todo,
    }
    .into()
}

fn mark_error(path: &Path, source: io::Error) -> Error {
    ErrorKind::Mark {
        path: path.to_path_buf(),
        source,
    }
    .into()
}
