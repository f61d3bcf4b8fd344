//! What a pool keeps for reading ahead: how far, which windows wait to be read, memory for the next ones.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::background::ahead_windows::Window;
use crate::background::volume_state::VolumeState;
use crate::backing::AlignedBuffer;
use crate::sync::{AtomicU64, AtomicUsize, Ordering};

/// How far ahead of a run is read at most; more is as much.
pub(crate) const READ_AHEAD_BYTES_MAX: u64 = 64 << 20;
/// Buffers that are kept for the next windows.
const SPARE_BUFFERS_MAX: usize = 4;

/// A window that is to be read.
pub(super) struct Job {
    pub(super) volume: Weak<VolumeState>,
    pub(super) window: Weak<Window>,
}

/// What waits, and what reads it.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) jobs: VecDeque<Job>,
    pub(super) spare: Vec<AlignedBuffer>,
    pub(super) threads: Vec<JoinHandle<()>>,
    pub(super) is_stopping: bool,
    pub(super) swept_at: Option<Instant>,
}

/// What is read ahead in a pool.
pub(crate) struct ReadAhead {
    /// How far; 0 if nothing is.
    bytes: AtomicU64,
    pub(super) window_count: Arc<AtomicUsize>,
    queue: Mutex<Queue>,
    /// A window waits to be read, or the pool is being closed.
    pub(super) work: Condvar,
}

impl ReadAhead {
    /// Nothing was read ahead yet.
    pub(crate) fn new(bytes: u64) -> ReadAhead {
        ReadAhead {
            bytes: AtomicU64::new(bytes.min(READ_AHEAD_BYTES_MAX)),
            window_count: Arc::default(),
            queue: Mutex::default(),
            work: Condvar::new(),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn set_bytes(&self, bytes: u64) {
        let bytes = bytes.min(READ_AHEAD_BYTES_MAX);
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory for a window; none where the system has none.
    pub(super) fn buffer(&self, len: usize) -> Option<AlignedBuffer> {
        let mut queue = self.queue();
        let fits = queue.spare.iter().position(|buffer| buffer.len() == len);
        let found = fits.map(|at| queue.spare.swap_remove(at));
        drop(queue);
        found.or_else(|| AlignedBuffer::try_new(len))
    }

    pub(super) fn give_back(&self, buffer: AlignedBuffer) {
        let mut queue = self.queue();
        if queue.spare.len() < SPARE_BUFFERS_MAX {
            queue.spare.push(buffer);
        }
    }
}
