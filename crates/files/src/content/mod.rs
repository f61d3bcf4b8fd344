//! What a file holds: part of it in the pool, the rest in the backing.
//!
//! A file is *hot* while its writes are synchronous or soon synced: each write is one transaction of
//! the pool, with the file's size in it, and durable when it returns. A *cold* file's writes go to the
//! backing's page cache as without us; what they wrote is remembered, and a sync absorbs it into the
//! pool. Invariants, under the file's lock:
//!
//! * a block that the pool holds is changed in the pool only, so the pool's copy is the newest;
//! * bytes of such a block behind the file's end are zero;
//! * the backing's file is never longer than ours, so what it gains reads as zeroes;
//! * bytes that are neither in the pool nor durable in the backing are in `unsynced`;
//! * once the pool has failed, nothing of a file that it has or may have is acknowledged;
//! * before a file grows, the pool has nothing behind its end.

mod attributes;
mod give_back;
mod membership;
mod pooled;
mod read;
mod resize;
mod room;
mod sync;
mod write;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::facts::{FileFacts, SyncKind};
use crate::mutants::{Mutant, mutated};
use crate::ranges::Ranges;
use crate::shared::Shared;
use crate::target::Target;
use pooled::Pooled;
use room::Room;

/// One inode's content.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) target: Arc<Target>,
    shared: Arc<Shared>,
    state: RwLock<State>,
    /// Syncs of the backing's file, one at a time: a caller that comes meanwhile waits for it.
    syncing: Mutex<()>,
    /// Whether a sync has anything to do.
    needs_sync: AtomicBool,
    /// Bytes written to the pool since the last sync that no caller asked to be durable.
    unasked_bytes: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// Every call goes straight to the backing.
    passes_through: bool,
    suspended: Suspended,
    is_hot: bool,
    /// The row may say that the page cache has everything: to be taken back before the pool gets more.
    is_handed_over: bool,
    /// Where the pool has it, if it does.
    pooled: Option<Pooled>,
    /// The pool failed while the file was given a row, which may be there after a crash.
    may_have_row: bool,
    unsynced: Unsynced,
    /// Failed syncs of the backing that callers were told of.
    failures_told: u64,
    /// Syncs of the backing that have taken over what was unsynced, and are not done.
    syncs_under_way: u32,
    /// No name is left: nothing need survive.
    is_unlinked: bool,
    /// Where the backing has room for what the pool will write.
    room: Room,
}

/// Why every call goes straight to the backing.
#[derive(Debug, Default)]
struct Suspended {
    /// A caller asked for it, and has not ended it.
    is_asked: bool,
    /// So many operations lend the file out for as long as they take.
    lent: u32,
    /// The buffer is closed.
    is_over: bool,
}

/// What suspends a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Suspender {
    /// A caller, until it ends it.
    Caller,
    /// An operation, for as long as it takes.
    Operation,
    /// The buffer's end.
    End,
}

/// What of the backing's file is not known to be durable there.
#[derive(Debug, Default)]
struct Unsynced {
    ranges: Ranges,
    /// Perhaps anything of it, its attributes too: it was changed before this process opened it, or by others.
    everything: bool,
    /// Its attributes for certain: they were changed, and not recorded, before it was opened. `everything` sees to that.
    noted: bool,
    /// The file's size grew.
    size: bool,
    /// Mode, owner or times changed.
    attributes: bool,
}

impl Unsynced {
    fn is_empty(&self) -> bool {
        self.ranges.is_empty() && !self.everything && !self.size && !self.attributes
    }

    /// What the backing is asked for. What is perhaps anything is perhaps the attributes, which `fdatasync`
    /// leaves out; no later sync would know of them.
    fn sync_kind(&self, asked: SyncKind) -> SyncKind {
        match self.everything && !mutated(Mutant::FilesAttributesLeftOut) {
            true => SyncKind::All,
            false => asked,
        }
    }

