//! The files that the buffer knows: open ones, and closed ones that the pool has something of.
//!
//! A closed file stays known, with its descriptor, until there are many: then the ones closed longest
//! ago are drained and leave the pool.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::content::{Content, Suspender};
use crate::file::{BufferedFile, Closing};
use crate::identity::FileIdentity;
use crate::shared::Shared;
use crate::target::Target;

/// See the module.
#[derive(Debug)]
pub(crate) struct Registry {
    files: Mutex<Files>,
    /// Closed files that are kept at most: each has a descriptor.
    closed_max: usize,
}

#[derive(Debug, Default)]
struct Files {
    known: HashMap<FileIdentity, Known>,
    /// Files in the order in which they were closed, with the number of that closing.
    closed: VecDeque<(FileIdentity, u64)>,
    closings: u64,
    /// How many are closed now.
    closed_count: usize,
    /// Inodes that are not known although a crash might lose some of what was done to them: files that
    /// were released, files and directories whose attributes changed; with the number of that change.
    unsynced: HashMap<FileIdentity, u64>,
    changes: u64,
    /// The buffer is closed: files pass through.
    is_over: bool,
}

#[derive(Debug)]
struct Known {
    content: Arc<Content>,
    handle: Weak<BufferedFile>,
    /// Which closing it is since; 0 while it is open.
    closing: u64,
}

impl Files {
    fn note_unsynced(&mut self, identity: FileIdentity) {
        self.changes += 1;
        self.unsynced.insert(identity, self.changes);
    }
}

/// A file that was closed, at its closing.
struct Closed {
    identity: FileIdentity,
    closing: u64,
    content: Arc<Content>,
}

impl Registry {
    pub(crate) fn new(closed_max: usize) -> Registry {
        Registry {
            files: Mutex::default(),
            closed_max,
        }
    }

    /// The handle of a file, made if no caller has it open.
    ///
    /// # Errors
    /// The descriptor cannot be looked at.
    pub(crate) fn adopt(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        descriptor: OwnedFd,
    ) -> io::Result<Arc<BufferedFile>> {
        let identity = FileIdentity::of(&descriptor)?;
        let mut files = self.lock();
        if let Some(handle) = self.open_again(&mut files, identity) {
            // A handle that goes asks for the lock.
            drop(files);
            handle.offer_descriptor(descriptor)?;
            return Ok(handle);
        }
        let is_new = shared.naming.is_new(descriptor.as_fd());
        let target = Target::new(descriptor)?;
        let is_noted = files.unsynced.remove(&identity).is_some();
        let content = Arc::new(Content::new(shared, target, is_new, is_noted));
        if files.is_over {
            content.suspend(Suspender::End)?;
        }
        let handle = Arc::new(BufferedFile::new(content.clone(), self.clone()));
        files.known.insert(
            identity,
            Known {
                content,
                handle: Arc::downgrade(&handle),
                closing: 0,
            },
        );
        Ok(handle)
    }

    /// The handle of a file that is known.
    pub(crate) fn known(self: &Arc<Self>, identity: FileIdentity) -> Option<Arc<BufferedFile>> {
        self.open_again(&mut self.lock(), identity)
    }

    /// The content of a file that is known; it counts as open no longer than before.
    pub(crate) fn content(&self, identity: FileIdentity) -> Option<Arc<Content>> {
        let files = self.lock();
        files
            .known
            .get(&identity)
            .map(|known| known.content.clone())
    }

    /// Attributes of an inode were changed and not recorded: its next sync is to see to that in the backing.
    pub(crate) fn awaits_backing(&self, identity: FileIdentity) {
        let mut files = self.lock();
        // A content that is let go meanwhile has been asked before what is unsynced of it: the next one is told, or all.
        while let Some(known) = files.known.get(&identity) {
            let content = known.content.clone();
            drop(files);
            content.awaits_backing();
            files = self.lock();
            let known = files.known.get(&identity);
            if known.is_some_and(|known| Arc::ptr_eq(&known.content, &content)) {
                return;
            }
        }
        files.note_unsynced(identity);
    }

    /// The number of the inode's last change that only a sync of the backing makes durable.
    pub(crate) fn unsynced(&self, identity: FileIdentity) -> Option<u64> {
        self.lock().unsynced.get(&identity).copied()
    }

    /// The backing has synced the inode since that change. Until then any other handle that is asked to
    /// sync it does so too.
    pub(crate) fn synced(&self, identity: FileIdentity, change: u64) {
        let mut files = self.lock();
        if files.unsynced.get(&identity) == Some(&change) {
            files.unsynced.remove(&identity);
        }
    }

