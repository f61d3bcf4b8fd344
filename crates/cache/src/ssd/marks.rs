//! The order of steps between a volume's row and its backing's mark. `docs/inside/marks.md` is the protocol.

use std::path::Path;

use forebay_log::{Log, VolumeRow};
use forebay_pmem::MediaKind;

use super::errors::no_room_for_copy;
use super::known::side_of;
use super::pool::SsdPool;
use crate::backing::{Backing, MarkPlace};
use crate::error::Result;
use crate::marks::{Begin, Mark, ReadMark, Stage, write_mark, write_whole};

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
        let side = side_of(self.uuid(), row, place.is_kept_for_a_boot());
        let read = ReadMark::new(&row.path, side, place)?;
        let begin = read.begin(
            accept_stale,
            || log.usage(row.number).0 == 0,
            || self.forget_clean(log, (row.number, &row.path)),
        )?;
        // Nothing that a pool is told that is only looked at outlives the process.
        Ok(match self.is_private() {
            true => Begin::AsItIs,
            false => begin,
        })
    }

    /// Lets go of all that is clean of a volume whose backing has something else.
    pub(super) fn forget_clean(&self, log: &Log, (number, path): (u32, &Path)) -> Result<()> {
        let gone = self.shared().with_room(log, || log.forget_clean(number));
        gone.map_err(|error| no_room_for_copy(path, log.free_segments(), error))
    }

    /// Whether a backing of this name, whose mark lies at `place`, may be attached; changes nothing.
    pub(crate) fn check_mark(&self, path: &Path, place: &dyn MarkPlace) -> Result<()> {
        let shared = self.shared();
        let log = shared.log()?;
        let mut rows = log.volumes().into_iter();
        let known = rows.find(|row| row.is_attached && row.path == path);
        let row = known.clone().unwrap_or_default();
        let side = side_of(self.uuid(), &row, place.is_kept_for_a_boot());
        let read = ReadMark::new(path, side, place)?;
        match shared.options.accept_stale {
            true => Ok(()),
            false => read.check(|| known.is_none() || log.usage(row.number).0 == 0),
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
        write_mark(&row.path, place, &self.mark_of(row, place))?;
        row.stage = Stage::Open.number();
        write(row)
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
        let path = row.path.clone();
        write_whole(&path, place, &mark, || {
            write(&before)?;
            *row = before;
            Ok(())
        })
    }

    fn mark_of(&self, row: &VolumeRow, place: &dyn MarkPlace) -> Mark {
        let path = &self.shared().path;
        let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let side = side_of(self.uuid(), row, place.is_kept_for_a_boot());
        Mark::open_now(&side, path, row.generation, MediaKind::PlainFile)
    }
}
