//! The scheduler's clock.

use rustix::time::{ClockId, clock_gettime};

/// A clock that is right to a few milliseconds and never 0.
pub(super) fn now_ms() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000 + 1
}
