//! How fast writers may go when they outrun the backing.
//!
//! What holds: a writer is delayed only while more blocks are dirty than the low watermark, only for
//! blocks that it made dirty itself, only before it has begun anything, and never for longer than
//! [`WAIT_MAX`] at a time. What a block costs grows with the dirty level without a step: nothing at
//! the low watermark; at the high one as long as the backing takes for a block, times the writers
//! that share it; from there on without bound, but for `WAIT_MAX`, towards a full pool. So where
//! writers outrun the backing, the level comes to rest at the high watermark or a little below, where
//! blocks become dirty as fast as they become clean, and room is left for what comes in a burst.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use forebay_pmem::{THREAD_SHARDS, thread_shard};

use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The longest delay of one transaction.
pub(crate) const WAIT_MAX: Duration = Duration::from_millis(100);
/// Shorter delays add up first: the system would sleep longer than that anyway.
const WAIT_MIN: Duration = Duration::from_micros(50);
/// A delayed writer checks this often whether the level has fallen, if it is not woken.
const LOOK: Duration = Duration::from_millis(5);
/// What a backing is taken to do before it has been measured, which the first short round does.
const GUESS_BYTES_PER_S: u64 = 64 << 20;
/// How far back the measurement looks.
const MEMORY: Duration = Duration::from_secs(2);
/// How full the pool may be, as a share of the way from the high watermark to its end, before a
/// block's price rises no more.
const FULLNESS_MAX: f64 = 0.99;

/// What all writers read and hardly any thread writes, on a line of its own.
#[repr(align(128))]
struct Marks {
    /// Blocks; `u64::MAX` where no writer is to be delayed.
    low: AtomicU64,
    high: AtomicU64,
    /// Whether a writer has a debt.
    is_on: AtomicBool,
}

/// What one thread has made dirty and not yet waited for.
#[repr(align(128))]
#[derive(Default)]
struct Debt {
    blocks: AtomicU64,
    /// Nanoseconds since the pool was opened: time before it is paid for.
    paid_at_ns: AtomicU64,
}

/// Write-back as measured: sums that fade with time.
#[derive(Default)]
struct Meter {
    blocks: f64,
    seconds: f64,
}

/// The pace of a pool's writers.
pub(crate) struct Pace {
    marks: Marks,
    debts: Box<[Debt]>,
    /// Writers that are being delayed.
    waiting: AtomicUsize,
    /// Blocks that can be dirty at most while reclaim keeps what it is to keep free.
    ceiling: u64,
    block_bytes: u64,
    opened: Instant,
    meter: Mutex<Meter>,
    measured_blocks_per_s: AtomicU64,
    /// Bytes a second that background write-back may write; 0 means any number.
    limit_bytes_per_s: AtomicU64,
}

impl Pace {
    /// A pool whose writers may dirty up to `ceiling` blocks of `block_bytes` bytes.
    pub(crate) fn new(ceiling: u64, block_bytes: u64) -> Pace {
        Pace {
            marks: Marks {
                low: AtomicU64::new(u64::MAX),
                high: AtomicU64::new(u64::MAX),
                is_on: AtomicBool::new(false),
            },
            debts: (0..THREAD_SHARDS).map(|_| Debt::default()).collect(),
            waiting: AtomicUsize::new(0),
            ceiling,
            block_bytes,
            opened: Instant::now(),
            meter: Mutex::default(),
            measured_blocks_per_s: AtomicU64::new(0),
            limit_bytes_per_s: AtomicU64::new(0),
        }
    }

    /// The watermarks in blocks.
    pub(crate) fn set_marks(&self, low: u64, high: u64) {
        self.marks.high.store(high, Ordering::Relaxed);
        self.marks.low.store(low, Ordering::Relaxed);
    }

    /// Above this many dirty blocks write-back works and writers are delayed.
    #[inline]
    pub(crate) fn low(&self) -> u64 {
        self.marks.low.load(Ordering::Relaxed)
    }

    /// At this many dirty blocks writers go as fast as the backing.
    pub(crate) fn high(&self) -> u64 {
        self.marks.high.load(Ordering::Relaxed)
    }