    fn open_again(
        self: &Arc<Self>,
        files: &mut Files,
        identity: FileIdentity,
    ) -> Option<Arc<BufferedFile>> {
        let known = files.known.get_mut(&identity)?;
        if std::mem::take(&mut known.closing) > 0 {
            files.closed_count -= 1;
        }
        let handle = known
            .handle
            .upgrade()
            .unwrap_or_else(|| Arc::new(BufferedFile::new(known.content.clone(), self.clone())));
        known.handle = Arc::downgrade(&handle);
        Some(handle)
    }

    /// Closed files beyond those that are kept.
    fn oldest(&self, files: &mut Files) -> Vec<Closed> {
        let mut oldest = Vec::new();
        if files.closed_count <= self.closed_max {
            return oldest;
        }
        // Many at once: syncs of several files cost little more than one.
        let wanted = files.closed_count - self.closed_max * 3 / 4;
        while oldest.len() < wanted {
            let Some((identity, closing)) = files.closed.pop_front() else {
                break;
            };
            if let Some(known) = files.known.get(&identity)
                && known.closing == closing
            {
                oldest.push(Closed {
                    identity,
                    closing,
                    content: known.content.clone(),
                });
            }
        }
        oldest
    }

    /// Drains files that were closed, and forgets those that were not opened meanwhile.
    fn let_go(&self, oldest: Vec<Closed>) {
        for closed in oldest {
            // Where the backing fails the file stays known, and with it what the pool has of it.
            let drained = closed.content.drain_and_leave();
            let mut files = self.lock();
            if drained.is_err() {
                files.closed.push_back((closed.identity, closed.closing));
                continue;
            }
            let known = files.known.get(&closed.identity);
            // Opened and closed again meanwhile, it may be in the pool again.
            let is_same = known.is_some_and(|known| known.closing == closed.closing);
            if is_same && !closed.content.is_pooled() {
                if closed.content.is_unsynced() {
                    files.note_unsynced(closed.identity);
                }
                files.known.remove(&closed.identity);
                files.closed_count -= 1;
            }
        }
    }

    /// All contents.
    pub(crate) fn contents(&self) -> Vec<Arc<Content>> {
        let files = self.lock();
        let mut known: Vec<_> = files.known.iter().collect();
        // The same order in every run: what fails in one can be looked at in another.
        known.sort_unstable_by_key(|(identity, _)| (identity.device, identity.inode));
        let contents = known.into_iter().map(|(_, known)| known.content.clone());
        contents.collect()
    }

    /// From now on files pass through; returns all that are known.
    pub(crate) fn end(&self) -> Vec<Arc<Content>> {
        self.lock().is_over = true;
        self.contents()
    }

    /// Forgets everything, as a process that is killed does.
    pub(crate) fn forget_all(&self) {
        let known = std::mem::take(&mut self.lock().known);
        drop(known);
    }

    fn lock(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Closing for Registry {
    fn closed(&self, identity: FileIdentity) {
        let mut files = self.lock();
        files.closings += 1;
        let closing = files.closings;
        let Some(known) = files.known.get_mut(&identity) else {
            return;
        };
        if known.handle.strong_count() > 0 || known.closing > 0 {
            // Opened again meanwhile, and perhaps closed too.
            return;
        }
        if known.content.is_unlinked() {
            let gone = files.known.remove(&identity);
            drop(files);
            if let Some(gone) = gone {
                // What stays behind on an error is of a file without a name, which recovery drops.
                drop(gone.content.abandon());
            }
            return;
        }
        if known.content.is_suspended() {
            // Others may use it: no descriptor of ours stays, and what they leave unsynced is unknown.
            files.note_unsynced(identity);
            let gone = files.known.remove(&identity);
            drop(files);
            drop(gone);
            return;
        }
        let content = known.content.clone();
        known.closing = closing;
        files.closed_count += 1;
        files.closed.push_back((identity, closing));
        if files.closed.len() > 2 * files.closed_count.max(self.closed_max) {
            // Mostly of files that were opened again.
            let Files { known, closed, .. } = &mut *files;
            closed.retain(|(identity, closing)| {
                known
                    .get(identity)
                    .is_some_and(|known| known.closing == *closing)
            });
        }
        let oldest = self.oldest(&mut files);
        drop(files);
        content.closed();
        self.let_go(oldest);
    }
}

#[cfg(test)]
impl Registry {
    /// How many closed files it says there are, and how many there are.
    pub(crate) fn closed_counts(&self) -> (usize, usize) {
        let files = self.lock();
        let closed = files.known.values().filter(|known| known.closing > 0);
        (files.closed_count, closed.count())
    }
}
