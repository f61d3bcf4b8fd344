//! The order of steps between a volume's row and its backing's mark. `docs/inside/marks.md` is the protocol.

use std::path::Path;

use forebay_log::{Log, VolumeRow};
use forebay_pmem::MediaKind;

use super::known::side_of;
use super::pool::SsdPool;
use crate::backing::{Backing, MarkPlace};
use crate::error::{Error, ErrorKind, Result};
use crate::marks::{FoundMark, Mark, PoolSide, Stage, StaleRefusal, classify, next_generation};

/// What an attach does about the mark.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Begin {
    /// The backing keeps none, or it and the pool say already what they are to say.
    AsItIs,
    /// Both go on with this generation.
    With(u64),
}

impl SsdPool {
    /// Whether the backing and this pool are of the same moment; changes nothing but, where the caller
    /// insists that they are, the clean blocks, which the backing may have newer.
    pub(super) fn classify_mark(
        &self,
        log: &Log,
        (backing, row): (&Backing, &VolumeRow),
        accept_stale: bool,
    ) -> Result<Begin> {
        let Some(place) = backing.mark_place() else {
            return Ok(Begin::AsItIs);
        };
        let found = read_mark(&row.path, place)?;
        let side = side_of(self.uuid(), row, place.is_kept_for_a_boot());
        if is_begun(&side, &found) {
            return Ok(Begin::AsItIs);
        }
        let holds_nothing = || log.usage(row.number).0 == 0;
        match classify(&side, &found, place.is_empty_directory(), holds_nothing) {
            Ok(generation) => Ok(self.begin_with(generation)),
            Err(_) if accept_stale => {
                let shared = self.shared();
                shared.with_room(log, || log.forget_clean(row.number))?;
                Ok(self.begin_with(next_generation(&side, &found)))
            }
            Err(refusal) => Err(stale_error(&row.path, refusal)),
        }
    }

    /// Nothing that a pool is told that is only looked at outlives the process.
    fn begin_with(&self, generation: u64) -> Begin {
        match self.is_private() {
            true => Begin::AsItIs,
            false => Begin::With(generation),
        }
    }

    /// Whether a backing of this name, whose mark lies at `place`, may be attached; changes nothing.
    pub(crate) fn check_mark(&self, path: &Path, place: &dyn MarkPlace) -> Result<()> {
        let shared = self.shared();
        let log = shared.log()?;
        let mut rows = log.volumes().into_iter();
        let known = rows.find(|row| row.is_attached && row.path == path);
        let row = known.clone().unwrap_or_default();
        let side = side_of(self.uuid(), &row, place.is_kept_for_a_boot());
        let found = read_mark(path, place)?;
        if shared.options.accept_stale {
            return Ok(());
        }
        let holds_nothing = || known.is_none() || log.usage(row.number).0 == 0;
        match classify(&side, &found, place.is_empty_directory(), holds_nothing) {
            Ok(_) => Ok(()),
            Err(refusal) => Err(stale_error(path, refusal)),
        }
    }

    /// Writes the volume's row and the backing's mark: nothing of the volume is acknowledged before. What the row says then
    /// is in `row`.
    pub(super) fn begin_mark(
        &self,
        log: &Log,
        (backing, row): (&Backing, &mut VolumeRow),
        begin: Begin,
    ) -> Result<()> {
        let shared = self.shared();
        let write = |row: &VolumeRow| log.write_volume(row).map_err(|error| shared.error(error));
        let (Begin::With(generation), Some(place)) = (begin, backing.mark_place()) else {
            return write(row);
        };
        row.generation = generation;
        row.stage = Stage::Starting.number();
        write(row)?;
        let mark = self.mark_of(row, place);
        let written = place.write(&mark.encode());
        written.map_err(|source| mark_error(&row.path, source))?;
        row.stage = Stage::Open.number();
        write(row)
    }

    /// Whether the backing's mark may name this volume, as far as can be seen.
    pub(super) fn may_be_marked(&self, backing: &Backing, id: u32) -> bool {
        let found = backing.mark_place().map(|place| place.read());
        match found.map(|found| found.map(|found| FoundMark::of(&found))) {
            None | Some(Ok(FoundMark::None)) => false,
            Some(Ok(FoundMark::Mark(mark))) => mark.pool == self.uuid() && mark.volume == id,
            Some(Ok(FoundMark::Damaged) | Err(_)) => true,
        }
    }

    /// No thread changes the volume any more, and it has nothing dirty: its backing has everything, synced.
    ///
    /// # Errors
    /// The device or the mark; where the mark says `open` again the row does too.
    pub(super) fn end_mark(
        &self,
        log: &Log,
        (backing, row): (&Backing, &mut VolumeRow),
    ) -> Result<()> {
        let shared = self.shared();
        let Some(place) = backing.mark_place() else {
            return Ok(());
        };
        let is_open = row.stage == Stage::Open.number();
        if !is_open || place.is_kept_for_a_boot() || self.is_private() {
            return Ok(());
        }
        let mark = self.mark_of(row, place);
        let write = |row: &VolumeRow| log.write_volume(row).map_err(|error| shared.error(error));
        let before = row.clone();
        row.stage = Stage::Clean.number();
        write(row)?;
        let Err(source) = place.write(&mark.clone().whole().encode()) else {
            return Ok(());
        };
        // What it says now is unknown. It has to say `open` before any thread may write again.
        if place.write(&mark.encode()).is_ok() {
            write(&before)?;
            *row = before;
        }
        Err(mark_error(&row.path, source))
    }

    fn mark_of(&self, row: &VolumeRow, place: &dyn MarkPlace) -> Mark {
        let path = &self.shared().path;
        let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let side = side_of(self.uuid(), row, place.is_kept_for_a_boot());
        Mark::open_now(&side, path, row.generation, MediaKind::PlainFile)
    }
}

fn read_mark(path: &Path, place: &dyn MarkPlace) -> Result<FoundMark> {
    let found = place.read().map_err(|source| mark_error(path, source))?;
    Ok(FoundMark::of(&found))
}

/// An earlier process of this boot has begun for this one too.
fn is_begun(side: &PoolSide, found: &FoundMark) -> bool {
    side.is_kept_for_a_boot
        && side.stage == Stage::Open
        && found.mark().is_some_and(|mark| {
            let is_ours = mark.pool == side.pool && mark.volume == side.volume;
            let is_open = mark.clone().whole() != *mark && mark.is_of_this_boot();
            is_ours && is_open && mark.generation == side.generation
        })
}

pub(super) fn stale_error(path: &Path, refusal: StaleRefusal) -> Error {
    ErrorKind::Stale {
        path: path.to_path_buf(),
        found: refusal.found,
        todo: refusal.todo,
    }
    .into()
}

fn mark_error(path: &Path, source: std::io::Error) -> Error {
    ErrorKind::Mark {
        path: path.to_path_buf(),
        source,
    }
    .into()
}
