//! The rebuilding of a member that joined a mirror, while the pool is used.
//!
//! From the moment at which it joins everything is stored to it, too; but a change that began before may not have
//! been. So each step rests on the one before it:
//!
//! 1. **It joins** (`Media::join`): all rosters call it `rebuilding`, durably.
//! 2. **The barrier**: every stripe's lock is taken once, and the checkpoint's. Each change that began before has
//!    ended; each that begins now goes to it, too. What was staged before it has its locks is completed when it
//!    has them (`Engine::complete`).
//! 3. **The lines** that stand alone are copied: incarnation, checkpoint, volumes.
//! 4. **The blocks**, each under its key's lock: a dirty one is copied to the half that is lacking, with what it rests
//!    on; a clean one to its first half, or it goes. A block that changes meanwhile is where it must be by itself.
//! 5. **A checkpoint** of the whole table. What the member has no record of is in its table now, durably.
//! 6. **It is called in** (`Media::call_in`), by a roster that is durable on all.
//!
//! Until step 6 no opening needs it or believes it, so a crash anywhere, or the member's death, leaves the pool as it
//! was without it.

use std::ops::ControlFlow;

use forebay_pmem::Region;

use super::Engine;
use super::change::Action;
use super::commit::{Block, Source};
use crate::error::{ErrorKind, Result};
use crate::media::entry::Entry;
use crate::media::volumes;
use crate::mutants::{Mutant, mutated};
use crate::table::CopiedFrom;
use crate::table::slot_ref::SlotRef;

/// Bytes copied with one fence.
const FENCE_BYTES: u64 = 1 << 20;
/// Entries looked at between two reports of progress.
const PROGRESS_STEP: u32 = 4096;

/// How far the rebuilding of a member is.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RebuildProgress {
    /// Bytes of blocks that were copied.
    pub done_bytes: u64,
    /// Bytes of blocks that were to be copied when it began.
    pub all_bytes: u64,
}

/// Told how far a rebuilding is; it ends where this breaks.
pub type RebuildWatcher<'w> = dyn FnMut(RebuildProgress) -> ControlFlow<()> + 'w;

/// What became of a block.
enum Copied {
    /// It is where it must be.
    Not,
    Block,
    /// It is clean, and no member that counts has it.
    Gone,
}

impl Engine {
    /// Rebuilds member `number` of a mirror, which is out, on a region; returns when it is in.
    ///
    /// # Errors
    /// It is not out; `watcher` ended it, or a fence of the region failed: the member is out again. A fence of the
    /// complete member failed: the pool takes no more writes.
    pub(crate) fn rebuild(
        &self,
        number: u32,
        region: Region,
        watcher: &mut RebuildWatcher<'_>,
    ) -> Result<()> {
        // One at a time: what one of them learns of the member would be true of another's.
        let Ok(_rebuilding) = self.rebuilding.try_lock() else {
            return Err(ErrorKind::Options(
                "a member of the pool is being rebuilt; wait until that has ended".into(),
            )
            .into());
        };
        self.check_writable()?;
        self.fatal(self.media().join(number, region))?;
        let rebuilt = self.rebuild_joined(number, watcher);
        if rebuilt.is_err() {
            // The caller needs the first error; of a pool that takes no writes the roster stays.
            let _ = self.check_writable().and_then(|()| self.take_out(number));
        }
        rebuilt
    }

    fn rebuild_joined(&self, number: u32, watcher: &mut RebuildWatcher<'_>) -> Result<()> {
        let calls_in_early = mutated(Mutant::MemberInBeforeCheckpoint);
        if calls_in_early {
            self.fatal(self.media().call_in(number))?;
        }
        {
            let _sending = forebay_pmem::lock_or_yield(&self.checkpoint);
            self.table.index().wait_for_holders();
            self.media().copy_current_lines();
            let lanes = self.log.lanes();
            lanes.visit_each(|lane, position| self.media().copy_first_lap(lane, position));
        }
        volumes::equalise(self.media());
        // Orders the lines before the roster that makes them count.
        self.fence()?;
        self.copy_blocks(number, watcher)?;
        // Orders the blocks before the roster that makes them count: the checkpoint may find nothing left to do, if another
        // thread's took the lines.
        self.fence()?;
        self.table.mark_all_unlogged();
        self.checkpoint()?;
        match calls_in_early {
            true => Ok(()),
            false => self.fatal(self.media().call_in(number)),
        }
    }

    /// If a fence of a member that counts failed, which ones do is not known.
    pub(super) fn fatal(&self, changed: Result<()>) -> Result<()> {
        changed.inspect_err(|error| {
            if !matches!(
                error.kind(),
                ErrorKind::Options(_) | ErrorKind::Refused { .. }
            ) {
                self.poison();
            }
        })
    }

    /// Step 4. A clean block that is to go may be in use: then there is another pass.
    fn copy_blocks(&self, number: u32, watcher: &mut RebuildWatcher<'_>) -> Result<()> {
        while self.copy_pass(number, watcher)? > 0 {
            crate::sync::spin_hint();
        }
        Ok(())
    }

