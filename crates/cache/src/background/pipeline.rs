//! The circular pipeline: slots go free → dirty → clean → free (AutoBahn, section 4).
//!
//! Writers take free slots and announce dirty entries, the flusher makes them clean, the reclaimer
//! frees them. Stages meet only at lock-free queues (`word_set_queue`). A writer that finds no free slot
//! reclaims a batch itself, since it has nothing better to do, and waits for the flusher only when
//! nothing is clean; it never holds anything while it waits.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::api::volume::VolumeState;
use crate::background::reclaim::EVICT_BATCH_MAX;
use crate::engine::core::Core;
use crate::error::{Error, Result};
use crate::sync::Ordering;

/// How often a thread checks for work without a wakeup.
const TICK: Duration = Duration::from_millis(100);
/// The same once nothing happens any more: an idle pool costs next to nothing.
const IDLE_TICK: Duration = Duration::from_secs(1);
/// A thread that wants to look again at once still leaves the processor to others.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// The log is checkpointed in the background beyond this share. What is left has to last committers
/// until that is done, which takes about half as long as the records took; not less than that, because
/// the longer the wait, the more changes of a table line are flushed as one.
const LOG_USED_PER_MILLE_MAX: u64 = 600;
/// The same of a log of a single lane, which has no other to be full.
const SINGLE_LANE_USED_PER_MILLE_MAX: u64 = 500;
/// A throttled writer looks again after this long at the latest.
const THROTTLE_LOOK: Duration = Duration::from_millis(20);

impl Core {
    /// Called by a writer that found nothing to reclaim and holds nothing: returns once write-back
    /// moved something since the `seen`-th wakeup for space, or after a timeout.
    ///
    /// # Errors
    /// [`Error::NoSpace`] or [`Error::Stalled`] where nothing can move: the pool is closing, or it has no background
    /// threads and this thread's own round cleaned nothing.
    pub(crate) fn wait_for_write_back(&self, seen: u64, at_most: Duration) -> Result<()> {
        if !self.has_background() {
            loop {
                let round = self.write_back_round();
                if round.progressed() {
                    return Ok(());
                } else if !round.more {
                    return Err(self.no_space(Duration::ZERO));
                }
            }
        }
        if self.wakeup.is_stopping() {
            return Err(self.no_space(Duration::ZERO));
        }
        let throttled = &self.write_back.throttled_writers;
        throttled.fetch_add(1, Ordering::Relaxed);
        self.wakeup.notify_work();
        self.wakeup.wait_space(seen, at_most.min(THROTTLE_LOOK));
        throttled.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }

    /// Why a writer got no room: full is only what a backing calls so.
    pub(crate) fn no_space(&self, waited: Duration) -> Error {
        let waited_ms = waited.as_millis() as u64;
        let dirty_blocks = self.dirty_count.load(Ordering::Relaxed);
        let volumes = self.volumes.read().unwrap_or_else(|e| e.into_inner());
        if volumes.iter().flatten().any(|known| known.health.is_full()) {
            return Error::NoSpace {
                waited_ms,
                dirty_blocks,
            };
        }
        let trouble = |known: &Arc<VolumeState>| {
            let told = known.trouble(Duration::ZERO)?;
            Some(format!("{}: {told}", known.path.display()))
        };
        let reason = volumes.iter().flatten().find_map(trouble);
        Error::Stalled {
            waited_ms,
            dirty_blocks,
            reason: reason.unwrap_or_else(|| "it does not keep up".into()),
        }
    }

    pub(crate) fn slots_of(&self, per_mille: u32) -> u64 {
        u64::from(self.media.geometry.slots()) * u64::from(per_mille) / 1000
    }

