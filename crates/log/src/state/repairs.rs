//! Pages that a member has wrong: noted by readers, and taken by the thread that repairs them. A page is noted once.

use super::table::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Pages that are noted at most; more are found again by their next readers.
const NOTED_MAX: usize = 1024;

/// What is to be repaired.
#[derive(Default)]
pub(crate) struct Repairs {
    noted: Mutex<Vec<Entry>>,
    /// Every read asks, so without the lock.
    is_any: AtomicBool,
}

impl Repairs {
    /// Whether something was.
    pub(crate) fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A page is wrong on a member.
    pub(crate) fn note(&self, entry: Entry) {
        let mut noted = self.lock();
        let is_new = !noted.iter().any(|one| one.page == entry.page);
        if is_new && noted.len() < NOTED_MAX {
            noted.push(entry);
        }
        self.is_any.store(true, Ordering::Relaxed);
    }

    /// Takes what was noted.
    pub(crate) fn take(&self) -> Vec<Entry> {
        let mut noted = self.lock();
        self.is_any.store(false, Ordering::Relaxed);
        std::mem::take(&mut *noted)
    }
}
