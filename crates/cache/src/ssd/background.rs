//! The thread of a pool on an SSD: it keeps segments free, cleans the oldest ones ahead of their turn, brings in what was
//! missed, syncs what nobody does, and zeroes the rest of long ranges. It sleeps until a caller wakes it; after a failure of a backing it looks again by itself.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forebay_log::{Log, LogError, PAGE_BYTES, Room};

use super::settling::Settling;
use super::shared::Shared;
use crate::error::{ErrorKind, Result};
use crate::sync::Ordering;

/// Segments that are kept free at least: a writer begins one while three are.
const FREE_MIN: u64 = 4;
/// A backing that failed is asked again after so long.
const RETRY: Duration = Duration::from_secs(1);

/// Recycling that frees nothing is tried so seldom at least.
const RETRY_MAX: Duration = Duration::from_secs(64);

/// When the thread may do again what failed or has a pace, however often a caller wakes it.
struct Pace {
    /// Cleaning ahead.
    ahead_at: Instant,
    /// Zeroing the rest of ranges.
    rest_at: Instant,
    /// Recycling, which carries up to a segment forward and so writes it to the device, also where nothing comes free by it.
    recycle_at: Instant,
    /// Looking whether the backings take the oldest segment, which costs the device no write.
    look_at: Instant,
    /// Tries since something came free.
    failed: u64,
    pause: Duration,
}

impl Pace {
    fn new() -> Pace {
        let now = Instant::now();
        Pace {
            ahead_at: now,
            rest_at: now,
            recycle_at: now,
            look_at: now,
            failed: 0,
            pause: RETRY,
        }
    }

    /// Nothing came free. Behind the oldest segment may be others that can go: only after a whole lap of the ring the pauses grow.
    fn note_failed(&mut self, segments: u64) {
        self.failed += 1;
        if self.failed > segments {
            self.pause = (self.pause * 2).min(RETRY_MAX);
        }
        let now = Instant::now();
        self.recycle_at = now + self.pause;
        self.look_at = now + RETRY;
    }
}

/// What is to be done next.
enum Next {
    /// There may be more.
    Again,
    /// Nothing, until it is woken.
    Rest,
    /// Nothing for so long, or until it is woken.
    Pause(Duration),
}

/// The thread; dropping this ends it.
pub(super) struct Background {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts it.
    ///
    /// # Errors
    /// [`ErrorKind::Thread`].
    pub(super) fn start(shared: &Arc<Shared>) -> Result<Background> {
        const NAME: &str = "forebay-ssd";
        let own = Arc::clone(shared);
        let builder = std::thread::Builder::new().name(NAME.to_owned());
        let thread = builder.spawn(move || own.work_until_stopped());
        let thread = thread.map_err(|source| ErrorKind::Thread { name: NAME, source })?;
        shared.work.begin_thread();
        Ok(Background {
            shared: Arc::clone(shared),
            thread: Some(thread),
        })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.shared.work.end_thread();
        if let Some(thread) = self.thread.take() {
            // One that panicked has already said so on standard error.
            drop(thread.join());
        }
        self.shared.work.go_on_without();
    }
}

impl Shared {
    fn work_until_stopped(&self) {
        let (mut seen, mut pause) = (0, Some(Duration::ZERO));
        let (mut pace, mut settling) = (Pace::new(), Settling::default());
        while let Some(wanted) = self.work.wait_wanted(seen, pause) {
            seen = wanted;
            let Ok(log) = self.log() else { return };
            let synced = self.settle(&log, &mut settling, Instant::now());
            pause = match self.turn(&log, &mut pace) {
                Next::Again => Some(Duration::ZERO),
                Next::Rest => synced,
                Next::Pause(pause) => Some(synced.map_or(pause, |synced| synced.min(pause))),
            };
        }
    }

    /// Segments below which the oldest is recycled.
    fn free_low(&self, log: &Log) -> u64 {
        let (segments, _) = log.segments();
        let wanted = segments * u64::from(self.options.free_low_per_mille) / 1000;
        wanted.max(FREE_MIN + log.kept_back())
    }

