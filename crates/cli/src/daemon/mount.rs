//! `forebay mount`: a directory served through the durable file buffer until it is unmounted or told
//! to stop. It may be killed at any time; the next mount, or `forebay recover`, goes on from there.
//!
//! Order at the end: no more requests, then everything that only the pool has goes to the directory,
//! then the pool is closed.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use forebay_command::end::{self, Event, RETRY_INTERVAL, SHUTDOWN_DEADLINE};
use forebay_command::notify::Notifier;
use forebay_command::{Failure, output, start};
use forebay_files::FileBufferOptions;
use forebay_mount::{FileMount, MountOptions};

use super::{sandbox, watch};
use crate::arguments::MountArguments;
use crate::config::Switch;

/// The number that the mount's end is told with; there is one mount.
const THE_MOUNT: u64 = 0;

/// Serves until told to stop.
pub fn run(arguments: &MountArguments) -> Result<(), Failure> {
    start::prepare(arguments.log_level, arguments.log_format);
    let notifier = Notifier::from_environment();
    notifier.send("STATUS=Opening the pool");
    let (sender, events) = channel();
    let on_end = {
        let sender = sender.clone();
        move || {
            let _ = sender.send(Event::Unmounted(THE_MOUNT));
        }
    };
    let mount = FileMount::new(
        &arguments.data,
        &arguments.directory,
        &FileBufferOptions::new(&arguments.pool).runtime(
            arguments
                .trust
                .runtime()
                .accept_stale(arguments.accept_stale),
        ),
        &MountOptions {
            transport: arguments.transport.into(),
            threads: usize::from(arguments.threads),
            writeback_cache: arguments.writeback_cache,
            keeps_cores_awake: !arguments.cores_may_sleep,
            open_files_per_user: arguments.open_files_per_user.map(|limit| limit as usize),
        },
        on_end,
    )
    .map_err(Failure::of_files)?;
    let recovery = mount.buffer().recovery();
    for complaint in &recovery.complaints {
        tracing::warn!("{complaint}");
    }
    if recovery.files > 0 || recovery.names_changed > 0 {
        tracing::info!(
            files = recovery.files,
            names = recovery.names_changed,
            blocks = recovery.blocks_written,
            removed = recovery.removed,
            saved_to = ?recovery.saved_to,
            "the last mount did not end in order: the directory was brought up to date"
        );
    }
    end::forward_signals(sender)?;
    let _watch = watch::start({
        let buffer = std::sync::Arc::downgrade(mount.buffer());
        move || Some(watch::Seen::new(buffer.upgrade()?.stats()?, Vec::new()))
    });
    let directory = mount.directory().display();
    output::line(&format!(
        "serving {} at {directory}",
        arguments.data.display()
    ));
    let is_wanted = arguments.sandbox.is_none_or(Switch::is_on);
    if is_wanted && sandbox::can_be_entered(true, false) {
        sandbox::enter(sandbox::Daemon::Directory)?;
        tracing::info!(
            "the sandbox is one of system calls, not of files: the kernel would refuse a confined daemon \
             files that it finds by their handles"
        );
    }
    output::line("ready");
    notifier.send("READY=1\nSTATUS=Serving");
    serve_until_end(mount, &events, &notifier, arguments)
}

/// The first signal unmounts, and goes on trying while files are in use; the second, or the deadline,
/// forces the end.
fn serve_until_end(
    mount: FileMount,
    events: &Receiver<Event>,
    notifier: &Notifier,
    arguments: &MountArguments,
) -> Result<(), Failure> {
    let mut signals = 0;
    let mut deadline = None;
    let mut waits = 0;
    loop {
        let event = match deadline {
            None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(deadline) => {
                let deadline: Instant = deadline;
                let left = deadline.saturating_duration_since(Instant::now());
                events.recv_timeout(left.min(RETRY_INTERVAL))
            }
        };
        match event {
            Ok(Event::Unmounted(_)) => return close(mount, notifier),
            Ok(Event::Signal) => signals += 1,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        let deadline = *deadline.get_or_insert_with(|| {
            notifier.send("STOPPING=1\nSTATUS=Waiting for files in use");
            let limit = arguments
                .shutdown_deadline
                .map_or(SHUTDOWN_DEADLINE, Duration::from_secs);
            tracing::info!(deadline_s = limit.as_secs(), "told to end: unmounting");
            Instant::now() + limit
        });
        match mount.unmount(false) {
            // Its end arrives as an event.
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if signals > 1 || Instant::now() >= deadline => {
                return insist(mount, &error);
            }
            Err(error) => {
                // Not at once: most are closed before the next look.
                if waits == 1 {
                    tracing::warn!(
                        mount = %mount.directory().display(),
                        %error,
                        "in use, and served until it is not; close what is open there (fuser -vm \
                         shows them), or signal again to end at once"
                    );
                }
                waits += 1;
            }
        }
    }
}

fn close(mount: FileMount, notifier: &Notifier) -> Result<(), Failure> {
    notifier.send("STOPPING=1\nSTATUS=Bringing the directory up to date");
    tracing::info!("unmounted: bringing the directory up to date");
    mount.join().map_err(|error| {
        Failure::Failed(format!(
            "the directory is not up to date ({error}); nothing acknowledged is lost: free the cause \
             and mount again, or run forebay recover"
        ))
    })
}

fn insist(mount: FileMount, in_use: &io::Error) -> Result<(), Failure> {
    let directory = mount.directory().to_owned();
    if let Err(error) = mount.unmount(true) {
        tracing::error!(mount = %directory.display(), %error, "not unmounted");
    }
    if let Err(error) = mount.close_in_use() {
        tracing::error!(%error, "the directory is not up to date; what it lacks is in the pool");
    }
    Err(Failure::Forced(format!(
        "ended while {} was in use ({in_use}); what uses it gets errors from now on, and nothing \
         acknowledged is lost",
        directory.display()
    )))
}
