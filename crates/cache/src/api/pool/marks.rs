//! The order of steps between a volume's line and its backing's mark. `docs/inside/marks.md` is the protocol.

use std::path::Path;

use forebay_pmem::{Region, RegionOptions};

use crate::api::pool::MemoryPool;
use crate::backing::{Backing, BackingIdentity, MarkPlace};
use crate::error::Result;
use crate::marks::{Begin, Mark, PoolSide, ReadMark, Stage, write_mark, write_whole};
use crate::media::Media;
use crate::media::membership::Absences;
use crate::media::superblock::{self, Assembly};
use crate::media::volumes::{self, Description, Standing};
use crate::mutants::{Mutant, mutated};

/// A volume's row of the table, as it is written when the volume comes.
pub(super) struct Row<'a> {
    pub(super) place: u32,
    pub(super) id: u32,
    pub(super) identity: &'a BackingIdentity,
    pub(super) standing: Standing,
}

impl MemoryPool {
    /// What a pool says of each of its volumes, and which backings they have. The pool may be in use by
    /// another process; nothing is changed.
    ///
    /// # Errors
    /// Foreign, truncated, mixed or missing members.
    // Public for the commands that report on a pool and for the file buffer; hidden, because `PoolSide`
    // is one of the crate's internals.
    #[doc(hidden)]
    pub fn sides<P: AsRef<Path>>(
        paths: &[P],
        options: &RegionOptions,
    ) -> Result<Vec<(BackingIdentity, PoolSide)>> {
        let regions = paths
            .iter()
            .map(|path| Ok(Region::open_read_only_with(path.as_ref(), options)?))
            .collect::<Result<Vec<_>>>()?;
        MemoryPool::sides_on(regions)
    }

    /// As `sides`, over regions that are mapped already.
    ///
    /// # Errors
    /// As `sides`.
    // Public and hidden for the same reasons; the checker of crashes maps shadow regions.
    #[doc(hidden)]
    pub fn sides_on(regions: Vec<Region>) -> Result<Vec<(BackingIdentity, PoolSide)>> {
        let Assembly {
            regions,
            mirror,
            geometry,
            pool_uuid,
            checksums,
            ..
        } = superblock::assemble(regions, Absences::ALL)?;
        let media = Media::new(regions, mirror, geometry, checksums);
        let side = |found: Description| {
            let side = PoolSide {
                pool: pool_uuid,
                volume: found.id,
                generation: found.standing.generation,
                stage: found.standing.stage,
                is_kept_for_a_boot: false,
            };
            (found.identity, side)
        };
        let sides = volumes::read_attached(&media).into_iter().map(side);
        let sides = sides.collect();
        // A lost line of the table reads as a volume that is not there.
        match media.members().find_map(Region::media_failure) {
            Some(lost) => Err(lost.into()),
            None => Ok(sides),
        }
    }

    /// Whether the backing and this pool are of the same moment; changes nothing but, where the caller
    /// insists that they are, the clean blocks, which the backing may have newer.
    ///
    /// # Errors
    /// [`ErrorKind::Stale`]; the mark cannot be read.
    pub(super) fn classify_mark(
        &self,
        backing: &Backing,
        row: &Row<'_>,
        accept_stale: bool,
    ) -> Result<Begin> {
        let Some(place) = backing.mark_place() else {
            return Ok(Begin::AsItIs);
        };
        let read = ReadMark::new(&row.identity.path, self.side_of(row, place), place)?;
        let engine = self.pipeline.engine();
        let begin = read.begin(
            accept_stale,
            || !engine.holds_block_of(row.id),
            || engine.drop_clean_blocks(row.id).map(drop),
        )?;
        // Nothing that this pool is told outlives the process: it has looked, and that is all.
        Ok(match self.is_private() {
            true => Begin::AsItIs,
            false => begin,
        })
    }

    /// Whether a backing of this name, whose mark lies at `place`, may be attached; changes nothing, so that
    /// a caller can ask before it makes room for it.
    ///
    /// # Errors
    /// As [`MemoryPool::attach`] has them of marks.
    // Public for the file buffer, which asks before it makes a volume of its own; hidden, as it follows that
    // crate's needs.
    #[doc(hidden)]
    pub fn check_mark(&self, path: &Path, place: &dyn MarkPlace) -> Result<()> {
        let known = volumes::read_attached(self.pipeline.media());
        let known = known.into_iter().find(|known| known.identity.path == path);
        let (id, standing) =
            known.map_or_else(Default::default, |known| (known.id, known.standing));
        let side = PoolSide {
            pool: self.pool_uuid,
            volume: id,
            generation: standing.generation,
            stage: standing.stage,
            is_kept_for_a_boot: place.is_kept_for_a_boot(),
        };
        let read = ReadMark::new(path, side, place)?;
        match self.pipeline.options().accept_stale {
            true => Ok(()),
            false => read.check(|| !self.pipeline.engine().holds_block_of(id)),
        }
    }

