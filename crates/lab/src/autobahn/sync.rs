//! What the queue shares between threads: a model checker has something else in its place.

pub(super) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Turns of the processor's spinning before the thread lets others run: there may be fewer processors than threads.
const SPINS: u32 = 64;

/// A turn of a loop that waits.
pub(super) fn pause(spins: &mut u32) {
    *spins += 1;
    match spins.is_multiple_of(SPINS) {
        true => std::thread::yield_now(),
        false => std::hint::spin_loop(),
    }
}