    pub(crate) fn set_limit(&self, bytes_per_s: u64) {
        self.limit_bytes_per_s.store(bytes_per_s, Ordering::Relaxed);
    }

    /// Bytes a second that background write-back may write, if it is limited.
    pub(crate) fn limit(&self) -> Option<u64> {
        let limit = self.limit_bytes_per_s.load(Ordering::Relaxed);
        (limit > 0).then_some(limit)
    }

    /// The calling thread made one more block dirty, above the low watermark.
    pub(crate) fn charge(&self) {
        let (shard, is_own) = thread_shard();
        let blocks = &self.debts[shard].blocks;
        if is_own {
            blocks.store(blocks.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        } else {
            blocks.fetch_add(1, Ordering::Relaxed);
        }
        if !self.marks.is_on.load(Ordering::Relaxed) {
            self.marks.is_on.store(true, Ordering::Relaxed);
        }
    }

    /// Whether any writer may have a debt.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.marks.is_on.load(Ordering::Relaxed)
    }

    /// The level has fallen to the low watermark: debts are forgiven.
    pub(crate) fn forgive(&self) {
        if self.is_on() {
            self.marks.is_on.store(false, Ordering::Relaxed);
            for debt in &self.debts {
                debt.blocks.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Delays the calling thread for what it made dirty; `dirty` tells the level, `is_stopping`
    /// whether the pool is being closed, and `rest` waits for so long, or until the level may have
    /// fallen. Returns how long it took if it was delayed.
    pub(crate) fn pay(
        &self,
        dirty: impl Fn() -> u64,
        is_stopping: impl Fn() -> bool,
        mut rest: impl FnMut(Duration),
    ) -> Option<Duration> {
        let debt = &self.debts[thread_shard().0];
        let blocks = debt.blocks.load(Ordering::Relaxed);
        if blocks == 0 {
            return None;
        }
        let now = self.opened.elapsed();
        let before = Duration::from_nanos(debt.paid_at_ns.load(Ordering::Relaxed));
        let sharers = self.waiting.load(Ordering::Relaxed) as f64 + 1.0;
        let cost_s = blocks as f64 * sharers * self.price_s(dirty());
        let wait = Duration::from_secs_f64(cost_s.min(60.0)).saturating_sub(now - before.min(now));
        if !wait.is_zero() && wait < WAIT_MIN {
            return None;
        }
        debt.blocks.store(0, Ordering::Relaxed);
        if wait.is_zero() {
            debt.paid_at_ns
                .store(now.as_nanos() as u64, Ordering::Relaxed);
            return None;
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let until = now + wait.min(WAIT_MAX);
        let mut at = now;
        while at < until && dirty() > self.low() && !is_stopping() {
            rest((until - at).min(LOOK));
            at = self.opened.elapsed();
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        debt.paid_at_ns
            .store(at.as_nanos() as u64, Ordering::Relaxed);
        Some(at - now)
    }

    /// What one block costs a writer that is alone, in seconds.
    fn price_s(&self, dirty: u64) -> f64 {
        let low = self.low();
        let high = self.marks.high.load(Ordering::Relaxed).max(low);
        if dirty <= low {
            return 0.0;
        }
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let level = share(dirty - low, high - low).min(1.0);
        let fullness = share(
            dirty.saturating_sub(high),
            self.ceiling.saturating_sub(high),
        );
        let room = 1.0 - fullness.min(FULLNESS_MAX);
        // Squared: a short burst goes nearly free, and a flusher that lags is waited for early.
        (level / room).powi(2) / self.blocks_per_s() as f64
    }

    /// A round of write-back wrote `blocks` blocks and took `took`.
    pub(crate) fn measure(&self, blocks: u64, took: Duration) {
        let mut meter = self.meter.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds = took.as_secs_f64().max(1e-6);
        let kept = (-seconds / MEMORY.as_secs_f64()).exp();
        meter.blocks = meter.blocks * kept + blocks as f64;
        meter.seconds = meter.seconds * kept + seconds;
        let rate = (meter.blocks / meter.seconds).max(1.0);
        self.measured_blocks_per_s
            .store(rate as u64, Ordering::Relaxed);
    }

    /// Blocks a second that write-back moves: measured, or a guess, and within the limit.
    pub(crate) fn blocks_per_s(&self) -> u64 {
        let measured = match self.measured_blocks_per_s.load(Ordering::Relaxed) {
            0 => GUESS_BYTES_PER_S / self.block_bytes,
            measured => measured,
        };
        let limit = self
            .limit()
            .map_or(u64::MAX, |limit| limit / self.block_bytes);
        measured.min(limit).max(1)
    }

    /// Whether a round has told what the backing does.
    pub(crate) fn is_measured(&self) -> bool {
        self.measured_blocks_per_s.load(Ordering::Relaxed) > 0
    }

    /// As measured, in bytes; 0 before the first round.
    pub(crate) fn measured_bytes_per_s(&self) -> u64 {
        self.measured_blocks_per_s.load(Ordering::Relaxed) * self.block_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace() -> Pace {
        let pace = Pace::new(1000, 4096);
        pace.set_marks(500, 900);
        pace.measure(1000, Duration::from_secs(1));
        pace
    }

    #[test]
    fn the_price_is_nothing_up_to_the_low_mark_and_rises_without_a_step() {
        let pace = pace();
        assert_eq!(pace.price_s(0), 0.0);
        assert_eq!(pace.price_s(500), 0.0);
        let service_s = 1e-3;
        assert!((pace.price_s(900) - service_s).abs() < 1e-9);
        let prices: Vec<f64> = (500..=990).map(|dirty| pace.price_s(dirty)).collect();
        assert!(prices.is_sorted());
        let steepest = prices[..400]
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .fold(0.0, f64::max);
        assert!(steepest < service_s / 100.0, "{steepest}");
        assert!(pace.price_s(u64::MAX).is_finite());
    }

    #[test]
    fn writers_below_the_low_mark_and_writers_without_debt_never_wait() {
        let pace = pace();
        assert!(pace.pay(|| 900, || false, std::thread::sleep).is_none());
        pace.charge();
        assert!(pace.is_on());
        assert!(pace.pay(|| 500, || false, std::thread::sleep).is_none());
        for _ in 0..1_000_000 {
            pace.charge();
        }
        let waited = pace
            .pay(|| 900, || true, std::thread::sleep)
            .expect("it owes much");
        assert!(waited < WAIT_MAX, "a pool that is being closed lets go");
        let (level, mut rests) = (std::cell::Cell::new(900), 0);
        for _ in 0..1_000_000 {
            pace.charge();
        }
        let rest = |_| {
            rests += 1;
            level.set(500);
        };
        assert!(pace.pay(|| level.get(), || false, rest).is_some());
        assert_eq!(rests, 1, "a level that has fallen ends the wait");
        pace.charge();
        pace.forgive();
        assert!(!pace.is_on() && pace.pay(|| 900, || false, std::thread::sleep).is_none());
    }

    #[test]
    fn the_measurement_follows_and_the_limit_holds() {
        let pace = Pace::new(1000, 4096);
        assert_eq!(pace.blocks_per_s(), GUESS_BYTES_PER_S / 4096);
        assert_eq!(pace.measured_bytes_per_s(), 0);
        for _ in 0..20 {
            pace.measure(50, Duration::from_millis(500));
        }
        assert_eq!(pace.blocks_per_s(), 100);
        for _ in 0..40 {
            pace.measure(5000, Duration::from_millis(500));
        }
        assert!((9000..=10_000).contains(&pace.blocks_per_s()));
        pace.set_limit(8192);
        assert_eq!(pace.blocks_per_s(), 2);
        pace.set_limit(1);
        assert_eq!(pace.blocks_per_s(), 1);
        pace.set_limit(0);
        assert!(pace.limit().is_none());
    }

    #[test]
    fn marks_that_meet_leave_only_what_is_beyond_them() {
        let pace = pace();
        pace.set_marks(900, 900);
        assert_eq!(pace.price_s(900), 0.0);
        assert!(pace.price_s(901) > 0.0);
        pace.set_marks(1000, 1000);
        assert!(pace.price_s(1001).is_finite());
    }
}
