//! `forebay serve`: the daemon. It may be killed at any time; the next one recovers and serves on.
//!
//! Order at the end: no more requests (unmounted), then no more commands (socket removed), then the
//! pool is closed. Dirty blocks stay in the pool: they are safe there, and ending must be quick.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use forebay::{Backing, Pool};
use forebay_serve::{ControlServer, DiskMount, DiskOptions, VolumeDevice};
use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::arguments::ServeOptions;
use crate::failure::Failure;
use crate::output;
use crate::pool_report;

/// How often a daemon that was told to end looks whether its disk is still in use.
const UNMOUNT_RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// What the daemon waits for.
enum Event {
    /// A person or the service manager wants it to end.
    Signal,
    /// The disk was unmounted, by us or by somebody else.
    Unmounted,
}

/// Serves until told to stop.
pub fn run(options: &ServeOptions) -> Result<(), Failure> {
    end_on_panic();
    // The kernel must not wait for our own disk when it needs memory while we write to the backing.
    // Without the privilege the daemon still works; only this protection is missing.
    let _ = rustix::process::configure_io_flusher_behavior(true);

    let pool = Arc::new(Pool::open(&options.pool)?);
    let volume = pool.attach(Backing::file(&options.backing)?)?;
    let device = Arc::new(VolumeDevice::new(volume));
    let (sender, events) = channel();
    let control = ControlServer::new(
        &forebay_serve::control_path(&options.pool[0]),
        Arc::new({
            let (pool, device) = (Arc::clone(&pool), Arc::clone(&device));
            move |command| answer(&pool, &device, command)
        }),
    )?;
    forward_signals(sender.clone())?;
    let disk_options = DiskOptions {
        threads: usize::from(options.threads),
        allow_other: options.allow_other,
    };
    let mount = DiskMount::new(
        Arc::clone(&device),
        &options.fuse,
        &disk_options,
        // Nobody listens any more only when the process is about to end.
        move || sender.send(Event::Unmounted).unwrap_or_default(),
    )?;
    announce(&mount, &device);
    wait_for_end(&mount, &events)?;
    mount.join()?;
    drop(control);
    drop(device);
    if let Some(pool) = Arc::into_inner(pool) {
        pool.close()?;
    }
    Ok(())
}

/// A broken assertion leaves a pool that is consistent in the medium and perhaps not in this
/// process: end like a crash, at once, rather than serve on with a thread missing.
fn end_on_panic() {
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        default_hook(panic);
        std::process::abort();
    }));
}

fn forward_signals(sender: Sender<Event>) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for _ in signals.forever() {
                if sender.send(Event::Signal).is_err() {
                    return;
                }
            }
        })?;
    Ok(())
}

fn announce(mount: &DiskMount, device: &VolumeDevice) {
    use forebay_serve::BlockDevice;
    output::line(&format!(
        "serving {} ({} bytes)",
        mount.disk_path().display(),
        device.size_bytes()
    ));
}

/// Returns when the disk is unmounted. The first signal asks for it, and goes on asking until the
/// disk is no longer in use; the second insists.
fn wait_for_end(mount: &DiskMount, events: &Receiver<Event>) -> Result<(), Failure> {
    let mut signals = 0;
    loop {
        let event = if signals == 0 {
            events.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            events.recv_timeout(UNMOUNT_RETRY_INTERVAL)
        };
        match event {
            Ok(Event::Unmounted) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Ok(Event::Signal) => signals += 1,
            Err(RecvTimeoutError::Timeout) => {}
        }
        match mount.unmount(false) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::ResourceBusy => return Err(error.into()),
            Err(_) if signals > 1 => {
                mount.unmount(true)?;
                // Whoever still has the disk open gets errors from now on; what was acknowledged
                // is in the pool.
                return Err(Failure::Failed(
                    "ended while the disk was in use, because a second signal asked for it".into(),
                ));
            }
            Err(_) if matches!(event, Ok(Event::Signal)) => output::warning(&format!(
                "{} is in use and stays served until it is not; unmount what is on it and detach its \
                 loop device, or signal again to end at once",
                mount.disk_path().display()
            )),
            Err(_) => {}
        }
    }
}

fn answer(pool: &Pool, device: &VolumeDevice, command: &str) -> Result<Value, String> {
    match command {
        "stat" => Ok(pool_report::stat(pool)),
        "flush" => {
            device.volume().flush().map_err(|error| error.to_string())?;
            Ok(json!({"flushed": true}))
        }
        other => Err(format!("the daemon knows stat and flush, not {other}")),
    }
}
