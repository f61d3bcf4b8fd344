//! What makes the daemon end, and the deadline after which it ends whatever hangs.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::Failure;

/// How often a daemon that was told to end looks whether its disks are still in use.
pub const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// How long ending may take by default.
pub const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(30);

/// How long unmounting may take when the deadline has passed.
const INSIST_TIME: Duration = Duration::from_secs(1);

/// How long reporting a panic may take.
const LAST_WORDS_TIME: Duration = Duration::from_secs(2);

/// What the daemon waits for.
#[derive(Debug)]
pub enum Event {
    /// A signal from a user or the service manager asks it to end.
    Signal,
    /// The mount of this number has ended, whether this daemon unmounted it or not.
    Unmounted(u64),
}

/// Makes the signals that mean the end arrive as events.
pub fn forward_signals<E: Send + 'static>(
    sender: Sender<E>,
    event: impl Fn() -> E + Send + 'static,
) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for _ in signals.forever() {
                if sender.send(event()).is_err() {
                    return;
                }
            }
        })?;
    Ok(())
}

/// A broken assertion leaves a pool that is consistent in the medium and perhaps not in this
/// process: end like a crash, at once, rather than serve on with a thread missing.
pub fn end_on_panic() {
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // Standard error may be a pipe without a reader.
        let _ = std::thread::Builder::new().spawn(|| {
            std::thread::sleep(LAST_WORDS_TIME);
            std::process::abort();
        });
        default_hook(panic);
        std::process::abort();
    }));
}

/// Ends the process if it is not dropped in time, since a backing that does not answer cannot be
/// interrupted. What was acknowledged is in the pool; the next daemon recovers it.
#[derive(Debug)]
pub struct LastResort {
    _in_time: Sender<()>,
}

impl LastResort {
    /// Starts the clock. `before_end` runs before the process ends.
    pub fn after(
        deadline: Duration,
        before_end: impl FnOnce() + Send + 'static,
    ) -> io::Result<LastResort> {
        let (sender, receiver): (Sender<()>, Receiver<()>) = channel();
        std::thread::Builder::new()
            .name("deadline".into())
            .spawn(move || {
                use std::sync::mpsc::RecvTimeoutError;
                if receiver.recv_timeout(deadline) == Err(RecvTimeoutError::Timeout) {
                    // Not here: what hangs may hold what this needs.
                    let insisting = std::thread::spawn(before_end);
                    let started = Instant::now();
                    while !insisting.is_finished() && started.elapsed() < INSIST_TIME {
                        std::thread::sleep(Duration::from_millis(10));
                    }
                    tracing::error!(
                        "the deadline has passed while something still hangs; everything \
                         acknowledged is safe in the pool"
                    );
                    let code = Failure::Forced(String::new()).exit_code();
                    std::process::exit(i32::from(code));
                }
            })?;
        Ok(LastResort { _in_time: sender })
    }
}
