//! The background threads of a pool: when each wakes, and how it ends.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
    beside: FlusherBeside,
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
            beside: FlusherBeside::default(),
        };
        background.spawn("forebay-flush", |pipeline| {
            pipeline.flush_stage();
            Ok(pipeline.flush_pause())
        })?;
        background.spawn("forebay-reclaim", |pipeline| {
            pipeline.reclaim_stage().map(|()| TICK)
        })?;
        let mut idle = IdleDetector::new();
        let (beside, shared) = (background.beside.clone(), Arc::clone(pipeline));
        background.spawn("forebay-checkpt", move |pipeline| {
            beside.start_if_wanted(&shared);
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
        stage: impl FnMut(&Pipeline) -> Result<Duration> + Send + 'static,
    ) -> Result<()> {
        self.threads.push(start(&self.pipeline, name, stage)?);
        Ok(())
    }
}

/// A thread that runs `stage` as [`Background::spawn`] says.
fn start(
    pipeline: &Arc<Pipeline>,
    name: &'static str,
    mut stage: impl FnMut(&Pipeline) -> Result<Duration> + Send + 'static,
) -> Result<JoinHandle<()>> {
    let pipeline = Arc::clone(pipeline);
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
    Ok(thread.map_err(|source| ErrorKind::Thread { name, source })?)
}

/// A second flusher, where a backing prefers long rounds, as one that is attached later may: one writes a round while the other
/// one's is synced. The checkpointer starts it, whose own work is never long; the end of all waits for it.
#[derive(Clone, Default)]
struct FlusherBeside(Arc<Mutex<Option<JoinHandle<()>>>>);

impl FlusherBeside {
    fn thread(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the system starts none now, it is asked again; one flusher does all of the work meanwhile.
    fn start_if_wanted(&self, pipeline: &Arc<Pipeline>) {
        let mut thread = self.thread();
        if thread.is_none() && pipeline.write_back.has_long_rounds() {
            let flush = |pipeline: &Pipeline| Ok(pipeline.flush_beside_stage());
            *thread = start(pipeline, "forebay-flush-2", flush).ok();
        }
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
        // The checkpointer has ended and starts none any more.
        if let Some(thread) = self.beside.thread().take() {
            drop(thread.join());
        }
    }
}