    /// A sync failed: what it was to make durable is not.
    fn restore(&mut self, failed: &Unsynced) {
        self.ranges.add_all(&failed.ranges);
        self.everything |= failed.everything;
        self.noted |= failed.noted;
        self.size |= failed.size;
        self.attributes |= failed.attributes;
    }
}

impl Content {
    /// The content of a file that the pool has nothing of. Its attributes were changed and not recorded if it `is_noted`; else all
    /// that was ever done to it is durable, or nothing was, if it is new.
    pub(crate) fn new(
        shared: &Arc<Shared>,
        target: Target,
        is_new: bool,
        is_noted: bool,
    ) -> Content {
        let is_known = is_new && !is_noted;
        let mut state = State::default();
        state.unsynced.everything = !is_known;
        state.unsynced.noted = is_noted;
        Content {
            target: Arc::new(target),
            shared: shared.clone(),
            state: RwLock::new(state),
            syncing: Mutex::new(()),
            needs_sync: AtomicBool::new(!is_known),
            unasked_bytes: AtomicU64::new(0),
        }
    }

    /// The size that readers see.
    pub(crate) fn size_bytes(&self) -> io::Result<u64> {
        let state = self.read_state();
        match state.passes_through {
            true => self.target.backing_size(),
            false => Ok(self.target.size_bytes()),
        }
    }

    /// What is reserved behind the file's end.
    fn spare_bytes(&self) -> u64 {
        let state = self.read_state();
        match state.passes_through {
            true => 0,
            false => state.room.spare_bytes(self.target.size_bytes()),
        }
    }

    /// What `stat` is to say.
    pub(crate) fn facts(&self) -> io::Result<FileFacts> {
        let (modified, written) = self.target.times.told();
        Ok(FileFacts {
            size_bytes: self.size_bytes()?,
            spare_bytes: self.spare_bytes(),
            lacks_room: self.read_state().room.is_impossible(),
            modified,
            written,
        })
    }

    /// A name of the inode went. If it was the last one, nothing of it need survive.
    pub(crate) fn unlinked(&self) {
        // The caller may have been wrong: another process may have linked it meanwhile.
        let is_nameless =
            rustix::fs::fstat(&*self.target.descriptor()).is_ok_and(|stat| stat.st_nlink == 0);
        if is_nameless {
            self.write_state().is_unlinked = true;
        }
    }

    /// Mode, owner, times or extended attributes changed in the backing, past the log.
    pub(crate) fn attributes_changed(&self) {
        let naming = &self.shared.naming;
        naming.changed_without_record(self.target.identity());
        self.awaits_backing();
    }

    /// Attributes were changed and not recorded: the next sync is to see to that in the backing.
    pub(crate) fn awaits_backing(&self) {
        self.write_state().unsynced.attributes = true;
        self.needs_sync.store(true, Ordering::Release);
    }

    /// Whether attributes were changed and not recorded, and not synced since, for all we know: a sync that is under way has taken
    /// what it may have to give back. The next one waits for it.
    pub(crate) fn has_unsynced_attributes(&self) -> bool {
        let state = self.read_state();
        let unsynced = &state.unsynced;
        unsynced.attributes || unsynced.noted || state.syncs_under_way > 0
    }

    /// Whether the pool has something of it.
    pub(crate) fn is_pooled(&self) -> bool {
        self.read_state().pooled.is_some()
    }

    /// Whether something of it that only the backing has may be lost in a crash, for all we know. What the pool has is not meant, synced or not.
    pub(crate) fn is_unsynced(&self) -> bool {
        let state = self.read_state();
        state.passes_through || !state.unsynced.is_empty()
    }

    /// To be called when `unsynced` has changed.
    fn note_unsynced(&self, state: &State) {
        let needs_sync =
            state.passes_through || state.syncs_under_way > 0 || !state.unsynced.is_empty();
        self.needs_sync.store(needs_sync, Ordering::Release);
    }

    fn read_state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_state(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}
