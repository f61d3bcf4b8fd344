//! The cleaner's threads, and the engine with them around it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forebay::{ErrorKind, Result};

use super::health::Asking;
use super::picked::Outcome;
use super::round::{Cleanable, Cleaner};
use crate::{Engine, EngineStats, EngineTransaction};

/// How often a thread looks for work without a wakeup.
const TICK: Duration = Duration::from_millis(100);
/// A thread that wants to look again at once still leaves the processor to others.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// A stage of the cleaner's work.
type Stage<C> = fn(&Cleaner, &C, Asking) -> Result<Outcome>;

/// An engine with its cleaner's threads; they end with it.
struct Cleaned<C: Cleanable> {
    cache: Arc<C>,
    threads: Vec<JoinHandle<()>>,
}

/// The engine with its cleaner, which has threads if it is to work in the background: a flusher and a reclaimer.
///
/// # Errors
/// A thread cannot be started.
pub(crate) fn with_threads<C: Cleanable + 'static>(
    cache: C,
    in_background: bool,
) -> Result<Box<dyn Engine>> {
    let mut cleaned = Cleaned {
        cache: Arc::new(cache),
        threads: Vec::new(),
    };
    if in_background {
        cleaned.spawn("lab-flush", Cleaner::flush_stage::<C>)?;
        cleaned.spawn("lab-reclaim", Cleaner::reclaim_stage::<C>)?;
    }
    Ok(Box::new(cleaned))
}

impl<C: Cleanable + 'static> Cleaned<C> {
    /// Runs the stage at every wakeup, and when a disk that failed is due. What the disk refuses, the health has, and a client that
    /// lacks room meets it. An error of a stage is the medium's: no thread can do anything any more, and every client is told.
    fn spawn(&mut self, name: &'static str, stage: Stage<C>) -> Result<()> {
        let cache = Arc::clone(&self.cache);
        let run = move || {
            let cleaner = cache.cleaner();
            let pause = || {
                // Once it is due the stage asks the disk, if it has anything for it.
                let retry_in = cleaner.health.retry_in(Instant::now());
                let retry_in = retry_in.filter(|wait| !wait.is_zero());
                retry_in.map_or(TICK, |wait| wait.clamp(PAUSE_MIN, TICK))
            };
            let mut seen = 0;
            while let ControlFlow::Continue(asked) = cleaner.wakeup.wait(seen, pause()) {
                seen = asked;
                cleaner.wakeup.begin_look();
                if stage(cleaner, &cache, Asking::WhenDue).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
        self.threads
            .push(thread.map_err(|source| ErrorKind::Thread { name, source })?);
        Ok(())
    }
}

impl<C: Cleanable> Drop for Cleaned<C> {
    fn drop(&mut self) {
        self.cache.cleaner().wakeup.stop();
        for thread in self.threads.drain(..) {
            // A stage that panicked has already said so on standard error.
            drop(thread.join());
        }
    }
}

impl<C: Cleanable> Engine for Cleaned<C> {
    fn name(&self) -> &'static str {
        self.cache.name()
    }

    fn block_bytes(&self) -> usize {
        self.cache.block_bytes()
    }

    fn size_bytes(&self) -> u64 {
        self.cache.size_bytes()
    }

    fn transaction_blocks_max(&self) -> usize {
        self.cache.transaction_blocks_max()
    }

    fn begin(&self) -> Box<dyn EngineTransaction + '_> {
        self.cache.begin()
    }

    fn read(&self, block: u64, out: &mut [u8]) -> Result<()> {
        self.cache.read(block, out)
    }

    fn write(&self, block: u64, data: &[u8]) -> Result<()> {
        self.cache.write(block, data)
    }

    fn flush(&self) -> Result<()> {
        self.cache.flush()
    }

    fn background_turn(&self) -> Result<()> {
        self.cache.cleaner().turn(&*self.cache)
    }

    fn stats(&self) -> EngineStats {
        let health = &self.cache.cleaner().health;
        EngineStats {
            is_degraded: health.last_error().is_some(),
            write_back_errors: health.errors(),
            ..self.cache.stats()
        }
    }

    fn last_error(&self) -> Option<String> {
        self.cache.cleaner().health.last_error()
    }
}