    /// A writer that outran the backing waits for what it made dirty (`pace`). It holds nothing.
    #[cold]
    pub(crate) fn keep_pace(&self) {
        let dirty = || self.dirty_count.load(Ordering::Relaxed);
        let mut seen = None;
        let rest = |at_most| {
            if let Some(rings) = seen {
                self.wakeup.wait_space(rings, at_most);
            }
            // Before the next look at the level, so that no wakeup is missed; hence no pause the first time.
            seen = Some(self.wakeup.space_notices());
        };
        let is_stopping = || self.wakeup.is_stopping();
        let waited = self.wakeup.pace.pay(dirty, is_stopping, rest);
        if let Some(waited) = waited {
            let tallies = self.tallies.mine();
            tallies.paced(1);
            tallies.paced_us(waited.as_micros() as u64);
        }
    }

    /// The flusher's work: down to the low watermark, and for as long as writers wait for space.
    fn flush_stage(&self) {
        self.keep_holding();
        let pace = &self.wakeup.pace;
        let is_above = || self.dirty_count.load(Ordering::Relaxed) > pace.low();
        let is_due = |wait: Duration| wait.is_zero() || !self.has_background();
        let retry_due = self.next_retry().is_some_and(is_due);
        let waited_for = || self.write_back.throttled_writers.load(Ordering::Relaxed) > 0;
        while (retry_due || is_above() || waited_for()) && !self.wakeup.is_stopping() {
            let started = Instant::now();
            let round = self.write_back_round();
            if !round.progressed() && !round.more {
                break;
            }
            self.keep_flush_rate((round.cleaned + round.redirtied) as usize, started);
        }
        if !is_above() {
            pace.forgive();
        }
    }

    /// Rests until what was written since `started` is within the flush rate limit, as it is set now.
    /// Writers that wait for room come first: they would fail at their deadline.
    fn keep_flush_rate(&self, blocks: usize, started: Instant) {
        let bytes = (blocks * self.block_bytes()) as f64;
        while let Some(limit) = self.wakeup.pace.limit() {
            let due = Duration::from_secs_f64(bytes / limit as f64);
            let left = due.saturating_sub(started.elapsed());
            let is_urgent = self.write_back.throttled_writers.load(Ordering::Relaxed) > 0;
            if left.is_zero() || is_urgent || self.wakeup.is_stopping() {
                return;
            }
            self.wakeup.pause(left.min(TICK));
        }
    }

