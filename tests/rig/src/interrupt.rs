//! Ctrl-C and SIGTERM become errors of whatever waits, so that everything is cleaned up by unwinding.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::Result;

static IS_INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// How often something waited for is looked at.
const PERIOD: Duration = Duration::from_millis(5);

/// From now on SIGINT and SIGTERM are noted instead of ending the process.
///
/// # Errors
/// The system refuses a handler.
pub fn watch() -> Result<()> {
    let flag = IS_INTERRUPTED.get_or_init(Arc::default);
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(flag))?;
    }
    Ok(())
}

/// Refuses to go on after a signal.
///
/// # Errors
/// There was one.
pub fn check() -> Result<()> {
    let flag = IS_INTERRUPTED.get();
    match flag.is_some_and(|flag| flag.load(Ordering::SeqCst)) {
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
        check()?;
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
