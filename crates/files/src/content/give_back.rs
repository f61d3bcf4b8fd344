//! Giving files back to the backing: drained, suspended, forgotten.

use std::io;

use super::pooled::Pooled;
use super::{Content, State, Suspender};
use crate::errors::from_pool;
use crate::metadata::Durable;
use crate::mutants::{Mutant, mutated};
use crate::page_cache::PageCache;

/// Bytes that go to the page cache at once when a file is handed over.
const HANDED_OVER_AT_ONCE: u64 = 1 << 20;

impl Content {
    /// Brings the backing's file up to date and makes it durable there.
    pub(crate) fn drain(&self) -> io::Result<()> {
        let mut state = self.write_state();
        self.drain_locked(&mut state)
    }

    pub(super) fn drain_locked(&self, state: &mut State) -> io::Result<()> {
        if state.passes_through {
            return self.target.sync_data();
        }
        if let Some(pooled) = &state.pooled {
            let blocks = pooled.blocks.to_vec();
            let places = pooled.places(&blocks);
            self.shared.volume.flush_blocks(places).map_err(from_pool)?;
            if !state.is_handed_over {
                self.lengthen_backing()?;
            }
            self.shared.store.make_cut_durable(&self.target)?;
        }
        self.sync_backing_locked(state)
    }

    /// The backing's file may be shorter than ours: what it lacks is zeroes, or in the pool.
    pub(super) fn lengthen_backing(&self) -> io::Result<()> {
        let size_bytes = self.target.size_bytes();
        if self.target.backing_size()? < size_bytes {
            self.target.set_backing_size(size_bytes)?;
        }
        Ok(())
    }

    /// From now on every call goes straight to the backing, which has everything, and the pool knows
    /// nothing of the file any more that recovery could write over what others do to it.
    pub(crate) fn suspend(&self, suspender: Suspender) -> io::Result<()> {
        let mut state = self.write_state();
        if state.pooled.is_some()
            && let Err(error) = self.give(&mut state, suspender)
        {
            // If this fails too, the next write does it.
            drop(self.take_back(&mut state));
            return Err(error);
        }
        match suspender {
            Suspender::Caller => state.suspended.is_asked = true,
            Suspender::Operation => state.suspended.lent += 1,
            Suspender::End => state.suspended.is_over = true,
        }
        state.passes_through = true;
        self.note_unsynced(&state);
        Ok(())
    }

    /// Drains the file and leaves the pool. A suspension for others brings the page cache up to date
    /// first: they may not wait for the disk for ever, and what they read then is right all the same.
    fn give(&self, state: &mut State, suspender: Suspender) -> io::Result<()> {
        if suspender == Suspender::Caller {
            self.hand_over(state)?;
        }
        self.drain_locked(state)?;
        self.target.check_handed_over()?;
        self.leave_pool(state, left_for_others())
    }

    /// Writes what the pool holds to the page cache, waiting for no disk and for no other file, and then
    /// says so in the row: F10.
    ///
    /// A cut need not be durable before (F7): the pool keeps what is written behind it. What the pool has must be: the kernel may write
    /// half of a block, and after a power cut only the pool has it whole.
    fn hand_over(&self, state: &mut State) -> io::Result<()> {
        self.take_back(state)?;
        state.is_handed_over = true;
        let Some(pooled) = &state.pooled else {
            return Ok(());
        };
        // Where all of it is durable a pool that takes no more writes is no reason to keep the page cache as it was.
        if self.shared.volume.has_unsynced().map_err(from_pool)? {
            self.shared.volume.sync().map_err(from_pool)?;
        }
        let block_bytes = self.shared.volume.block_size() as u64;
        let size_bytes = self.target.size_bytes();
        let mut held = pooled.blocks.to_vec();
        // What the pool has let go of is in the page cache; what comes back with a crash is the same, and the row says what is newer.
        let has = |block: u64| {
            let place = pooled.place(block);
            place.is_some_and(|place| self.shared.volume.has(place))
        };
        held.retain(|block| block * block_bytes < size_bytes && has(*block));
        let mut bytes = Vec::new();
        for run in held.chunk_by(|one, next| one + 1 == *next) {
            for part in run.chunks((HANDED_OVER_AT_ONCE / block_bytes) as usize) {
                let offset = part[0] * block_bytes;
                let end = (offset + part.len() as u64 * block_bytes).min(size_bytes);
                bytes.resize((end - offset) as usize, 0);
                self.read_inside(Some(pooled), offset, &mut bytes)?;
                self.target.hand_over(offset, &bytes)?;
            }
        }
        // Once others are there, size and times are theirs.
        self.lengthen_backing()?;
        self.give_room_back(state);
        self.target.handed_over_to(u64::MAX);
        self.target.times.end(&self.target.descriptor());
        let page_cache = PageCache::of(&*self.target.descriptor());
        let pooled = state.pooled.as_ref().expect("it is there still");
        self.mark_handed_over(pooled, page_cache)
    }