    /// Returns the number of blocks that were to go.
    fn copy_pass(&self, number: u32, watcher: &mut RebuildWatcher<'_>) -> Result<usize> {
        let entries = self.media().geometry.entries;
        let block_bytes = self.block_bytes() as u64;
        let lacking = |index: &u32| {
            let entry = self.media().sound(self.table.entries().load(*index));
            entry.is_some_and(|entry| !self.is_where_it_must_be(entry))
        };
        let mut progress = RebuildProgress {
            done_bytes: 0,
            all_bytes: (0..entries).filter(lacking).count() as u64 * block_bytes,
        };
        let (mut unfenced_bytes, mut gone, mut all_gone) = (0, Vec::new(), 0);
        let mut block = vec![0; self.block_bytes()];
        for index in 0..entries {
            if index % PROGRESS_STEP == 0 {
                self.go_on(number, progress, watcher)?;
            }
            match self.copy_block(index, &mut block)? {
                Copied::Not => continue,
                Copied::Block => {}
                Copied::Gone => {
                    gone.push(index);
                    all_gone += 1;
                }
            }
            progress.done_bytes += block_bytes;
            unfenced_bytes += block_bytes;
            if unfenced_bytes >= FENCE_BYTES {
                self.evict_gone(&mut gone)?;
                // Only so that what is not durable yet stays little: the last fence orders all of it.
                self.fence()?;
                unfenced_bytes = 0;
                self.go_on(number, progress, watcher)?;
            }
        }
        self.evict_gone(&mut gone)?;
        self.go_on(number, progress, watcher)?;
        Ok(all_gone)
    }

    fn go_on(
        &self,
        number: u32,
        progress: RebuildProgress,
        watcher: &mut RebuildWatcher<'_>,
    ) -> Result<()> {
        self.check_writable()?;
        let still = self.media().is_rebuilding(number) || mutated(Mutant::MemberInBeforeCheckpoint);
        if !still {
            return Err(ErrorKind::Options(format!(
                "member {number} failed while it was rebuilt, and is out"
            ))
            .into());
        }
        match watcher(progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(ErrorKind::Options(format!(
                "the rebuilding of member {number} was ended"
            ))
            .into()),
        }
    }

    /// Whether recovery would find the entry's block where it looks for it.
    fn is_where_it_must_be(&self, entry: Entry) -> bool {
        let Some(slot_ref) = SlotRef::of(entry) else {
            return true;
        };
        let is_dirty = !entry.is_clean();
        let mut slots = self.table.slots_under(slot_ref);
        slots.all(|slot| self.media().is_in_place(slot, is_dirty))
    }

    /// Copies the block of an entry to where it is lacking.
    fn copy_block(&self, index: u32, block: &mut [u8]) -> Result<Copied> {
        let sound = || self.media().sound(self.table.entries().load(index));
        // An entry that takes another's place later is where it must be by itself.
        let Some(found) = sound().filter(|entry| !self.is_where_it_must_be(*entry)) else {
            return Ok(Copied::Not);
        };
        let stripe = self.table.bucket(found.key()).stripe;
        self.table.index().lock(stripe);
        let copied = match sound() {
            Some(entry) if entry.key() == found.key() => self.copy_locked(entry, block),
            _ => Ok(Copied::Not),
        };
        self.table.index().unlock(stripe);
        copied
    }

    /// The same under its key's lock, with which nothing of it changes: what has other holders never does (I10).
    fn copy_locked(&self, entry: Entry, block: &mut [u8]) -> Result<Copied> {
        let is_dirty = !entry.is_clean();
        let Some(slot_ref) = SlotRef::of(entry) else {
            return Ok(Copied::Not);
        };
        // A dirty block that is lost stays so, on this member as on the other: its check tells.
        if !is_dirty && self.table.copy_out(entry, true, block) == CopiedFrom::Nowhere {
            return Ok(Copied::Gone);
        }
        let copy = |slot| self.media().copy_half(slot, is_dirty);
        match self.table.slots_under(slot_ref).all(copy) {
            true => Ok(Copied::Block),
            false if is_dirty => Err(self.corrupt(entry.key())),
            false => Ok(Copied::Gone),
        }
    }

    /// Evicts clean blocks that no member has, unless they are in use or have changed.
    fn evict_gone(&self, gone: &mut Vec<u32>) -> Result<()> {
        for batch in gone.chunks(self.batch_of(usize::MAX)) {
            self.evict(batch.to_vec())?;
        }
        gone.clear();
        Ok(())
    }

    /// Completes what a commit staged before it had its locks, in case a member joined since. False if the change rests
    /// on a block that is not everywhere yet. The caller holds the locks.
    ///
    /// # Errors
    /// The medium has changed a block that was staged.
    #[cold]
    pub(super) fn complete(&self, change: &super::change::Change) -> Result<bool> {
        Ok(match &change.action {
            Action::Block { slot, crc } if !self.media().complete_staged(*slot, *crc) => {
                return Err(self.corrupt(change.key));
            }
            Action::Share { held, .. } => self.table.is_all_protected(*held),
            Action::Packed { packing, .. } => packing
                .base
                .is_none_or(|base| self.media().is_protected(base)),
            _ => true,
        })
    }

    /// The same of a whole block.
    ///
    /// # Errors
    /// The medium has changed it.
    #[cold]
    pub(super) fn complete_block(&self, block: &Block) -> Result<()> {
        match block.source {
            Source::Slot { crc } if !self.media().complete_staged(block.slot, crc) => {
                Err(self.corrupt(block.key))
            }
            _ => Ok(()),
        }
    }
}
