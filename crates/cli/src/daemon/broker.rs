//! The broker of `forebay run --shared`: the one process that has the pool while a program of many processes runs, and
//! serves them the directory.
//!
//! It ends by itself when the last of them has ended, whatever became of the command that started it, and brings the
//! directory up to date first. SIGTERM ends it at once: what still uses the directory gets errors, and nothing acknowledged
//! is lost. It may be killed at any time; the next opening of the pool recovers.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use forebay_command::end::{self, Event, LastResort, SHUTDOWN_DEADLINE};
use forebay_command::{Failure, LogLevel, start};
use forebay_files::FileBufferOptions;
use forebay_mount::{MountOptions, PrivateServer, Serving};
use rustix::fd::AsFd;

use super::{sandbox, watch};
use crate::arguments::BrokerOptions;
use crate::handover;

/// The number that the mount's end is told with; there is one mount.
const THE_MOUNT: u64 = 0;

/// And the one that the pool's is told with.
const THE_POOL: u64 = 1;

/// How long a disk that does not answer is waited for after the second signal.
const CLOSE_GRACE: Duration = Duration::from_secs(2);

/// How long the kernel may keep names and attributes: for good. No other process may change the directory meanwhile, and
/// what changes through the mount is corrected at once.
const BELIEF: Duration = Duration::from_secs(24 * 60 * 60);

/// Serves until the program and all that it started have ended.
pub fn run(options: &BrokerOptions) -> Result<(), Failure> {
    // What a terminal sends is for the program. Started by the command, it leads no group.
    let _ = rustix::process::setsid();
    start::prepare(Some(LogLevel::Warn), None);
    let input = rustix::stdio::stdin().as_fd().try_clone_to_owned()?;
    let mut socket = UnixStream::from(input);
    let runtime = options.trust.runtime().accept_stale(options.accept_stale);
    let pool = FileBufferOptions::new(&options.pool).runtime(runtime);
    let mount_options = MountOptions {
        belief: BELIEF,
        ..MountOptions::default()
    };
    let server = PrivateServer::new(&options.shared, &pool, &mount_options);
    let server = server.map_err(Failure::of_files)?;
    for complaint in &server.buffer().recovery().complaints {
        tracing::warn!("{complaint}");
    }
    let (sender, events) = channel();
    end::forward_signals(sender.clone())?;
    handover::say_ready(&mut socket)?;
    let Some(mount) = handover::take_mount(&socket)? else {
        return server.close().map_err(Failure::of_files);
    };
    drop(socket);
    let at_end = sender.clone();
    let serving = server.serve(mount, move || {
        let _ = at_end.send(Event::Unmounted(THE_MOUNT));
    })?;
    sandbox::enter(sandbox::Daemon::Directory)?;
    let _watch = watch::start({
        let buffer = Arc::downgrade(serving.buffer());
        move || Some(watch::Seen::new(buffer.upgrade()?.stats()?, Vec::new()))
    });
    let closed = serve_until_end(serving, &events, sender);
    closed.map_err(|error| {
        Failure::Failed(format!(
            "{} is not up to date ({error}); nothing acknowledged is lost: free the cause and run forebay recover {}",
            options.shared.display(),
            options.pool.display()
        ))
    })
}

/// The mount ends by itself with the last process that has it. A signal closes the pool before that, the second one does not
/// wait for a disk either.
fn serve_until_end(
    serving: Serving,
    events: &Receiver<Event>,
    sender: Sender<Event>,
) -> io::Result<()> {
    let is_over = !matches!(events.recv(), Ok(Event::Signal));
    let mut last_resorts = Vec::new();
    if !is_over {
        last_resorts.push(LastResort::after(SHUTDOWN_DEADLINE, || {})?);
    }
    let closing = std::thread::Builder::new().name("close".into());
    let closing = closing.spawn(move || {
        let closed = match is_over {
            true => serving.join(),
            false => serving.close_in_use(),
        };
        let _ = sender.send(Event::Unmounted(THE_POOL));
        closed
    })?;
    loop {
        match events.recv() {
            Ok(Event::Unmounted(THE_POOL)) | Err(_) => break,
            Ok(Event::Unmounted(_)) => {}
            Ok(Event::Signal) => last_resorts.push(LastResort::after(CLOSE_GRACE, || {})?),
        }
    }
    let panicked = |_| Err(io::Error::other("the thread that closes the pool panicked"));
    closing.join().unwrap_or_else(panicked)
}
