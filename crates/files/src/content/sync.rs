//! Syncs: what went past the pool is absorbed, or the backing itself is synced.

use std::io;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::{Content, State};
use crate::errors::from_pool;
use crate::facts::SyncKind;
use crate::mutants::{Mutant, mutated};

/// Bytes that are read back at once to be absorbed.
const ABSORBED_AT_ONCE: u64 = 1 << 20;

impl Content {
    /// Makes everything written so far durable: what went past the pool, and then, by one flush of an SSD, all that the pool has.
    pub(crate) fn sync(&self, kind: SyncKind) -> io::Result<()> {
        self.unasked_bytes.store(0, Ordering::Relaxed);
        if self.needs_sync.load(Ordering::Acquire) {
            self.sync_past(kind)?;
            if self.read_state().is_unlinked || !self.has_more_in_pool() {
                return self.sync_names();
            }
        }
        self.sync_pooled()
    }

    /// The first part of a sync alone.
    pub(crate) fn sync_past_pool(&self, kind: SyncKind) -> io::Result<()> {
        match self.needs_sync.load(Ordering::Acquire) {
            true => self.sync_past(kind),
            false => Ok(()),
        }
    }

    /// Whether the pool may have something of it that is to survive, and that the backing has not.
    fn has_more_in_pool(&self) -> bool {
        let state = self.read_state();
        let has_any = state.pooled.is_some() || state.may_have_row;
        has_any && !state.passes_through
    }

    /// What the pool has nothing of is durable in the backing: its name, and all before it, are too when this returns.
    pub(super) fn sync_names(&self) -> io::Result<()> {
        match mutated(Mutant::FilesSyncWithoutNames) {
            true => Ok(()),
            false => self.shared.sync_names(),
        }
    }

    /// Makes durable what was written to the pool.
    fn sync_pooled(&self) -> io::Result<()> {
        let volume = &self.shared.volume;
        let synced = match mutated(Mutant::FilesSyncWithoutPool) {
            true => volume.check_durable(),
            false => volume.sync(),
        };
        synced.map_err(from_pool)
    }

    /// Absorbs what went past the pool, or makes it durable in the backing.
    fn sync_past(&self, kind: SyncKind) -> io::Result<()> {
        let _one = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.write_state();
        let unsynced = &state.unsynced;
        if state.passes_through {
            drop(state);
            return self.sync_descriptor(kind);
        }
        if state.is_unlinked {
            // Nothing of it need survive.
            return Ok(());
        }
        self.check_decided(&state)?;
        if kind == SyncKind::Data && unsynced.attributes && self.has_only_attributes(&state) {
            return Ok(());
        }
        let failures = self.target.failed_syncs();
        if failures != state.failures_told {
            // Another caller's sync was told of a page that may have been this caller's.
            state.failures_told = failures;
            state.unsynced.everything = true;
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        let unsynced = &state.unsynced;
        let is_for_backing = unsynced.everything
            || (unsynced.attributes && kind == SyncKind::All)
            || unsynced.ranges.has_overflowed()
            || unsynced.ranges.bytes() > self.shared.absorbed_bytes_max;
        if !is_for_backing && self.take_back(&mut state).is_ok() && self.join_pool(&mut state) {
            let absorbed = match mutated(Mutant::FilesSyncNotAbsorbed) {
                true => Ok(()),
                false => self.absorb(&mut state),
            };
            self.note_unsynced(&state);
            if absorbed.is_ok() {
                return Ok(());
            }
            // The pool is full: the backing may still do.
        }
        self.check_decided(&state)?;
        let kind = state.unsynced.sync_kind(kind);
        let taken = std::mem::take(&mut state.unsynced);
        state.syncs_under_way += 1;
        drop(state);
        let mut result = self.sync_descriptor(kind);
        let mut state = self.write_state();
        state.syncs_under_way -= 1;
        let failures = self.target.failed_syncs();
        if result.is_ok() && failures != state.failures_told {
            result = Err(io::Error::from_raw_os_error(libc::EIO));
        }
        state.failures_told = failures;
        match &result {
            Ok(()) => state.unsynced.attributes |= taken.attributes && kind == SyncKind::Data,
            Err(_) => state.unsynced.restore(&taken),
        }
        self.note_unsynced(&state);
        result
    }

    fn has_only_attributes(&self, state: &State) -> bool {
        let unsynced = &state.unsynced;
        unsynced.ranges.is_empty() && !unsynced.everything && !unsynced.size
    }

    fn sync_descriptor(&self, kind: SyncKind) -> io::Result<()> {
        match kind {
            SyncKind::Data => self.target.sync_data(),
            SyncKind::All => {
                let sync = || self.target.sync_all();
                self.shared.naming.settle(self.target.identity(), &sync)
            }
        }
    }

    /// Fails once the pool has failed, if it has something of the file, or may have: what its last writes were to bring is there
    /// after a crash, or not, and would be put over what only the backing has. To be asked before anything is acknowledged that
    /// the backing alone has.
    fn check_decided(&self, state: &State) -> io::Result<()> {
        match state.pooled.is_some() || state.may_have_row {
            true => self.shared.volume.check_durable().map_err(from_pool),
            false => Ok(()),
        }
    }

    /// Makes the backing's file durable while the file is locked.
    pub(super) fn sync_backing_locked(&self, state: &mut State) -> io::Result<()> {
        self.check_decided(state)?;
        let kind = state.unsynced.sync_kind(SyncKind::Data);
        self.sync_descriptor(kind)?;
        let attributes = state.unsynced.attributes && kind == SyncKind::Data;
        state.unsynced = super::Unsynced {
            attributes,
            ..super::Unsynced::default()
        };
        self.note_unsynced(state);
        Ok(())
    }

    /// Brings what only the page cache has into the pool. The file is hot then: a program that syncs
    /// once does so again.
    fn absorb(&self, state: &mut State) -> io::Result<()> {
        // A write that failed is remembered whole; the file ends where it ends.
        state.unsynced.ranges.cut(self.target.size_bytes());
        let ranges: Vec<(u64, u64)> = state.unsynced.ranges.iter().collect();
        let mut bytes = Vec::new();
        for (start, end) in ranges {
            let mut at = start;
            while at < end {
                let len = (end - at).min(ABSORBED_AT_ONCE);
                bytes.resize(len as usize, 0);
                self.read_inside(state.pooled.as_ref(), at, &mut bytes)?;
                // The sync that this is part of ends with the pool.
                self.write_pooled(state, at, &bytes, false)?;
                at += len;
            }
        }
        let size_bytes = self.target.size_bytes();
        let pooled = state.pooled.as_mut().expect("it has joined the pool");
        if pooled.size_bytes != size_bytes {
            self.write_size(pooled, size_bytes)?;
        }
        state.is_hot = true;
        let attributes = state.unsynced.attributes;
        state.unsynced = super::Unsynced {
            attributes,
            ..super::Unsynced::default()
        };
        Ok(())
    }
}
