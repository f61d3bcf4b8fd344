//! The memory that a server's long requests share: a request for more than is left waits its turn.
//!
//! What holds memory while it waits for its own client, for data to come or for a reply to be taken, may
//! do so for as long as no other client needs the memory, and after that for [`Memory`]'s patience: then
//! that client is cut off, so that a slow client does not keep the others waiting.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::nbd::link::Link;

/// How often one that waits looks whether it still has to.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Bytes for requests, shared by all connections of a server.
pub(crate) struct Memory {
    bytes_max: u64,
    patience: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    used_bytes: u64,
    next_number: u64,
    /// In the order of their coming, so that long requests are not passed over for ever.
    waiting: VecDeque<u64>,
    holders: Vec<Weak<Holder>>,
}

/// Whose bytes are taken.
struct Holder {
    link: Arc<Link>,
    /// Since when its client is waited for, if it is.
    waits_since: Mutex<Option<Instant>>,
}

impl Holder {
    fn waits_for(&self) -> Option<Duration> {
        let since = *self.waits_since.lock();
        since.map(|since| since.elapsed())
    }
}

/// Bytes taken, given back when this is dropped.
pub(crate) struct Share {
    memory: Arc<Memory>,
    bytes: u64,
    holder: Arc<Holder>,
}

impl Share {
    /// From now on its client is waited for, or no longer.
    pub(crate) fn wait_for_client(&self, waits: bool) {
        let mut since = self.holder.waits_since.lock();
        *since = waits.then(Instant::now);
    }
}

impl Memory {
    pub(crate) fn new(bytes_max: u64, patience: Duration) -> Arc<Memory> {
        Arc::new(Memory {
            bytes_max,
            patience,
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Waits until `bytes` bytes are free, or all of them where that is less, and takes them for a
    /// request of `link`'s; `None` once that is cut.
    pub(crate) fn take(self: &Arc<Memory>, bytes: u64, link: &Arc<Link>) -> Option<Share> {
        let bytes = bytes.min(self.bytes_max);
        let start = Instant::now();
        let mut state = self.lock();
        let number = state.next_number;
        state.next_number += 1;
        state.waiting.push_back(number);
        while state.waiting.front() != Some(&number) || state.used_bytes + bytes > self.bytes_max {
            if link.is_cut() {
                state.waiting.retain(|other| *other != number);
                self.changed.notify_all();
                return None;
            }
            if state.waiting.front() == Some(&number) && start.elapsed() >= self.patience {
                state.cut_off_slowest(self.patience);
            }
            let interval = LOOK_INTERVAL.min(self.patience);
            self.changed.wait_for(&mut state, interval);
        }
        state.waiting.pop_front();
        state.used_bytes += bytes;
        let holder = Arc::new(Holder {
            link: Arc::clone(link),
            waits_since: Mutex::new(None),
        });
        state.holders.retain(|holder| holder.strong_count() > 0);
        state.holders.push(Arc::downgrade(&holder));
        self.changed.notify_all();
        Some(Share {
            memory: Arc::clone(self),
            bytes,
            holder,
        })
    }
}

impl State {
    /// Cuts off the one whose client has been waited for longest, if that is long enough. Its bytes
    /// come back as soon as its threads have seen it.
    fn cut_off_slowest(&self, patience: Duration) {
        let holders = self.holders.iter().filter_map(Weak::upgrade);
        let alive = holders.filter(|holder| !holder.link.is_cut());
        let slowest = alive
            .filter_map(|holder| Some((holder.waits_for()?, holder)))
            .max_by_key(|(waits, _)| *waits);
        if let Some((waits, holder)) = slowest
            && waits >= patience
        {
            tracing::warn!(
                waited_s = waits.as_secs(),
                "an NBD client that others wait for is cut off: it does not send its data, or does not \
                 take its reply"
            );
            holder.link.cut();
        }
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
        let memory = Memory::new(10, Duration::from_secs(3600));
        let (link, gone) = (link(), link());
        gone.cut();
        let first = memory.take(6, &link).unwrap();
        assert!(memory.take(5, &gone).is_none(), "not enough is left");
        let second = memory.take(4, &link).unwrap();
        std::thread::scope(|scope| {
            let long = scope.spawn(|| memory.take(99, &link).unwrap().bytes);
            while memory.lock().waiting.is_empty() {
                std::thread::yield_now();
            }
            drop(first);
            assert!(memory.take(1, &gone).is_none(), "another came first");
            drop(second);
            assert_eq!(long.join().unwrap(), 10, "all there is");
        });
        assert_eq!(memory.lock().used_bytes, 0);
    }

    fn link() -> Arc<Link> {
        Arc::new(Link::new(None))
    }

    #[test]
    fn a_client_that_dawdles_is_cut_off_once_another_needs_the_memory() {
        let memory = Memory::new(10, Duration::from_millis(20));
        let [busy, slow, slower, other] = [(); 4].map(|()| link());
        let shares = [&busy, &slow, &slower].map(|link| memory.take(3, link).unwrap());
        shares[2].wait_for_client(true);
        std::thread::sleep(Duration::from_millis(1));
        shares[1].wait_for_client(true);
        std::thread::scope(|scope| {
            let long = scope.spawn(|| memory.take(4, &other).is_some());
            while !slower.is_cut() {
                std::thread::yield_now();
            }
            assert!(!busy.is_cut(), "its device is at work");
            drop(shares);
            assert!(long.join().unwrap());
        });
        assert_eq!(memory.lock().used_bytes, 0);
    }
}
