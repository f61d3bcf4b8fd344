//! How a file gets its place in the pool, and leaves it.

use std::io;
use std::os::fd::AsFd;

use forebay::Transaction;

use super::pooled::Pooled;
use super::{Content, State};
use crate::block_map::BlockMap;
use crate::errors::from_pool;
use crate::metadata::{Durable, SEGMENT_BLOCKS_SHIFT};
use crate::mutants::{Mutant, mutated};
use crate::page_cache::PageCache;
use crate::segments::{self, Owner};
use crate::sizes::{Row, RowCut};
use crate::store::Mapping;

impl Content {
    /// Gives the file a row of the size table, if it has none: durable with whatever is written to it. False if it cannot have one,
    /// for whatever reason: it has no name, or all rows are taken, or the pool refuses writes. The backing
    /// is then all that there is.
    pub(super) fn join_pool(&self, state: &mut State) -> bool {
        if state.pooled.is_none() && !state.is_unlinked {
            let volume = &self.shared.volume;
            let was_whole = volume.check_durable().is_ok();
            state.pooled = self.new_row().unwrap_or(None);
            // The pool has failed meanwhile: after a crash there may be a row all the same.
            state.may_have_row |= was_whole && volume.check_durable().is_err();
            state.unsynced.size &= state.pooled.is_none();
        }
        state.pooled.is_some()
    }

    fn new_row(&self) -> io::Result<Option<Pooled>> {
        if !self.target.is_writable()? {
            return Ok(None);
        }
        let shared = &self.shared;
        let descriptor = self.target.descriptor();
        self.target.times.begin(&descriptor)?;
        let identity = self.target.identity();
        let id = shared.naming.introduce(descriptor.as_fd(), identity)?;
        let Some(number) = shared.sizes.take() else {
            shared.naming.left_pool(id);
            return Ok(None);
        };
        let size_bytes = self.target.size_bytes();
        let row = Row {
            id,
            size_bytes,
            cut: RowCut::default(),
            earlier_cut: RowCut::default(),
            handed_over: PageCache::NONE,
        };
        let mut transaction = shared.volume.begin();
        let written = shared.sizes.write(&mut transaction, number, Some(&row));
        let written = written.and_then(|()| Durable::AfterSync.commit(transaction));
        if let Err(error) = written {
            shared.sizes.give(number);
            shared.naming.left_pool(id);
            return Err(error);
        }
        Ok(Some(Pooled {
            id,
            row: number,
            size_bytes,
            segments: Vec::new(),
            unsaid_segments: Vec::new(),
            blocks: BlockMap::default(),
            has_blocks_behind: false,
        }))
    }

    /// Finds segments for these blocks of the file; those that are new become known with the
    /// transaction, or with the next one that is committed. They are mapped already: write-back may come
    /// right after the commit.
    pub(super) fn add_segments(
        &self,
        pooled: &mut Pooled,
        blocks: std::ops::Range<u64>,
        transaction: &mut Transaction<'_>,
    ) -> io::Result<()> {
        let parts = blocks.start >> SEGMENT_BLOCKS_SHIFT
            ..=(blocks.end.max(blocks.start + 1) - 1) >> SEGMENT_BLOCKS_SHIFT;
        for part in parts {
            if pooled.segments.iter().any(|(known, _)| *known == part) {
                continue;
            }
            let shared = &self.shared;
            let Some(segment) = shared.segments.take() else {
                return Err(io::Error::from_raw_os_error(libc::ENOSPC));
            };
            let target = self.target.clone();
            shared.store.map(segment, Mapping { target, part });
            pooled.segments.push((part, segment));
            pooled.unsaid_segments.push((part, segment));
        }
        let id = pooled.id;
        for (part, segment) in &pooled.unsaid_segments {
            let owner = Owner { id, part: *part };
            segments::write_owner(transaction, *segment, Some(owner))?;
        }
        Ok(())
    }

    /// Gives back what was reserved behind the end and not used.
    pub(super) fn give_room_back(&self, state: &mut State) {
        let size_bytes = self.target.size_bytes();
        if state.room.spare_bytes(size_bytes) > 0 {
            state.room.cut(size_bytes);
            self.target.give_room_back(size_bytes);
        }
    }

    /// No caller has the file open any more.
    pub(crate) fn closed(&self) {
        let mut state = self.write_state();
        // What another process has by now is left alone.
        if !state.passes_through && !state.is_handed_over {
            self.give_room_back(&mut state);
        }
    }

    /// The pool forgets the file: nothing of it is ever written to the backing again, from when that is `durable` on. Its caller has
    /// drained it, and others may write it when this returns; or its last name is gone, durably, and no crash gives it its data.
    pub(super) fn leave_pool(&self, state: &mut State, durable: Durable) -> io::Result<()> {
        state.is_hot = false;
        let Some(pooled) = &state.pooled else {
            return Ok(());
        };
        let shared = &self.shared;
        let blocks = pooled.blocks.to_vec();
        if !mutated(Mutant::FilesBlocksKept) {
            let places = pooled.places(&blocks);
            // The transaction makes it durable with itself.
            let forgotten = shared.volume.forget_blocks_unsynced(places);
            forgotten.map_err(from_pool)?;
        }
        let mut transaction = shared.volume.begin();
        if !mutated(Mutant::FilesRowKept) {
            shared.sizes.write(&mut transaction, pooled.row, None)?;
        }
        for (_, segment) in &pooled.segments {
            segments::write_owner(&mut transaction, *segment, None)?;
        }
        durable.commit(transaction)?;
        if let Some(cut) = self.target.cut() {
            self.target.forget_cut(cut);
        }
        shared.sizes.give(pooled.row);
        for (_, segment) in &pooled.segments {
            shared.store.unmap(*segment);
            shared.segments.give(*segment);
        }
        shared.naming.left_pool(pooled.id);
        state.pooled = None;
        self.give_room_back(state);
        if std::mem::take(&mut state.is_handed_over) {
            self.target.handed_over_to(0);
        }
        self.target.times.end(&self.target.descriptor());
        Ok(())
    }
}
