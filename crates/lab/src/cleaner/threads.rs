//! The cleaner's threads, and the engine with them around it.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use forebay::{ErrorKind, Result};

use super::round::{Cleanable, Cleaner};
use crate::{Engine, EngineStats, EngineTransaction};

/// How often a thread looks for work without a wakeup, and after an error.
const TICK: Duration = Duration::from_millis(100);

#[derive(Default)]
struct Notices {
    asked: u64,
    is_stopping: bool,
}

/// A condition variable with a memory, so that no wakeup is lost.
#[derive(Default)]
pub(crate) struct Wakeup {
    /// Set by a client that asks, and cleared by a thread that begins to look: a client that finds it set need not take
    /// the mutex.
    is_asked: AtomicBool,
    notices: Mutex<Notices>,
    changed: Condvar,
}

impl Wakeup {
    fn notices(&self) -> MutexGuard<'_, Notices> {
        // Two plain values, right whatever a panicking holder did.
        self.notices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the threads, if there are any.
    pub(super) fn ask(&self) {
        if !self.is_asked.swap(true, Ordering::AcqRel) {
            self.notices().asked += 1;
            self.changed.notify_all();
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.notices().is_stopping
    }

    fn stop(&self) {
        self.notices().is_stopping = true;
        self.changed.notify_all();
    }

    /// Waits for a wakeup after the `seen`-th, but not for long; returns how many there were, unless it is time
    /// to stop.
    fn wait(&self, seen: u64) -> ControlFlow<(), u64> {
        let waited = self
            .changed
            .wait_timeout_while(self.notices(), TICK, |now| {
                !now.is_stopping && now.asked == seen
            });
        let (now, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match now.is_stopping {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(now.asked),
        }
    }

    /// Rests, unless it is time to stop.
    fn rest(&self) {
        let rested = self
            .changed
            .wait_timeout_while(self.notices(), TICK, |now| !now.is_stopping);
        drop(rested.unwrap_or_else(PoisonError::into_inner));
    }
}

/// A stage of the cleaner's work.
type Stage<C> = fn(&Cleaner, &C) -> Result<()>;

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
    fn spawn(&mut self, name: &'static str, stage: Stage<C>) -> Result<()> {
        let cache = Arc::clone(&self.cache);
        let run = move || {
            let cleaner = cache.cleaner();
            let mut seen = 0;
            while let ControlFlow::Continue(asked) = cleaner.wakeup.wait(seen) {
                seen = asked;
                cleaner.wakeup.is_asked.store(false, Ordering::Release);
                // A client that lacks room meets the same error, and says so to its caller.
                if stage(cleaner, &cache).is_err() {
                    cleaner.wakeup.rest();
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
        self.cache.stats()
    }
}
