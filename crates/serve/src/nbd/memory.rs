//! The memory that a server's long requests share: who asks for more than is left waits its turn.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often one that waits looks whether it still has to.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Bytes for requests, shared by all connections of a server.
pub(crate) struct Memory {
    bytes_max: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    used_bytes: u64,
    next_number: u64,
    /// In the order of their coming, so that long requests are not passed over for ever.
    waiting: VecDeque<u64>,
}

/// Bytes taken, given back when this is dropped.
pub(crate) struct Share {
    memory: Arc<Memory>,
    bytes: u64,
}

impl Memory {
    pub(crate) fn new(bytes_max: u64) -> Arc<Memory> {
        Arc::new(Memory {
            bytes_max,
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there are so many bytes, or all of them where that is less, and takes them;
    /// `None` once `is_over`.
    pub(crate) fn take(
        self: &Arc<Memory>,
        bytes: u64,
        is_over: impl Fn() -> bool,
    ) -> Option<Share> {
        let bytes = bytes.min(self.bytes_max);
        let mut state = self.lock();
        let number = state.next_number;
        state.next_number += 1;
        state.waiting.push_back(number);
        while state.waiting.front() != Some(&number) || state.used_bytes + bytes > self.bytes_max {
            if is_over() {
                state.waiting.retain(|other| *other != number);
                self.changed.notify_all();
                return None;
            }
            (state, _) = self
                .changed
                .wait_timeout(state, LOOK_INTERVAL)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting.pop_front();
        state.used_bytes += bytes;
        self.changed.notify_all();
        Some(Share {
            memory: Arc::clone(self),
            bytes,
        })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.memory.lock().used_bytes -= self.bytes;
        self.memory.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_taken_in_turn() {
        let memory = Memory::new(10);
        let first = memory.take(6, || false).unwrap();
        assert!(memory.take(5, || true).is_none(), "not enough is left");
        let second = memory.take(4, || false).unwrap();
        std::thread::scope(|scope| {
            let long = scope.spawn(|| memory.take(99, || false).unwrap().bytes);
            while memory.lock().waiting.is_empty() {
                std::thread::yield_now();
            }
            drop(first);
            assert!(memory.take(1, || true).is_none(), "another came first");
            drop(second);
            assert_eq!(long.join().unwrap(), 10, "all there is");
        });
        assert_eq!(memory.lock().used_bytes, 0);
    }
}