    /// Writes the volume's line and the backing's mark: nothing of the volume is acknowledged before.
    pub(super) fn begin_mark(&self, backing: &Backing, row: &Row<'_>, begin: Begin) -> Result<()> {
        let (Begin::With(generation), Some(place)) = (begin, backing.mark_place()) else {
            return self.write_row(row, row.standing);
        };
        let starting = Standing {
            generation,
            stage: Stage::Starting,
        };
        self.write_row(row, starting)?;
        if !mutated(Mutant::MarkAfterFirstAcknowledgement) {
            let mark = self.mark_of(row, place, generation);
            write_mark(&row.identity.path, place, &mark)?;
        }
        let stage = Stage::Open;
        self.write_row(row, Standing { generation, stage })
    }

    /// No thread changes the volume any more, and it has nothing dirty: its backing has everything.
    ///
    /// # Errors
    /// A sync, a fence or the mark; where the mark says `open` again the line does too.
    pub(super) fn end_mark(&self, backing: &Backing, found: &Description) -> Result<()> {
        let Description {
            place,
            id,
            standing,
            ..
        } = *found;
        let row = Row {
            place,
            id,
            identity: &found.identity,
            standing,
        };
        let Some(place) = backing.mark_place() else {
            return Ok(());
        };
        if standing.stage != Stage::Open || place.is_kept_for_a_boot() || self.is_private() {
            return Ok(());
        }
        let stage = Stage::Clean;
        self.write_row(&row, Standing { stage, ..standing })?;
        let mark = self.mark_of(&row, place, standing.generation);
        write_whole(&found.identity.path, place, &mark, || {
            self.write_row(&row, standing)
        })
    }

    /// Ends every volume that is clean: for a pool that is no longer used.
    ///
    /// # Errors
    /// The first one's; the others have ended, and this one is as after a crash.
    pub(super) fn end_marks(&self) -> Result<()> {
        let pipeline = &self.pipeline;
        let mut are_clean_marks_sent = false;
        let mut first = Ok(());
        for found in volumes::read_attached(pipeline.media()) {
            let Some(state) = pipeline.volume(found.id) else {
                continue;
            };
            let Ok(backing) = state.backing() else {
                continue;
            };
            let is_clean = pipeline.table().states().dirty_count() == 0
                || pipeline.table().dirty_entries(found.id).next().is_none();
            let ends = |place: &dyn MarkPlace| !place.is_kept_for_a_boot();
            if !backing.mark_place().is_some_and(ends) || !is_clean {
                continue;
            }
            if !are_clean_marks_sent {
                // A backing that is whole may be changed without the pool, and blocks must not come back
                // dirty then. The fence of the volume's line, before the mark says `whole`, makes this durable.
                if !mutated(Mutant::CleanEntriesNotFlushed) {
                    pipeline.engine().send_clean_entries()?;
                }
                are_clean_marks_sent = true;
            }
            let epoch = state.health.sync_epoch();
            let synced = state.health.sync_all_since(epoch, backing);
            let ended = synced
                .map_err(|source| state.backing_error(source))
                .and_then(|()| self.end_mark(backing, &found));
            first = first.and(ended);
        }
        first
    }

    pub(crate) fn accepts_stale(&self) -> bool {
        self.pipeline.options().accept_stale
    }

    /// Whether it is only looked at: what is stored goes nowhere.
    pub(crate) fn is_private(&self) -> bool {
        self.pipeline.media().main().is_private()
    }

    fn write_row(&self, row: &Row<'_>, standing: Standing) -> Result<()> {
        let Row {
            place,
            id,
            identity,
            ..
        } = *row;
        self.pipeline
            .engine()
            .write_volume(place, id, identity, standing, true)
    }

    fn side_of(&self, row: &Row<'_>, place: &dyn MarkPlace) -> PoolSide {
        PoolSide {
            pool: self.pool_uuid,
            volume: row.id,
            generation: row.standing.generation,
            stage: row.standing.stage,
            is_kept_for_a_boot: place.is_kept_for_a_boot(),
        }
    }

    fn mark_of(&self, row: &Row<'_>, place: &dyn MarkPlace, generation: u64) -> Mark {
        let path = self.pipeline.engine().path();
        let path = std::path::absolute(&path).unwrap_or(path);
        let kind = self.pipeline.media().main().kind();
        Mark::open_now(&self.side_of(row, place), path, generation, kind)
    }
}
