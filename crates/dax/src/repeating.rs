//! A thread that does something again and again, until nobody wants it any more.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::{Error, Result};

/// Ends when dropped, after what it is doing.
#[derive(Debug)]
pub(crate) struct Repeating {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

/// Whether the thread is to end.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    is_wanted: Mutex<bool>,
    changed: Condvar,
}

impl Repeating {
    /// Starts the thread. `work` returns when its [`Stop::wait`] says that it is to end.
    ///
    /// # Errors
    /// No thread can be had: it cannot do `what`, of this path.
    pub fn start(
        name: &str,
        what: &'static str,
        path: &Path,
        work: impl FnOnce(&Stop) + Send + 'static,
    ) -> Result<Repeating> {
        let stop = Arc::new(Stop::default());
        let own = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || work(&own));
        let thread = thread.map_err(|error| Error::io(what, path, error))?;
        Ok(Repeating {
            stop,
            thread: Some(thread),
        })
    }
}

impl Stop {
    /// Waits so long; whether to go on.
    pub fn wait(&self, time: Duration) -> bool {
        let wanted = self.is_wanted.lock();
        let wanted = wanted.unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .changed
            .wait_timeout_while(wanted, time, |wanted| !*wanted);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Drop for Repeating {
    fn drop(&mut self) {
        let wanted = self.stop.is_wanted.lock();
        *wanted.unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic has been said already; what it worked on stays as an end without order leaves it.
            let _ = thread.join();
        }
    }
}
