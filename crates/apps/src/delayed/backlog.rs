//! What the cache of a delayed disk has not written yet, and what a flush waits for it.

use std::time::{Duration, Instant};

/// What it writes from its cache by itself, as an SSD on SATA does.
pub const DRAIN_BYTES_PER_S: u64 = 500_000_000;

/// The cache. Its writes are counted by what is below; it is looked at from time to time.
#[derive(Debug)]
pub struct Backlog {
    flush: Duration,
    looked_at: Instant,
    /// Written to the disk until then, since it was made.
    written_bytes: u64,
    /// Of these in the cache.
    held_bytes: u64,
    /// Whether anything was written since the last flush.
    is_dirty: bool,
}

impl Backlog {
    pub fn new(flush: Duration, now: Instant) -> Backlog {
        Backlog {
            flush,
            looked_at: now,
            written_bytes: 0,
            held_bytes: 0,
            is_dirty: false,
        }
    }

    /// Counts from here on.
    pub fn begin(&mut self, written_bytes: u64, now: Instant) {
        *self = Backlog {
            written_bytes,
            ..Backlog::new(self.flush, now)
        };
    }

    /// So much has been written to the disk by now. What came since the last look counts as come just now: the cache is held for
    /// fuller than it is, by what comes between two looks at most.
    pub fn look(&mut self, written_bytes: u64, now: Instant) {
        let passed = now.saturating_duration_since(self.looked_at);
        let drained = passed.as_secs_f64() * DRAIN_BYTES_PER_S as f64;
        let came = written_bytes.saturating_sub(self.written_bytes);
        self.held_bytes = self.held_bytes.saturating_sub(drained as u64) + came;
        self.is_dirty |= came > 0;
        self.looked_at = now;
        self.written_bytes = written_bytes;
    }

    /// How long a flush takes that begins now; nothing is held afterwards. Where nobody counts what is written, there is always
    /// something to flush.
    pub fn flush(&mut self, written_bytes: Option<u64>, now: Instant) -> Duration {
        let Some(written_bytes) = written_bytes else {
            return self.flush;
        };
        self.look(written_bytes, now);
        let rest = Duration::from_secs_f64(self.held_bytes as f64 / DRAIN_BYTES_PER_S as f64);
        let wait = match self.is_dirty {
            true => rest.max(self.flush),
            false => Duration::ZERO,
        };
        self.begin(written_bytes, now + wait);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLUSH: Duration = Duration::from_micros(500);

    #[test]
    fn a_flush_takes_its_time_or_the_rest_of_the_cache_s() {
        let began = Instant::now();
        let at = |millis| began + Duration::from_millis(millis);
        let mut cache = Backlog::new(FLUSH, began);
        assert_eq!(cache.flush(Some(0), at(1)), Duration::ZERO, "nothing there");
        assert_eq!(cache.flush(Some(4096), at(2)), FLUSH);
        assert_eq!(cache.flush(Some(4096), at(3)), Duration::ZERO, "none since");
        // A hundred milliseconds' worth, half of which is gone when the flush comes.
        let written = 4096 + DRAIN_BYTES_PER_S / 10;
        cache.look(written, at(10));
        assert_eq!(cache.flush(Some(written), at(60)).as_millis(), 50);
        // What was written long ago is gone, and is still not durable before a flush.
        cache.look(written + 4096, at(200));
        cache.look(written + 4096, at(900));
        assert_eq!(cache.flush(Some(written + 4096), at(901)), FLUSH);
    }

    #[test]
    fn where_nobody_counts_every_flush_takes_its_time() {
        let mut cache = Backlog::new(FLUSH, Instant::now());
        assert_eq!(cache.flush(None, Instant::now()), FLUSH);
        assert_eq!(cache.flush(None, Instant::now()), FLUSH);
    }
}