    /// Dirty blocks above which segments are cleaned ahead.
    fn dirty_low(&self, log: &Log) -> u64 {
        let per_mille = self.settings.dirty_low_per_mille.load(Ordering::Relaxed);
        log.blocks_max() as u64 * u64::from(per_mille) / 1000
    }

    /// A caller has committed: wakes the thread if there is something for it.
    pub(super) fn look_at_room(&self, log: &Log) {
        let room = log.room();
        let is_wanted = room.free_segments < self.free_low(log)
            || room.dirty_blocks > self.dirty_low(log)
            || self.wants_clean_tail(log, room);
        if is_wanted {
            self.work.wake();
        }
    }

    /// Whether the ring is full enough that its oldest segments are to be clean.
    fn wants_clean_tail(&self, log: &Log, room: Room) -> bool {
        let (segments, _) = log.segments();
        room.free_segments < segments / 4
    }

    /// Does one thing.
    fn turn(&self, log: &Log, pace: &mut Pace) -> Next {
        if self.work.take_change() {
            *pace = Pace::new();
        }
        // One that fails is found again by the next reader; a member that takes no writes is out.
        drop(log.repair());
        let has_more = self.bring_in(log);
        let room = log.room();
        if room.free_segments < self.free_low(log) {
            return self.recycle(log, pace);
        }
        let (segments, _) = log.segments();
        let is_tail_dirty = self.wants_clean_tail(log, room) && log.cleaned_ahead() <= segments / 8;
        if room.dirty_blocks > self.dirty_low(log) || is_tail_dirty {
            let left = pace.ahead_at.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                return Next::Pause(left);
            }
            return self.clean_ahead(log, room.dirty_blocks, &mut pace.ahead_at);
        }
        match has_more {
            true => Next::Again,
            false => self.zero_rest(log, pace),
        }
    }

    /// Nothing else is to be done: the next piece of the ranges that a backing was to zero and has in part.
    fn zero_rest(&self, log: &Log, pace: &mut Pace) -> Next {
        if !log.has_rest() {
            return Next::Rest;
        }
        let left = pace.rest_at.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            return Next::Pause(left);
        }
        let next = self.after(log.zero_rest());
        if let Next::Pause(pause) = next {
            pace.rest_at = Instant::now() + pause;
        }
        next
    }

    /// Makes the oldest segment free. Where that failed lately, only if the backings take now what it holds.
    fn recycle(&self, log: &Log, pace: &mut Pace) -> Next {
        let now = Instant::now();
        if now < pace.recycle_at {
            let left = pace.look_at.min(pace.recycle_at);
            let left = left.saturating_duration_since(now);
            if !left.is_zero() {
                return Next::Pause(left);
            }
            let cleaned = log.clean_tail();
            pace.look_at = now + RETRY;
            if !matches!(cleaned, Ok(true)) {
                return self.after(cleaned);
            }
        }
        let recycled = log.recycle();
        match recycled {
            Ok(_) => (pace.failed, pace.pause) = (0, RETRY),
            Err(_) => pace.note_failed(log.segments().0),
        }
        // Also after a failure: a writer looks by itself whether there is room.
        self.work.note_made();
        self.after(recycled)
    }

    fn clean_ahead(&self, log: &Log, dirty_before: u64, ahead_at: &mut Instant) -> Next {
        let cleaned = log.clean_ahead();
        let written = dirty_before.saturating_sub(log.room().dirty_blocks);
        let next = self.after(cleaned);
        let pause = match (&next, self.flush_rate()) {
            (Next::Pause(pause), _) => *pause,
            (_, 0) => Duration::ZERO,
            (_, rate) => {
                let bytes = written * PAGE_BYTES as u64;
                Duration::from_secs_f64(bytes as f64 / rate as f64)
            }
        };
        *ahead_at = Instant::now() + pause;
        next
    }

    /// What follows a step that may have made room.
    fn after(&self, done: Result<bool, LogError>) -> Next {
        match done {
            Ok(true) => Next::Again,
            Ok(false) => Next::Rest,
            // Every caller is told of it.
            Err(LogError::Poisoned { .. }) => Next::Rest,
            Err(_) => Next::Pause(RETRY),
        }
    }
}
