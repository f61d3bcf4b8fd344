//! What was read ahead of a volume: windows, each so many blocks in memory of its own.
//!
//! A window has what the backing had of its blocks at one moment. It is right for a block that is not cached as long as nothing
//! of it is stale ([`crate::table::pins`]); whether that is so is asked after the block was seen not to be cached.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use crate::backing::AlignedBuffer;
use crate::sync::{AtomicBool, AtomicUsize, Ordering};
use crate::table::pins::Watch;

/// Windows of a volume at most; the oldest goes for one more.
const WINDOWS_MAX: usize = 8;

/// How a window stands. The thread that reads it holds the lock meanwhile.
pub(super) enum Content {
    /// No thread has begun to read it.
    Asked,
    Here(Filled),
    /// It was not read, or it is not to be used any more.
    Gone,
}

/// What the backing had of a window.
pub(super) struct Filled {
    pub(super) bytes: AlignedBuffer,
    /// Since before the backing was asked.
    pub(super) watch: Watch,
}

/// Blocks that are read ahead with one request.
pub(super) struct Window {
    pub(super) blocks: Range<u64>,
    content: Mutex<Content>,
    /// It was made or used since the last sweep.
    is_recent: AtomicBool,
    /// Windows of the pool.
    count: Arc<AtomicUsize>,
}

impl Window {
    /// Waits for a thread that reads it.
    pub(super) fn lock(&self) -> MutexGuard<'_, Content> {
        // Held while the backing is asked, at which a checker may switch threads.
        forebay_pmem::lock_or_yield(&self.content)
    }

    /// Has it read by no thread any more; false if one is reading it.
    fn retire(&self) -> bool {
        let mut content = match self.content.try_lock() {
            Ok(content) => content,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        *content = Content::Gone;
        true
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct List {
    windows: Vec<Arc<Window>>,
    /// The volume is gone.
    is_closed: bool,
}

/// The windows of one volume. One that a thread is reading stays listed, so that [`Windows::set_closed`] waits for it.
#[derive(Default)]
pub(crate) struct Windows {
    /// As many as are listed, so that readers need not lock where there are none.
    count: AtomicUsize,
    list: Mutex<List>,
}

impl Windows {
    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_count(&self, list: &List) {
        // Relaxed: a reader that sees an old one reads from the backing, or looks into the list.
        self.count.store(list.windows.len(), Ordering::Relaxed);
    }

    /// Lists windows of so many blocks each that begin within `blocks` and are not listed yet, as long as the pool has fewer than
    /// `limit`; returns the new ones.
    pub(super) fn ask(
        &self,
        blocks: Range<u64>,
        window_blocks: u64,
        volume_blocks: u64,
        (count, limit): (&Arc<AtomicUsize>, usize),
    ) -> Vec<Arc<Window>> {
        let mut list = self.list();
        let mut made = Vec::new();
        let first = blocks.start.next_multiple_of(window_blocks);
        for start in (first..blocks.end).step_by(window_blocks as usize) {
            let is_listed = list.windows.iter().any(|one| one.blocks.contains(&start));
            if is_listed {
                continue;
            }
            if list.is_closed || count.load(Ordering::Relaxed) >= limit {
                break;
            }
            if list.windows.len() == WINDOWS_MAX {
                let Some(oldest) = list.windows.iter().position(|one| one.retire()) else {
                    break;
                };
                list.windows.remove(oldest);
            }
            count.fetch_add(1, Ordering::Relaxed);
            let window = Arc::new(Window {
                blocks: start..(start + window_blocks).min(volume_blocks),
                content: Mutex::new(Content::Asked),
                is_recent: AtomicBool::new(true),
                count: Arc::clone(count),
            });
            list.windows.push(Arc::clone(&window));
            made.push(window);
        }
        self.set_count(&list);
        made
    }

    /// The window that has the block.
    pub(super) fn find(&self, block: u64) -> Option<Arc<Window>> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let list = self.list();
        let found = list
            .windows
            .iter()
            .find(|one| one.blocks.contains(&block))?;
        found.is_recent.store(true, Ordering::Relaxed);
        Some(Arc::clone(found))
    }

    /// Lists a window no longer that no thread will read.
    pub(super) fn remove(&self, window: &Arc<Window>) {
        let mut list = self.list();
        list.windows.retain(|one| !Arc::ptr_eq(one, window));
        self.set_count(&list);
    }

    /// Drops the windows that were neither made nor used since the last sweep.
    pub(super) fn sweep(&self) {
        let mut list = self.list();
        list.windows
            .retain(|one| one.is_recent.swap(false, Ordering::Relaxed) || !one.retire());
        self.set_count(&list);
    }

    /// With the volume gone, drops all, waits for those that are being read, and takes no more; or takes them again.
    pub(crate) fn set_closed(&self, is_closed: bool) {
        let mut list = self.list();
        list.is_closed = is_closed;
        let windows = match is_closed {
            true => std::mem::take(&mut list.windows),
            false => Vec::new(),
        };
        self.set_count(&list);
        drop(list);
        for window in windows {
            *window.lock() = Content::Gone;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(windows: &[Arc<Window>]) -> Vec<Range<u64>> {
        windows.iter().map(|one| one.blocks.clone()).collect()
    }

    #[test]
    fn windows_lie_beside_each_other_and_are_asked_for_once() {
        let (windows, count) = (Windows::default(), Arc::new(AtomicUsize::new(0)));
        let ask = |blocks| windows.ask(blocks, 16, 100, (&count, 16));
        assert_eq!(starts(&ask(5..40)), [16..32, 32..48]);
        assert_eq!(starts(&ask(30..50)), [48..64]);
        assert_eq!(starts(&ask(90..100)), [96..100]);
        assert_eq!(windows.find(40).map(|one| one.blocks.clone()), Some(32..48));
        assert!(windows.find(64).is_none() && windows.find(15).is_none());
    }

    #[test]
    fn a_volume_has_few_windows_and_a_pool_no_more_than_its_limit() {
        let (windows, count) = (Windows::default(), Arc::new(AtomicUsize::new(0)));
        for start in 0..100 {
            windows.ask(start..start + 1, 1, 1000, (&count, 10));
        }
        assert_eq!(count.load(Ordering::Relaxed), WINDOWS_MAX);
        assert!(windows.find(99).is_some() && windows.find(99 - 8).is_none());
        let other = Windows::default();
        assert_eq!(other.ask(0..100, 1, 1000, (&count, 10)).len(), 2);
        drop(other);
        assert_eq!(count.load(Ordering::Relaxed), WINDOWS_MAX);
    }

    #[test]
    fn what_nobody_used_between_two_sweeps_goes() {
        let (windows, count) = (Windows::default(), Arc::new(AtomicUsize::new(0)));
        windows.ask(0..2, 1, 1000, (&count, 10));
        windows.sweep();
        assert!(windows.find(1).is_some());
        windows.sweep();
        assert!(windows.find(0).is_none() && windows.find(1).is_some());
        windows.set_closed(true);
        assert_eq!(count.load(Ordering::Relaxed), 0);
        assert!(windows.ask(0..2, 1, 1000, (&count, 10)).is_empty());
        windows.set_closed(false);
        assert_eq!(windows.ask(0..2, 1, 1000, (&count, 10)).len(), 2);
    }
}
