//! How long a writer waits: for room, and for the pace that the backing keeps. It holds nothing meanwhile.
//!
//! A writer that finds no free slot reclaims a batch itself, since it has nothing better to do, and waits
//! for the flusher only when nothing is clean.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Pipeline;
use super::volume_state::VolumeState;
use crate::engine::{EVICT_BATCH_MAX, Need};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::Ordering;

/// A throttled writer looks again after this long at the latest.
const THROTTLE_LOOK: Duration = Duration::from_millis(20);

impl Pipeline {
    /// Waits until what is needed may be free, pushing reclaim and write-back, up to the throttle's
    /// deadline. The caller holds nothing.
    pub(crate) fn make_space(&self, need: Need) -> Result<()> {
        let started = Instant::now();
        let mut has_waited = false;
        loop {
            let notices = self.engine.wakeup().space_notices();
            self.engine.check_writable()?;
            let reclaimed = self.reclaim(EVICT_BATCH_MAX)?;
            let enough = match need {
                Need::Slots(slots) => self.table().slots().free_count() >= slots,
                Need::Entry => reclaimed > 0,
            };
            if enough {
                return Ok(());
            }
            if reclaimed > 0 {
                continue;
            }
            let waited = started.elapsed();
            if waited >= self.options.throttle_deadline {
                return Err(self.no_space(waited));
            }
            if !std::mem::replace(&mut has_waited, true) {
                self.engine.tallies().mine().throttled(1);
            }
            self.wait_for_write_back(notices, self.options.throttle_deadline - waited)?;
        }
    }

    /// Called by a writer that found nothing to reclaim and holds nothing: returns once write-back
    /// moved something since the `seen`-th wakeup for space, or after a timeout.
    ///
    /// # Errors
    /// [`ErrorKind::NoSpace`] or [`ErrorKind::Stalled`] where nothing can move: the pool is closing, or it has no background
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
        if self.engine.wakeup().is_stopping() {
            return Err(self.no_space(Duration::ZERO));
        }
        let throttled = &self.write_back.throttled_writers;
        throttled.fetch_add(1, Ordering::Relaxed);
        self.engine.wakeup().notify_work();
        self.engine
            .wakeup()
            .wait_space(seen, at_most.min(THROTTLE_LOOK));
        throttled.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }

    /// Why a writer got no room: full is only what a backing calls so.
    pub(crate) fn no_space(&self, waited: Duration) -> Error {
        let waited_ms = waited.as_millis() as u64;
        let dirty_blocks = self.table().states().dirty_count();
        let volumes = self.volumes.read().unwrap_or_else(|e| e.into_inner());
        if volumes.iter().flatten().any(|known| known.health.is_full()) {
            return ErrorKind::NoSpace {
                waited_ms,
                dirty_blocks,
            }
            .into();
        }
        let trouble = |known: &Arc<VolumeState>| {
            let told = known.trouble(Duration::ZERO)?;
            Some(format!("{}: {told}", known.path.display()))
        };
        let reason = volumes.iter().flatten().find_map(trouble);
        ErrorKind::Stalled {
            waited_ms,
            dirty_blocks,
            reason: reason.unwrap_or_else(|| "it does not keep up".into()),
        }
        .into()
    }

    /// A writer that outran the backing waits for what it made dirty (`pace`). It holds nothing.
    #[cold]
    pub(crate) fn keep_pace(&self) {
        let dirty = || self.table().states().dirty_count();
        let mut seen = None;
        let rest = |at_most| {
            if let Some(notices) = seen {
                self.engine.wakeup().wait_space(notices, at_most);
            }
            // Before the next look at the level, so that no wakeup is missed; hence no pause the first time.
            seen = Some(self.engine.wakeup().space_notices());
        };
        let is_stopping = || self.engine.wakeup().is_stopping();
        let waited = self.engine.wakeup().pace.pay(dirty, is_stopping, rest);
        if let Some(waited) = waited {
            let tallies = self.engine.tallies().mine();
            tallies.paced(1);
            tallies.paced_us(waited.as_micros() as u64);
        }
    }
}