    /// The reclaimer's work: once fewer slots are free than is wanted, twice as many.
    fn reclaim_stage(&self) -> Result<()> {
        if !self.low_on_space() {
            return Ok(());
        }
        while !self.has_ample_space() && !self.wakeup.is_stopping() {
            if self.reclaim(EVICT_BATCH_MAX)? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// The checkpointer's work: before the log is full, and once when commits pause, so that recovery of
    /// an idle pool has nothing to classify.
    fn checkpoint_stage(&self, calm: &mut Calm) -> Result<()> {
        if calm.since(self.lanes.last_sequence()) || self.is_log_nearly_full() {
            self.checkpoint()?;
        }
        Ok(())
    }

    /// What one of the background threads does at a wakeup, in a pool that has none.
    pub(crate) fn background_turn(&self, thread: u8) -> Result<()> {
        match thread {
            0 => self.flush_stage(),
            1 => self.reclaim_stage()?,
            _ if self.is_log_nearly_full() => self.checkpoint()?,
            _ => {}
        }
        Ok(())
    }

    /// Whether the log is used beyond its share, or all lanes but one are full, nearly.
    fn is_log_nearly_full(&self) -> bool {
        let lanes = self.lanes.count() as u64;
        let mark = match lanes {
            1 => SINGLE_LANE_USED_PER_MILLE_MAX,
            // What a record did not fit into is left over at a lane's end.
            _ => ((lanes - 1) * 950 / lanes).min(LOG_USED_PER_MILLE_MAX),
        };
        self.lanes.used_per_mille() > mark
    }

    /// Called by a committer that found a lane full: a small log fills up long before the checkpointer
    /// next checks by itself.
    #[cold]
    pub(crate) fn lane_filled(&self) {
        if self.is_log_nearly_full() {
            self.wakeup.notify_work();
        }
    }
}

/// Notices that nothing was committed for a whole tick, however often it is asked meanwhile.
struct Calm {
    sequence: u64,
    looked_at: Instant,
}

impl Calm {
    fn since(&mut self, sequence: u64) -> bool {
        if self.looked_at.elapsed() < TICK {
            return false;
        }
        self.looked_at = Instant::now();
        std::mem::replace(&mut self.sequence, sequence) == sequence
    }
}

/// The background threads of a pool; dropping it ends them.
pub(crate) struct Background {
    core: Arc<Core>,
    threads: Vec<JoinHandle<()>>,
}

impl Background {
    /// Starts flusher, reclaimer and checkpointer, which looks for journals as well.
    ///
    /// # Panics
    /// Where the system has no room for another thread, as the standard library does.
    pub(crate) fn start(core: &Arc<Core>) -> Background {
        let mut background = Background {
            core: Arc::clone(core),
            threads: Vec::new(),
        };
        background.spawn("forebay-flush", |core| {
            core.flush_stage();
            Ok(core.next_retry().unwrap_or(TICK))
        });
        background.spawn("forebay-reclaim", |core| {
            core.reclaim_stage().map(|()| TICK)
        });
        let mut calm = Calm {
            sequence: 0,
            looked_at: Instant::now(),
        };
        background.spawn("forebay-checkpt", move |core| {
            core.checkpoint_stage(&mut calm)?;
            // Here, since no thread waits for this one: committers checkpoint themselves if they must.
            core.look_for_journals();
            Ok(TICK)
        });
        background
    }

    /// Runs `stage` at every wakeup, and after the pause it asks for, until the pool stops. An error
    /// of a stage is a failed fence: the pool is poisoned and says so to every writer.
    fn spawn(
        &mut self,
        name: &str,
        mut stage: impl FnMut(&Core) -> Result<Duration> + Send + 'static,
    ) {
        let core = Arc::clone(&self.core);
        let run = move || {
            let (mut seen, mut sequence, mut tick) = (0, 0, TICK);
            while let Ok(pause) = stage(&core) {
                let pause = if pause < TICK {
                    pause.max(PAUSE_MIN)
                } else {
                    tick
                };
                let (rings, stopping) = core.wakeup.wait_work(seen, pause);
                if stopping {
                    return;
                }
                let last = (
                    seen,
                    std::mem::replace(&mut sequence, core.lanes.last_sequence()),
                );
                seen = rings;
                let is_idle = last == (seen, sequence);
                tick = if is_idle {
                    (2 * tick).min(IDLE_TICK)
                } else {
                    TICK
                };
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
        self.threads
            .push(thread.expect("the system has room for a thread"));
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.core.wakeup.stop();
        for thread in self.threads.drain(..) {
            // A stage that panicked has already said so on standard error.
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::{Backing, MemoryStore, Pool, PoolOptions, Region};

    /// When a log's last lane is begun, the others are checkpointed meanwhile, however few they are.
    #[test]
    fn a_log_with_one_lane_left_is_nearly_full() {
        for lanes in [2, 3] {
            let mut options = PoolOptions::default();
            options.format.block_bytes = 128;
            options.format.unit_bytes = 256;
            options.format.volumes = 2;
            options.format.lanes = Some(lanes);
            options.format.lane_bytes = Some(4096);
            options.runtime.background = false;
            let pool = Pool::create_on(vec![Region::shadow(64 << 10)], &options).expect("create");
            let store = Arc::new(MemoryStore::new(4096));
            let volume = pool.attach(Backing::from_store(store)).expect("attach");
            let core = &volume.core;
            let begun = || {
                core.lanes
                    .each_used_per_mille()
                    .iter()
                    .filter(|used| **used > 0)
                    .count()
            };
            while begun() < lanes as usize {
                volume.write(1, &[1; 128]).expect("write");
            }
            assert!(core.is_log_nearly_full(), "{lanes} lanes");
        }
    }
}
