//! Giving files back to the backing: drained, suspended, forgotten.

use std::io;

use super::{Content, State, Suspender};
use crate::errors::from_pool;

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
            self.lengthen_backing()?;
            self.shared.store.settle_cut(&self.target)?;
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
    pub(crate) fn suspend(&self, who: Suspender) -> io::Result<()> {
        let mut state = self.write_state();
        if state.pooled.is_some() {
            self.drain_locked(&mut state)?;
            self.leave_pool(&mut state)?;
        }
        match who {
            Suspender::Caller => state.suspended.is_asked = true,
            Suspender::Operation => state.suspended.lent += 1,
            Suspender::End => state.suspended.is_over = true,
        }
        state.passes_through = true;
        self.note_unsynced(&state);
        Ok(())
    }

    /// Ends a suspension. If it was the last one, nobody else uses the file any more.
    pub(crate) fn resume(&self, who: Suspender) -> io::Result<()> {
        let mut state = self.write_state();
        let suspended = &mut state.suspended;
        match who {
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
        // Others may have written what nobody synced.
        state.unsynced.everything = true;
        state.room.forget();
        self.note_unsynced(&state);
        Ok(())
    }

    /// Whether every call goes straight to the backing.
    pub(crate) fn is_suspended(&self) -> bool {
        self.read_state().passes_through
    }

    /// Nobody has the file open any more, and it has no name: its data goes.
    pub(crate) fn is_unlinked(&self) -> bool {
        self.read_state().is_unlinked
    }

    /// The pool forgets the file without writing anything of it back.
    pub(crate) fn abandon(&self) -> io::Result<()> {
        let mut state = self.write_state();
        self.leave_pool(&mut state)
    }

    /// Drains the file and makes the pool forget it, so that nothing is left of it but what the backing
    /// has.
    pub(crate) fn settle(&self) -> io::Result<()> {
        let mut state = self.write_state();
        if state.pooled.is_none() {
            return Ok(());
        }
        self.drain_locked(&mut state)?;
        self.leave_pool(&mut state)
    }
}
