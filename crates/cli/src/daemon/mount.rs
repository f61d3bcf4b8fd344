//! `forebay mount`: a directory served through the durable file buffer until it is unmounted or told
//! to stop. It may be killed at any time; the next mount, or `forebay recover`, goes on from there.
//!
//! Order at the end: no more requests, then everything that only the pool has goes to the directory,
//! then the pool is closed.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use forebay_command::end::{self, Event, LastResort, RETRY_INTERVAL, SHUTDOWN_DEADLINE};
use forebay_command::notify::Notifier;
use forebay_command::{Failure, output, start};
use forebay_files::FileBufferOptions;
use forebay_mount::{FileMount, MountOptions};
use forebay_serve::mount_point::MountIdentity;

use super::set_aside::SetAside;
use super::{sandbox, watch};
use crate::arguments::{MountArguments, PoolIsLost};
use crate::config::Switch;

/// The number that the mount's end is told with; there is one mount.
const THE_MOUNT: u64 = 0;

/// And the one that the pool's is told with.
const THE_POOL: u64 = 1;

/// How much longer than the deadline, or than the second signal, a backing that does not answer is waited for.
const CLOSE_GRACE: Duration = Duration::from_secs(2);

/// Serves until told to stop.
pub fn run(arguments: &MountArguments) -> Result<(), Failure> {
    start::prepare(arguments.log_level, arguments.log_format);
    let notifier = Arc::new(Notifier::from_environment());
    notifier.send("STATUS=Opening the pool");
    let (sender, events) = channel();
    let on_end = {
        let sender = sender.clone();
        move || {
            let _ = sender.send(Event::Unmounted(THE_MOUNT));
        }
    };
    let mount = open(arguments, on_end)?;
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
    end::forward_signals(sender.clone(), || Event::Signal)?;
    let _watch = watch::start({
        let buffer = Arc::downgrade(mount.buffer());
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
    // A pool that has failed takes no more writes until it is opened anew.
    notifier.watch({
        let buffer = Arc::downgrade(mount.buffer());
        move || {
            let stats = buffer.upgrade().and_then(|buffer| buffer.stats());
            stats.is_some_and(|stats| !stats.poisoned)
        }
    });
    let limit = arguments
        .shutdown_deadline
        .map_or(SHUTDOWN_DEADLINE, Duration::from_secs);
    let signals = Signals::new(mount.identity().clone(), limit);
    serve_until_end(mount, (&events, sender), &notifier, signals)
}

/// The mount; of a directory that is stale, if it is to be served empty then.
fn open(
    arguments: &MountArguments,
    on_end: impl FnOnce() + Clone + Send + Sync + 'static,
) -> Result<FileMount, Failure> {
    let stale = match open_as_it_is(arguments, on_end.clone()) {
        Err(Failure::Stale(why)) if arguments.when_pool_is_lost == PoolIsLost::Empty => why,
        opened => return opened,
    };
    let data = arguments.data.display();
    let aside = SetAside::new(&arguments.data).map_err(|error| {
        Failure::Stale(format!(
            "{stale}; {data} was to be set aside, which is not possible ({error}): empty it by hand"
        ))
    })?;
    match open_as_it_is(arguments, on_end) {
        Ok(mount) => {
            tracing::warn!(content = %aside.beside.display(), "{stale}: set aside, and served empty");
            Ok(mount)
        }
        Err(failure) => {
            // A refusal changes nothing.
            if let Err(error) = aside.undo() {
                let beside = aside.beside.display();
                tracing::error!(%error, "the content of {data} stays in {beside}");
            }
            Err(failure)
        }
    }
}

fn open_as_it_is(
    arguments: &MountArguments,
    on_end: impl FnOnce() + Send + Sync + 'static,
) -> Result<FileMount, Failure> {
    let runtime = arguments.trust.runtime();
    let pool = FileBufferOptions::new(&arguments.pool)
        .runtime(runtime.accept_stale(arguments.accept_stale));
    let options = MountOptions {
        transport: arguments.transport.into(),
        threads: usize::from(arguments.threads),
        writeback_cache: arguments.writeback_cache,
        keeps_cores_awake: !arguments.cores_may_sleep,
        open_files_per_user: arguments.open_files_per_user.map(|limit| limit as usize),
        belief: forebay_mount::BELIEF,
    };
    let (data, directory) = (&arguments.data, &arguments.directory);
    FileMount::new(data, directory, &pool, &options, on_end).map_err(Failure::of_files)
}

/// The signals that were heard, and the end that each has made sure of, whatever hangs: dropped, it has come in time.
struct Signals {
    identity: MountIdentity,
    limit: Duration,
    heard: usize,
    last_resorts: Vec<LastResort>,
}

impl Signals {
    fn new(identity: MountIdentity, limit: Duration) -> Signals {
        Signals {
            identity,
            limit,
            heard: 0,
            last_resorts: Vec::new(),
        }
    }

    /// From here on the process ends: after the deadline by the first signal, soon by the second.
    fn hear(&mut self) -> io::Result<()> {
        self.heard += 1;
        let wait = match self.heard {
            1 => self.limit,
            _ => Duration::ZERO,
        };
        let identity = self.identity.clone();
        let before_end = move || {
            // Its users get errors then, instead of a mount without a daemon.
            let _ = identity.unmount(true);
        };
        let last_resort = LastResort::after(wait + CLOSE_GRACE, before_end)?;
        self.last_resorts.push(last_resort);
        Ok(())
    }
}

/// The first signal unmounts, and goes on trying while files are in use; the second, or the deadline,
/// forces the end.
fn serve_until_end(
    mount: FileMount,
    (events, sender): (&Receiver<Event>, Sender<Event>),
    notifier: &Notifier,
    mut signals: Signals,
) -> Result<(), Failure> {
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
            Ok(Event::Unmounted(_)) => return close(mount, (events, sender), notifier, signals),
            Ok(Event::Signal) => signals.hear()?,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        let deadline = *deadline.get_or_insert_with(|| {
            notifier.send("STOPPING=1\nSTATUS=Waiting for files in use");
            let limit = signals.limit;
            tracing::info!(deadline_s = limit.as_secs(), "told to end: unmounting");
            Instant::now() + limit
        });
        match mount.unmount(false) {
            // Its end arrives as an event.
            Ok(()) => {}
            Err(error) if signals.heard > 1 || Instant::now() >= deadline => {
                return insist(mount, &error);
            }
            // Likewise, once the last request is answered.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
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

/// Signals are heard meanwhile: a backing may take long, or not answer at all.
fn close(
    mount: FileMount,
    (events, sender): (&Receiver<Event>, Sender<Event>),
    notifier: &Notifier,
    mut signals: Signals,
) -> Result<(), Failure> {
    notifier.send("STOPPING=1\nSTATUS=Bringing the directory up to date");
    tracing::info!("unmounted: bringing the directory up to date");
    let closing = std::thread::Builder::new().name("close".into());
    let closing = closing.spawn(move || {
        let closed = mount.join();
        let _ = sender.send(Event::Unmounted(THE_POOL));
        closed
    })?;
    while let Ok(event) = events.recv() {
        match event {
            Event::Signal => signals.hear()?,
            Event::Unmounted(THE_POOL) => break,
            Event::Unmounted(_) => {}
        }
    }
    let closed = closing.join();
    let panicked = |_| Err(io::Error::other("the thread that closes the pool panicked"));
    closed.unwrap_or_else(panicked).map_err(|error| {
        Failure::Failed(format!(
            "the directory is not up to date ({error}); nothing acknowledged is lost: free the cause \
             and mount again, or run forebay recover"
        ))
    })
}

fn insist(mount: FileMount, in_use: &io::Error) -> Result<(), Failure> {
    let directory = mount.directory().to_owned();
    if let Err(error) = mount.unmount(true)
        && error.kind() != io::ErrorKind::NotFound
    {
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
