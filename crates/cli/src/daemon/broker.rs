//! The broker of `forebay run --shared`: the one process that has the pool while a program of many processes runs, and
//! serves them the directory.
//!
//! It ends by itself when the last of them has ended, whatever became of the command that started it, and brings the
//! directory up to date first. A signal does not change that; at the second one, or the command's word, it ends at once: what
//! still uses the directory gets errors, and nothing acknowledged is lost. It may be killed at any time; the next opening of the pool recovers.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use forebay_command::end::{self, LastResort, SHUTDOWN_DEADLINE};
use forebay_command::{Failure, LogLevel, start};
use forebay_files::FileBufferOptions;
use forebay_mount::{MountOptions, PrivateServer, Serving};
use rustix::fd::AsFd;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::SIGXFSZ;

use super::{sandbox, watch};
use crate::arguments::BrokerOptions;
use crate::handover;

/// What the broker waits for.
enum Event {
    /// Somebody asks it to end.
    Signal,
    /// The command does, with what still uses the directory.
    EndNow,
    /// The last process that had the mount has ended.
    Over,
    /// The pool is closed, or could not be.
    Closed,
}

/// How long a disk that does not answer is waited for once a deadline is set and another signal comes.
const CLOSE_GRACE: Duration = Duration::from_secs(2);

/// How long the kernel may keep names and attributes: for good. No other process may change the directory meanwhile, and
/// what changes through the mount is corrected at once.
const BELIEF: Duration = Duration::from_secs(24 * 60 * 60);

/// Serves until the program and all that it started have ended.
pub fn run(options: &BrokerOptions) -> Result<(), Failure> {
    // What a terminal sends is for the program. Started by the command, it leads no group.
    let _ = rustix::process::setsid();
    start::prepare(Some(LogLevel::Warn), None);
    raise_limits();
    let mut socket = UnixStream::from(rustix::stdio::stdin().as_fd().try_clone_to_owned()?);
    let control = UnixStream::from(rustix::stdio::stdout().as_fd().try_clone_to_owned()?);
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
    end::forward_signals(sender.clone(), || Event::Signal)?;
    forward_command(control.try_clone()?, sender.clone())?;
    // A command that has ended meanwhile started no program.
    let served = server.identity()?;
    let is_wanted = handover::say_ready(&mut socket, served).is_ok();
    let mount = match is_wanted {
        true => handover::take_mount(&socket)?,
        false => None,
    };
    let Some(mount) = mount else {
        return server.close().map_err(Failure::of_files);
    };
    drop(socket);
    let at_end = sender.clone();
    let serving = server.serve(mount, move || {
        let _ = at_end.send(Event::Over);
    });
    let not_up_to_date = |error: io::Error| {
        Failure::Failed(format!(
            "{} is not up to date ({error}); nothing acknowledged is lost: free the cause and run forebay recover {}",
            options.shared.display(),
            options.pool.display()
        ))
    };
    let Some(serving) = serving.map_err(not_up_to_date)? else {
        return Ok(());
    };
    if let Err(failure) = sandbox::enter(sandbox::Daemon::Directory) {
        serving.close_in_use().map_err(not_up_to_date)?;
        return Err(failure);
    }
    let _watch = watch::start({
        let buffer = Arc::downgrade(serving.buffer());
        move || Some(watch::Seen::new(buffer.upgrade()?.stats()?, Vec::new()))
    });
    serve_until_end(serving, &events, sender, &control).map_err(not_up_to_date)
}

/// The command's words arrive as events. Its end is none: the program goes on without it.
fn forward_command(control: UnixStream, sender: Sender<Event>) -> io::Result<()> {
    let words = std::thread::Builder::new().name("command".into());
    words.spawn(move || {
        while handover::await_word(&control).unwrap_or(false) {
            if sender.send(Event::EndNow).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}

/// The session ends by itself with the last process that has the mount. Closing the pool before that takes the files from
/// those processes.
fn serve_until_end(
    serving: Serving,
    events: &Receiver<Event>,
    sender: Sender<Event>,
    control: &UnixStream,
) -> io::Result<()> {
    let is_over = is_over_by_itself(events);
    let mut last_resorts = Vec::new();
    match is_over {
        true => handover::say_over(control),
        false => last_resorts.push(LastResort::after(SHUTDOWN_DEADLINE, || {})?),
    }
    let closing = std::thread::Builder::new().name("close".into());
    let closing = closing.spawn(move || {
        let closed = match is_over {
            true => serving.join(),
            false => serving.close_in_use(),
        };
        let _ = sender.send(Event::Closed);
        closed
    })?;
    loop {
        match events.recv() {
            Ok(Event::Closed) | Err(_) => break,
            Ok(Event::Over) => {}
            Ok(Event::Signal | Event::EndNow) => {
                let patience = match last_resorts.is_empty() {
                    true => SHUTDOWN_DEADLINE,
                    false => CLOSE_GRACE,
                };
                last_resorts.push(LastResort::after(patience, || {})?);
            }
        }
    }
    let panicked = |_| Err(io::Error::other("the thread that closes the pool panicked"));
    closing.join().unwrap_or_else(panicked)
}

/// Waits for the end of the session, or of the patience with it. A service manager's stop is a signal to the program too,
/// which then ends in order and needs its files for that: one signal is no reason to take them from it.
fn is_over_by_itself(events: &Receiver<Event>) -> bool {
    let mut was_asked = false;
    loop {
        match events.recv() {
            Ok(Event::Signal) if !was_asked => {
                was_asked = true;
                tracing::warn!(
                    "told to end: waiting for the processes that still use the directory; at the next signal they get \
                     errors there"
                );
            }
            Ok(Event::Signal | Event::EndNow) => return false,
            Ok(Event::Over | Event::Closed) | Err(_) => return true,
        }
    }
}

/// The limits that a user sets for a program are for each of its processes; this one does the work of all.
fn raise_limits() {
    for resource in [Resource::Cpu, Resource::Fsize, Resource::As] {
        let none = Rlimit {
            current: None,
            maximum: None,
        };
        let Rlimit { maximum, .. } = getrlimit(resource);
        let highest = Rlimit {
            current: maximum,
            maximum,
        };
        // Without the right to go beyond the hard limit that one stands.
        let _ = setrlimit(resource, none).or_else(|_| setrlimit(resource, highest));
    }
    // A file that would be too long is an error then, which is told, and not the end.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}