    fn mark_handed_over(&self, pooled: &Pooled, page_cache: PageCache) -> io::Result<()> {
        let shared = &self.shared;
        let mut transaction = shared.volume.begin();
        let added = shared
            .sizes
            .write_handed_over(&mut transaction, pooled.row, page_cache);
        added.and_then(|()| transaction.commit()).map_err(from_pool)
    }

    /// The file stays in the pool, which is newer than the page cache from the next write on: the row must
    /// not say otherwise then.
    pub(super) fn take_back(&self, state: &mut State) -> io::Result<()> {
        if let (true, Some(pooled)) = (state.is_handed_over, &state.pooled) {
            self.mark_handed_over(pooled, PageCache::NONE)?;
        }
        if std::mem::take(&mut state.is_handed_over) {
            state.room.forget();
            self.target.taken_back();
            self.target.times.begin(&self.target.descriptor())?;
        }
        Ok(())
    }

    /// Ends a suspension. If it was the last one, no other process uses the file any more.
    pub(crate) fn resume(&self, suspender: Suspender) -> io::Result<()> {
        let mut state = self.write_state();
        let suspended = &mut state.suspended;
        match suspender {
            Suspender::Caller => suspended.is_asked = false,
            Suspender::Operation => suspended.lent -= 1,
            Suspender::End => unreachable!("a buffer's end is for good"),
        }
        let is_over = !suspended.is_asked && suspended.lent == 0 && !suspended.is_over;
        if !state.passes_through || !is_over {
            return Ok(());
        }
        let size_bytes = self.target.backing_size()?;
        self.target.grown_to(size_bytes);
        state.passes_through = false;
        // Other processes may have written without a sync.
        state.unsynced.everything = true;
        state.room.forget();
        self.note_unsynced(&state);
        Ok(())
    }

    /// Whether every call goes straight to the backing.
    pub(crate) fn is_suspended(&self) -> bool {
        self.read_state().passes_through
    }

    /// No caller has the file open any more, and it has no name: its data goes.
    pub(crate) fn is_unlinked(&self) -> bool {
        self.read_state().is_unlinked
    }

    /// The pool forgets the file, which has lost its last name, without writing anything of it back. Where the log says so, durably,
    /// recovery would drop it as well, and a sync may make this durable at whatever time; where others took the name, recovery would
    /// miss the file.
    pub(crate) fn abandon(&self) -> io::Result<()> {
        let mut state = self.write_state();
        let is_recorded = |pooled: &Pooled| self.shared.naming.is_removed(pooled.id);
        let durable = match state.pooled.as_ref().is_some_and(is_recorded) {
            true => Durable::AfterSync,
            false => Durable::AtOnce,
        };
        self.leave_pool(&mut state, durable)
    }

    /// Drains the file and makes the pool forget it, so that nothing is left of it but what the backing
    /// has.
    pub(crate) fn drain_and_leave(&self) -> io::Result<()> {
        let mut state = self.write_state();
        if state.pooled.is_none() {
            return Ok(());
        }
        self.drain_locked(&mut state)?;
        self.leave_pool(&mut state, left_for_others())
    }
}

/// Others may write a file that has left the pool: a power cut must not bring it back.
fn left_for_others() -> Durable {
    match mutated(Mutant::FilesLeftUnsynced) {
        true => Durable::AfterSync,
        false => Durable::AtOnce,
    }
}
