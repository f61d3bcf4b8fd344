//! Ctrl-C, SIGTERM and a terminal that is gone become errors of whatever waits, so that everything is cleaned up by unwinding.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::Result;

/// How often a wait polls its condition.
const PERIOD: Duration = Duration::from_millis(2);

static IS_INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on SIGINT, SIGTERM and SIGHUP are noted instead of ending the process. Returns what they set; to set it
/// calls everything off, too.
///
/// # Errors
/// The system refuses a handler.
pub fn catch_signals() -> Result<Arc<AtomicBool>> {
    let flag = IS_INTERRUPTED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(flag))?;
    }
    Ok(Arc::clone(flag))
}

/// Refuses to go on after a signal.
///
/// # Errors
/// There was one.
pub fn check_interrupt() -> Result<()> {
    match IS_INTERRUPTED.get().is_some_and(|flag| flag.load(SeqCst)) {
        true => Err("interrupted".into()),
        false => Ok(()),
    }
}

/// Waits until `done` gives something; `None` if that takes longer than `limit`.
///
/// # Errors
/// That of `done`, or a signal came.
pub fn wait_for<T>(
    limit: Duration,
    mut done: impl FnMut() -> Result<Option<T>>,
) -> Result<Option<T>> {
    let began = Instant::now();
    loop {
        if let Some(result) = done()? {
            return Ok(Some(result));
        }
        check_interrupt()?;
        if began.elapsed() >= limit {
            return Ok(None);
        }
        std::thread::sleep(PERIOD);
    }
}

/// Sleeps.
///
/// # Errors
/// A signal came.
pub fn sleep(time: Duration) -> Result<()> {
    wait_for(time, || Ok(None::<()>)).map(drop)
}
