//! Room for the requests of one connection that are with its workers: bounded in number and in bytes.
//! A client that asks for more waits until some are answered.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex, MutexGuard};

/// Requests with the workers.
const REQUESTS_MAX: usize = 64;

/// Bytes of their data, what was sent and what is to be read. One request may always be there.
const BYTES_MAX: u64 = 64 << 20;

#[derive(Default)]
pub(crate) struct Room {
    taken: Mutex<Taken>,
    /// Some was given back.
    freed: Condvar,
}

#[derive(Default)]
struct Taken {
    requests: usize,
    bytes: u64,
}

impl Room {
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock()
    }

    /// Waits until there is room for a request of `bytes` bytes, and takes it; the bytes of all
    /// requests then.
    pub(crate) fn reserve(&self, bytes: u32, in_flight: &AtomicU64) -> u64 {
        let bytes = u64::from(bytes);
        let is_full = |taken: &mut Taken| {
            taken.requests > 0
                && (taken.requests >= REQUESTS_MAX || taken.bytes + bytes > BYTES_MAX)
        };
        let mut taken = self.lock();
        self.freed.wait_while(&mut taken, is_full);
        taken.requests += 1;
        taken.bytes += bytes;
        in_flight.fetch_add(1, Ordering::Relaxed);
        taken.bytes
    }

    /// Gives back what was reserved.
    pub(crate) fn release(&self, bytes: u32, in_flight: &AtomicU64) {
        let mut taken = self.lock();
        taken.requests -= 1;
        taken.bytes -= u64::from(bytes);
        in_flight.fetch_sub(1, Ordering::Relaxed);
        drop(taken);
        self.freed.notify_one();
    }
}
