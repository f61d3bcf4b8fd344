//! What each background thread does at a wakeup: write back, reclaim, checkpoint.
//!
//! The stages meet only at bounded queues (`table::word_set_queue`).

use std::time::{Duration, Instant};

use super::Pipeline;
use crate::engine::EVICT_BATCH_MAX;
use crate::error::Result;
use crate::sync::Ordering;

/// How often a thread checks for work without a wakeup.
pub(super) const TICK: Duration = Duration::from_millis(100);
/// How long fills and clean marks wait, which have no record, after a checkpoint that found nothing else to do. One more
/// of them in a line that goes later costs nothing; a kill costs at most those of that long.
const UNLOGGED_WAIT: Duration = Duration::from_secs(1);

impl Pipeline {
    /// The flusher's work: down to the low watermark, and for as long as writers wait for space.
    pub(super) fn flush_stage(&self) {
        self.release_undeferred();
        let pace = &self.engine.wakeup().pace;
        // What is being synced counts as written: it may be another thread's round.
        let is_above = || {
            let (dirty, writing) = (
                self.table().states().dirty_count(),
                self.write_back.writing_blocks(),
            );
            dirty.saturating_sub(writing) > pace.low()
        };
        let is_due = |wait: Duration| wait.is_zero() || !self.has_background();
        let retry_due = self.next_retry().is_some_and(is_due);
        let waited_for = || self.write_back.throttled_writers.load(Ordering::Relaxed) > 0;
        while (retry_due || is_above() || waited_for()) && !self.engine.wakeup().is_stopping() {
            let started = Instant::now();
            let round = self.write_back_round();
            if !round.progressed() && !round.more {
                break;
            }
            self.keep_flush_rate((round.cleaned + round.redirtied) as usize, started);
        }
        // Writers' debt stands until what is being synced is, too.
        if self.table().states().dirty_count() <= pace.low() {
            pace.forgive();
        }
    }

    /// When a flusher looks again without a wakeup.
    pub(super) fn flush_pause(&self) -> Duration {
        self.next_retry().unwrap_or(TICK)
    }

    /// The work of a second flusher; returns when it looks again. Where the rate is limited, the first one's rests are meant for
    /// all: it does nothing, also for what is to be tried again, and need not look for that.
    pub(super) fn flush_beside_stage(&self) -> Duration {
        if self.engine.wakeup().pace.limit().is_some() {
            return TICK;
        }
        self.flush_stage();
        self.flush_pause()
    }

    /// Rests until what was written since `started` is within the flush rate limit, as it is set now.
    /// Writers that wait for room come first: they would fail at their deadline.
    fn keep_flush_rate(&self, blocks: usize, started: Instant) {
        let bytes = (blocks * self.engine.block_bytes()) as f64;
        while let Some(limit) = self.engine.wakeup().pace.limit() {
            let due = Duration::from_secs_f64(bytes / limit as f64);
            let left = due.saturating_sub(started.elapsed());
            let is_urgent = self.write_back.throttled_writers.load(Ordering::Relaxed) > 0;
            if left.is_zero() || is_urgent || self.engine.wakeup().is_stopping() {
                return;
            }
            self.engine.wakeup().pause(left.min(TICK));
        }
    }

    /// The reclaimer's work: once fewer slots are free than is wanted, twice as many.
    pub(super) fn reclaim_stage(&self) -> Result<()> {
        self.engine.wakeup().begin_reclaim();
        if !self.engine.low_on_space() {
            return Ok(());
        }
        while !self.engine.has_ample_space() && !self.engine.wakeup().is_stopping() {
            if self.reclaim(EVICT_BATCH_MAX)? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// The checkpointer's work: before the log is full, and once when commits pause, so that recovery of
    /// an idle pool has nothing to classify.
    pub(super) fn checkpoint_stage(&self, idle: &mut IdleDetector) -> Result<()> {
        self.engine.repair_suspects();
        self.engine.leave_bad_places()?;
        if idle.is_due(self.engine.log().lanes().last_sequence())
            || self.engine.log().is_nearly_full()
        {
            self.engine.checkpoint()?;
        }
        Ok(())
    }

    /// What one of the background threads does at a wakeup, in a pool that has none.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub(crate) fn background_turn(&self, thread: u8) -> Result<()> {
        match thread {
            0 => self.flush_stage(),
            1 => self.reclaim_stage()?,
            3 => drop(self.read_ahead_once()),
            _ if self.engine.log().is_nearly_full() => self.engine.checkpoint()?,
            _ => {}
        }
        Ok(())
    }
}

/// Notices that nothing was committed for a whole tick, however often it is asked meanwhile, and says when that asks for a
/// checkpoint.
pub(super) struct IdleDetector {
    sequence: u64,
    looked_at: Instant,
    /// When it last asked for one at this sequence.
    told_at: Option<Instant>,
}

impl IdleDetector {
    pub(super) fn new() -> IdleDetector {
        IdleDetector {
            sequence: 0,
            looked_at: Instant::now(),
            told_at: None,
        }
    }

    /// Whether it is time for a checkpoint: at once when commits pause, and now and then while they do.
    fn is_due(&mut self, sequence: u64) -> bool {
        if self.looked_at.elapsed() < TICK {
            return false;
        }
        self.looked_at = Instant::now();
        if std::mem::replace(&mut self.sequence, sequence) != sequence {
            self.told_at = None;
            return false;
        }
        let has_waited = |told_at: Instant| told_at.elapsed() >= UNLOGGED_WAIT;
        let is_due = self.told_at.is_none_or(has_waited);
        if is_due {
            self.told_at = Some(self.looked_at);
        }
        is_due
    }
}
