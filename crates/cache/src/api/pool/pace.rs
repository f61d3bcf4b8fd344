//! How work beside the clients keeps to a rate.

use std::time::{Duration, Instant};

/// How long such work sleeps at once.
const NAP: Duration = Duration::from_millis(10);

/// Steps of work of which each takes as long as its bytes do at the rate. What was slower is caught up on for one nap, and
/// no more: clients would meet all of it at once.
pub(super) struct Pace {
    rate_bytes_s: Option<u64>,
    next: Instant,
}

impl Pace {
    /// Of work that begins now; without a rate as fast as it goes.
    pub(super) fn new(rate_bytes_s: Option<u64>) -> Pace {
        Pace {
            rate_bytes_s,
            next: Instant::now(),
        }
    }

    /// A step is done.
    pub(super) fn note(&mut self, bytes: u64) {
        if let Some(rate) = self.rate_bytes_s {
            let behind = self.next.elapsed();
            let step = Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
            self.next += behind.saturating_sub(NAP) + step;
        }
    }

    /// Sleeps a moment if the next step is not due yet, and says whether it is.
    pub(super) fn is_due(&self) -> bool {
        let left = self.next.saturating_duration_since(Instant::now());
        if self.rate_bytes_s.is_none() || left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(NAP));
        false
    }
}
