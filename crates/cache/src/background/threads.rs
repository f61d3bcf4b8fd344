//! The background threads of a pool: when each wakes, and how it ends.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::Pipeline;
use super::stages::{IdleDetector, TICK};
use crate::error::{ErrorKind, Result};

/// The same once nothing happens any more: an idle pool costs next to nothing.
const IDLE_TICK: Duration = Duration::from_secs(1);
/// A thread that wants to look again at once still leaves the processor to others.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// The background threads of a pool; dropping it ends them.
pub(crate) struct Background {
    pipeline: Arc<Pipeline>,
    threads: Vec<JoinHandle<()>>,
}

impl Background {
    /// Starts flusher, reclaimer and checkpointer, which looks for journals as well.
    ///
    /// # Errors
    /// [`ErrorKind::Thread`]; those that had been started have ended.
    pub(crate) fn start(pipeline: &Arc<Pipeline>) -> Result<Background> {
        if pipeline.engine.wakeup().is_stopping() {
            // A start that failed half-way stopped the pool's threads for good.
            return Err(ErrorKind::Thread {
                name: "forebay-flush",
                source: std::io::Error::other("the pool's threads were stopped before"),
            }
            .into());
        }
        let mut background = Background {
            pipeline: Arc::clone(pipeline),
            threads: Vec::new(),
        };
        background.spawn("forebay-flush", |pipeline| {
            pipeline.flush_stage();
            Ok(pipeline.next_retry().unwrap_or(TICK))
        })?;
        if pipeline.write_back.has_long_rounds() {
            // One writes a round while the other one's is synced.
            background.spawn("forebay-flush-2", |pipeline| {
                pipeline.flush_beside_stage();
                Ok(pipeline.next_retry().unwrap_or(TICK))
            })?;
        }
        background.spawn("forebay-reclaim", |pipeline| {
            pipeline.reclaim_stage().map(|()| TICK)
        })?;
        let mut idle = IdleDetector::new();
        background.spawn("forebay-checkpt", move |pipeline| {
            pipeline.checkpoint_stage(&mut idle)?;
            // Here, since no thread waits for this one: committers checkpoint themselves if they must.
            pipeline.look_for_journals();
            Ok(TICK)
        })?;
        Ok(background)
    }

    /// Runs `stage` at every wakeup, and after the pause it asks for, until the pool stops. An error
    /// of a stage is a failed fence: the pool is poisoned and says so to every writer.
    fn spawn(
        &mut self,
        name: &'static str,
        mut stage: impl FnMut(&Pipeline) -> Result<Duration> + Send + 'static,
    ) -> Result<()> {
        let pipeline = Arc::clone(&self.pipeline);
        let run = move || {
            let (mut seen, mut sequence, mut tick) = (0, 0, TICK);
            while let Ok(pause) = stage(&pipeline) {
                let pause = if pause < TICK {
                    pause.max(PAUSE_MIN)
                } else {
                    tick
                };
                let (wakeups, stopping) = pipeline.engine.wakeup().wait_work(seen, pause);
                if stopping {
                    return;
                }
                let last = (
                    seen,
                    std::mem::replace(&mut sequence, pipeline.engine.log().lanes().last_sequence()),
                );
                seen = wakeups;
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
            .push(thread.map_err(|source| ErrorKind::Thread { name, source })?);
        Ok(())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.pipeline.engine.wakeup().stop();
        self.pipeline.read_ahead().stop();
        for thread in self.threads.drain(..) {
            // A stage that panicked has already said so on standard error.
            drop(thread.join());
        }
    }
}
