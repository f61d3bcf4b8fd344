//! Writes: to the pool where the file is hot or the pool holds the block, to the page cache else.

use std::io;
use std::sync::atomic::Ordering;

use super::pooled::Pooled;
use super::{Content, State};
use crate::errors::from_pool;
use crate::mutants::{Mutant, mutated};

/// Blocks of the tables that ride in a transaction beside the data, and the data's ragged ends.
const BLOCKS_BESIDE: u64 = 6;

impl Content {
    /// Writes at byte `offset`; `durable` if it is to survive a crash when this returns.
    pub(crate) fn write_at(&self, offset: u64, data: &[u8], durable: bool) -> io::Result<()> {
        let mut state = self.write_state();
        let written = self.write_locked(&mut state, offset, data, durable);
        self.target.times.written();
        written
    }

    /// Writes at the end and returns where that was.
    pub(crate) fn append(&self, data: &[u8], durable: bool) -> io::Result<u64> {
        let mut state = self.write_state();
        let offset = match state.passes_through {
            true => self.target.backing_size()?,
            false => self.target.size_bytes(),
        };
        self.write_locked(&mut state, offset, data, durable)?;
        self.target.times.written();
        Ok(offset)
    }

    fn write_locked(
        &self,
        state: &mut State,
        offset: u64,
        data: &[u8],
        durable: bool,
    ) -> io::Result<()> {
        let end = offset.checked_add(data.len() as u64);
        if end.is_none_or(|end| end > i64::MAX as u64) {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        if state.passes_through {
            self.target.write_all_at(offset, data)?;
            if durable {
                self.target.sync_data()?;
                self.sync_names()?;
            }
            return Ok(());
        }
        self.take_back(state)?;
        self.finish_cut(state)?;
        if !durable && state.is_hot {
            let len = data.len() as u64;
            let unasked = self.unasked_bytes.load(Ordering::Relaxed) + len;
            self.unasked_bytes.store(unasked, Ordering::Relaxed);
            state.is_hot = unasked <= self.shared.cold_after_bytes;
        }
        if durable && state.unsynced.everything {
            // What is not durable may be that the file was cut: that goes first.
            self.sync_backing_locked(state)?;
        }
        let size_before = self.target.size_bytes();
        let is_pooled = (durable || state.is_hot) && self.join_pool(state);
        let written = if is_pooled {
            state.is_hot = true;
            self.write_pooled(state, offset, data, durable)
        } else {
            self.write_cold(state, offset, data)
        };
        if written.is_err() {
            self.cut_back(state, size_before);
        }
        written?;
        if durable && !is_pooled {
            self.sync_backing_locked(state)?;
            self.sync_names()?;
        }
        Ok(())
    }

    /// What a write that failed has put behind the end goes: its caller is told that nothing was written,
    /// and appends the same again. What cannot be cut stays.
    fn cut_back(&self, state: &mut State, size_bytes: u64) {
        if self.target.size_bytes() > size_bytes {
            drop(match state.pooled {
                Some(_) => self.cut_pooled(state, size_bytes),
                None => self.truncate_backing(state, size_bytes),
            });
            self.note_unsynced(state);
        }
    }

    /// Writes to the pool, in transactions as large as they may be. The last one makes all of them durable, if they are to be.
    pub(super) fn write_pooled(
        &self,
        state: &mut State,
        offset: u64,
        data: &[u8],
        durable: bool,
    ) -> io::Result<()> {
        let volume = &self.shared.volume;
        let block_bytes = volume.block_size() as u64;
        let len_bytes = data.len() as u64;
        state
            .room
            .reserve(&self.target, block_bytes, offset, len_bytes)?;
        let beside = BLOCKS_BESIDE * block_bytes;
        let limit = (volume.transaction_limit_bytes().saturating_sub(beside)).max(block_bytes);
        let pooled = state.pooled.as_mut().expect("it has joined the pool");
        let (mut at, mut rest) = (offset, data);
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(limit as usize));
            self.write_transaction(pooled, (at, now), durable && later.is_empty())?;
            at += now.len() as u64;
            rest = later;
        }
        state.unsynced.size = false;
        Ok(())
    }

    /// One transaction: the data and the size that the file has with it.
    fn write_transaction(
        &self,
        pooled: &mut Pooled,
        (offset, data): (u64, &[u8]),
        durable: bool,
    ) -> io::Result<()> {
        let volume = &self.shared.volume;
        let block_bytes = volume.block_size();
        let shift = block_bytes.trailing_zeros();
        let end = offset + data.len() as u64;
        let size_before = self.target.size_bytes();
        let size_bytes = size_before.max(end);
        let blocks = offset >> shift..(end + block_bytes as u64 - 1) >> shift;
        if self.append_small(pooled, offset, data)? {
            return Ok(());
        }
        let mut transaction = volume.begin();
        let is_placed = |block| pooled.place(block).is_some();
        let are_placed = is_placed(blocks.start) && is_placed(blocks.end - 1);
        if !are_placed || !pooled.unsaid_segments.is_empty() {
            self.add_segments(pooled, blocks.clone(), &mut transaction)?;
        }
        let (mut at, mut rest) = (offset, data);
        for block in blocks.clone() {
            let within = at as usize & (block_bytes - 1);
            let (bytes, later) = rest.split_at(rest.len().min(block_bytes - within));
            let place = pooled.place(block).expect("it was added");
            let added = if bytes.len() == block_bytes {
                transaction.write(place, bytes)
            } else if at + bytes.len() as u64 >= size_before {
                // What lies behind it in the block is zero, as always behind the end.
                transaction.append(place, within, bytes)
            } else {
                transaction.write_at((place << shift) + within as u64, bytes)
            };
            added.map_err(from_pool)?;
            at += bytes.len() as u64;
            rest = later;
        }
        if size_bytes != pooled.size_bytes && !mutated(Mutant::FilesSizeLeftOut) {
            let sizes = &self.shared.sizes;
            let added = sizes.write_size(&mut transaction, pooled.row, size_bytes);
            added.map_err(from_pool)?;
        }
        // Before the commit: a write-back right behind it must not stop at the old end.
        self.target.growing_to(size_bytes);
        let committed = match durable {
            true => transaction.commit(),
            false => transaction.commit_unsynced(),
        };
        if let Err(error) = committed {
            self.target.grown_to(size_before);
            return Err(from_pool(error));
        }
        self.target.grown_to(size_bytes);
        pooled.size_bytes = size_bytes;
        pooled.unsaid_segments.clear();
        blocks.for_each(|block| pooled.blocks.insert(block));
        Ok(())
    }

    /// The most common of all transactions: a few bytes at the end of the file, in its last block.
    fn append_small(&self, pooled: &mut Pooled, offset: u64, data: &[u8]) -> io::Result<bool> {
        let shared = &self.shared;
        let block_bytes = shared.volume.block_size() as u64;
        let within = offset & (block_bytes - 1);
        let is_small = within > 0 && within + data.len() as u64 <= block_bytes;
        if !is_small || offset != self.target.size_bytes() {
            return Ok(false);
        }
        let block = offset >> block_bytes.trailing_zeros();
        let Some(place) = pooled.place(block) else {
            return Ok(false);
        };
        let size_bytes = offset + data.len() as u64;
        let word = shared.sizes.size_word(pooled.row, size_bytes);
        self.target.growing_to(size_bytes);
        let done = shared
            .volume
            .append_with_word(place, within as usize, data, Some(word));
        match done {
            Ok(true) => {
                self.target.grown_to(size_bytes);
                pooled.size_bytes = size_bytes;
            }
            _ => self.target.grown_to(offset),
        }
        done.map_err(from_pool)
    }

    /// Writes past the pool, but for blocks that the pool holds.
    fn write_cold(&self, state: &mut State, offset: u64, data: &[u8]) -> io::Result<()> {
        if state.pooled.is_none() {
            return self.write_page_cache(state, offset, data);
        }
        if self.target.cut().is_some() {
            // Recovery would cut off what only the backing has.
            return self.write_pooled(state, offset, data, false);
        }
        let block_bytes = self.shared.volume.block_size() as u64;
        let end = offset + data.len() as u64;
        let mut at = offset;
        while at < end {
            let is_held = self.is_held(state, at / block_bytes)?;
            let mut next = at / block_bytes + 1;
            while next * block_bytes < end && self.is_held(state, next)? == is_held {
                next += 1;
            }
            let part_end = (next * block_bytes).min(end);
            let part = &data[(at - offset) as usize..(part_end - offset) as usize];
            match is_held {
                true => self.write_pooled(state, at, part, false)?,
                false => self.write_page_cache(state, at, part)?,
            }
            at = part_end;
        }
        Ok(())
    }

    /// Whether the pool holds this block now, or may after a crash. If not, it will not until a write puts it there.
    pub(super) fn is_held(&self, state: &State, block: u64) -> io::Result<bool> {
        let pooled = state.pooled.as_ref();
        let pooled = pooled.filter(|pooled| pooled.blocks.contains(block));
        let Some(place) = pooled.and_then(|pooled| pooled.place(block)) else {
            return Ok(false);
        };
        self.shared.volume.may_have(place).map_err(from_pool)
    }

    fn write_page_cache(&self, state: &mut State, offset: u64, data: &[u8]) -> io::Result<()> {
        let end = offset + data.len() as u64;
        // A write that fails may have done its first part.
        state.unsynced.ranges.add(offset, end);
        self.needs_sync.store(true, Ordering::Release);
        let written = self.target.write_all_at(offset, data);
        let size_before = self.target.size_bytes();
        let size_bytes = match written {
            Ok(()) => end,
            Err(_) => self.target.backing_size()?,
        };
        if size_bytes > size_before {
            self.target.grown_to(size_bytes);
            state.unsynced.size = true;
        }
        written
    }
}
