//! Sizes that change without data: truncation, and room that is reserved or given back.

use std::io;

use rustix::fs::FallocateFlags;

use super::pooled::Pooled;
use super::{Content, State};
use crate::errors::from_pool;
use crate::metadata::Durable;
use crate::mutants::{Mutant, mutated};
use crate::page_cache::PageCache;
use crate::sizes::{Row, RowCut};
use crate::target::Cut;

impl Content {
    /// Sets the size; what is gained reads as zeroes.
    pub(crate) fn truncate(&self, size_bytes: u64) -> io::Result<()> {
        if size_bytes > i64::MAX as u64 {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        let mut state = self.write_state();
        if state.passes_through {
            return self.target.set_backing_size(size_bytes);
        }
        self.take_back(&mut state)?;
        let result = if state.pooled.is_none() {
            self.truncate_backing(&mut state, size_bytes)
        } else if size_bytes < self.target.size_bytes() {
            self.cut_pooled(&mut state, size_bytes)
        } else {
            let finished = self.finish_cut(&mut state);
            finished.and_then(|()| self.grow_pooled(&mut state, size_bytes))
        };
        if result.is_ok() {
            self.target.times.written();
        }
        self.note_unsynced(&state);
        result
    }

    pub(super) fn truncate_backing(&self, state: &mut State, size_bytes: u64) -> io::Result<()> {
        let before = self.target.size_bytes();
        if size_bytes < before {
            // Whatever was there must not come back; the next sync sees to that in the backing.
            state.unsynced.everything = true;
            state.unsynced.ranges.cut(size_bytes);
            state.room.cut(size_bytes);
        }
        let truncated = self.target.truncate(size_bytes, None);
        if truncated.is_err() {
            self.target.grown_to(before);
        }
        state.unsynced.size |= size_bytes > before;
        truncated
    }

    fn grow_pooled(&self, state: &mut State, size_bytes: u64) -> io::Result<()> {
        let before = self.target.size_bytes();
        self.target.set_backing_size(size_bytes)?;
        let pooled = state.pooled.as_mut().expect("it is in the pool");
        self.target.grown_to(size_bytes);
        let written = self.write_size(pooled, size_bytes);
        if written.is_err() {
            self.target.truncate(before, None)?;
        }
        written
    }

    /// Puts the size into the file's row; a sync makes it durable.
    pub(super) fn write_size(&self, pooled: &mut Pooled, size_bytes: u64) -> io::Result<()> {
        let shared = &self.shared;
        let mut transaction = shared.volume.begin();
        shared
            .sizes
            .write_size(&mut transaction, pooled.row, size_bytes)
            .map_err(from_pool)?;
        transaction.commit_unsynced().map_err(from_pool)?;
        pooled.size_bytes = size_bytes;
        Ok(())
    }

    /// Cuts a file that the pool has. First the row says so, with which the cut is durable: recovery cuts
    /// the backing's file and drops blocks behind the end. These are forgotten before this returns, so
    /// when the file grows again nothing old is there. A backing that refuses is asked before: once the
    /// row says it, the cut counts.
    pub(super) fn cut_pooled(&self, state: &mut State, size_bytes: u64) -> io::Result<()> {
        self.target.check_cuttable()?;
        let shared = &self.shared;
        let block_bytes = shared.volume.block_size() as u64;
        let (tail, within) = (size_bytes / block_bytes, size_bytes % block_bytes);
        let is_tail_held = within > 0 && self.is_held(state, tail)?;
        let pooled = state.pooled.as_mut().expect("it is in the pool");
        let cut = Cut {
            row: pooled.row,
            epoch: shared.store.cuts.next_epoch(),
            size_bytes,
        };
        let told = |cut: Cut| RowCut {
            size_bytes: cut.size_bytes,
            epoch: cut.epoch,
        };
        let row = Row {
            id: pooled.id,
            size_bytes,
            cut: told(cut),
            // It may become durable at any moment from here on, and be written behind.
            earlier_cut: self.target.cut().map(told).unwrap_or_default(),
            handed_over: PageCache::NONE,
        };
        let mut transaction = shared.volume.begin();
        shared
            .sizes
            .write(&mut transaction, pooled.row, Some(&row))?;
        if is_tail_held && !mutated(Mutant::FilesTailKept) {
            let place = pooled.place(tail).expect("its blocks have segments");
            transaction
                .append(place, within as usize, &[])
                .map_err(from_pool)?;
        }
        transaction.commit().map_err(from_pool)?;
        pooled.size_bytes = size_bytes;
        pooled.has_blocks_behind = true;
        state.room.cut(size_bytes);
        state.unsynced.ranges.cut(size_bytes);
        let truncated = self.target.truncate(size_bytes, Some(cut));
        self.finish_cut(state)?;
        truncated
    }

    /// The pool forgets the blocks that a cut has left behind the end, durably. One that found no room for that is finished before
    /// the file grows, which would show what was cut away.
    pub(super) fn finish_cut(&self, state: &mut State) -> io::Result<()> {
        let Some(pooled) = &mut state.pooled else {
            return Ok(());
        };
        if !pooled.has_blocks_behind {
            return Ok(());
        }
        let volume = &self.shared.volume;
        let first = self
            .target
            .size_bytes()
            .div_ceil(volume.block_size() as u64);
        let blocks = pooled.blocks.to_vec();
        let behind = &blocks[blocks.partition_point(|block| *block < first)..];
        volume
            .forget_blocks(pooled.places(behind))
            .map_err(from_pool)?;
        pooled.blocks.cut(first);
        pooled.has_blocks_behind = false;
        Ok(())
    }

    /// As `fallocate`.
    pub(crate) fn allocate(
        &self,
        mode: FallocateFlags,
        offset: u64,
        len_bytes: u64,
    ) -> io::Result<()> {
        let mut state = self.write_state();
        if state.passes_through {
            return Ok(self.target.allocate(mode, offset, len_bytes)?);
        }
        self.take_back(&mut state)?;
        self.finish_cut(&mut state)?;
        let only_reserves = FallocateFlags::KEEP_SIZE.contains(mode);
        if !only_reserves {
            // What is in the pool would be in the way.
            self.drain_locked(&mut state)?;
            self.leave_pool(&mut state, Durable::AtOnce)?;
        }
        self.target.allocate(mode, offset, len_bytes)?;
        if mode == FallocateFlags::KEEP_SIZE {
            state.room.share();
        }
        let found = self.target.backing_size()?;
        self.target.times.written();
        if !only_reserves {
            self.target.grown_to(found);
            state.unsynced.everything = true;
            state.room.forget();
        } else if found > self.target.size_bytes() {
            self.target.grown_to(found);
            match state.pooled.as_mut() {
                Some(pooled) => self.write_size(pooled, found)?,
                None => state.unsynced.size = true,
            }
        }
        self.note_unsynced(&state);
        Ok(())
    }

    /// As `lseek` with `SEEK_DATA` or `SEEK_HOLE`.
    pub(crate) fn seek(&self, offset: u64, data: bool) -> io::Result<u64> {
        let state = self.write_state();
        if let Some(pooled) = state.pooled.as_ref().filter(|_| !state.passes_through) {
            // The backing can tell when it has everything.
            let blocks = pooled.blocks.to_vec();
            let places = pooled.places(&blocks);
            self.shared.volume.flush_blocks(places).map_err(from_pool)?;
            self.lengthen_backing()?;
        }
        let from = match data {
            true => rustix::fs::SeekFrom::Data(offset),
            false => rustix::fs::SeekFrom::Hole(offset),
        };
        Ok(rustix::fs::seek(&*self.target.descriptor(), from)?)
    }
}
