//! The thread that makes a pass each period.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::engine::Engine;
use crate::error::{Error, Result};

/// Stops when dropped.
#[derive(Debug)]
pub(super) struct Worker {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Stop {
    is_wanted: Mutex<bool>,
    changed: Condvar,
}

impl Drop for Worker {
    fn drop(&mut self) {
        *self
            .stop
            .is_wanted
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A pass that panicked has said so already; its region stays open.
            let _ = thread.join();
        }
    }
}

impl Worker {
    /// A pass each period, until it is dropped.
    pub fn start(engine: Arc<Engine>, period: Duration) -> Result<Worker> {
        let stop = Arc::new(Stop::default());
        let own = Arc::clone(&stop);
        let path = engine.medium.parts[0].path.clone();
        let thread = std::thread::Builder::new().name("forebay-dax".into());
        let thread = thread.spawn(move || {
            while own.wait(period) {
                // What fails is in the status, and the next pass tries again.
                let _ = engine.pass();
            }
        });
        let thread =
            thread.map_err(|error| Error::io("start the thread of its passes", &path, error))?;
        Ok(Worker {
            stop,
            thread: Some(thread),
        })
    }
}

impl Stop {
    /// Waits for the period to end; whether another pass is wanted.
    fn wait(&self, period: Duration) -> bool {
        let wanted = self
            .is_wanted
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .changed
            .wait_timeout_while(wanted, period, |stop| !*stop);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }
}
