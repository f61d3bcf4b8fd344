//! The process that a person, or `make`, sees starts its program once more, which does the work, and holds a
//! pipe to it. However the first process ends, by SIGKILL or with its terminal, the pipe does too; the second
//! one then ends its programs, unmounts and removes what it made.

use std::io::{Read, pipe};
use std::process::{Command, ExitCode};
use std::time::Duration;

use crate::{Group, Result, catch_signals, check_interrupt};

const PERIOD: Duration = Duration::from_millis(20);

/// Runs the second process with the same arguments and `flag`, which tells it that it is that; its exit code.
///
/// # Errors
/// It cannot be started.
pub fn run_watched(flag: &str) -> Result<ExitCode> {
    catch_signals()?;
    let (theirs, ours) = pipe()?;
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(std::env::args_os().skip(1))
        .arg(flag)
        .stdin(theirs);
    let mut group = Group::start(&mut command)?;
    // The command holds their end too.
    drop(command);
    let mut pipe = Some(ours);
    loop {
        if let Some(status) = group.ended()? {
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            return Ok(code.map_or(ExitCode::FAILURE, ExitCode::from));
        }
        if check_interrupt().is_err() {
            drop(pipe.take());
        }
        std::thread::sleep(PERIOD);
    }
}

/// In the second process: whatever waits is called off when the first one is gone.
///
/// # Errors
/// Signals cannot be caught.
pub fn watch_parent() -> Result<()> {
    let is_over = catch_signals()?;
    std::thread::spawn(move || {
        // Nothing is ever written: it returns at the end.
        let _ = std::io::stdin().read(&mut [0]);
        is_over.store(true, std::sync::atomic::Ordering::SeqCst);
    });
    Ok(())
}
