//! How a daemon ends: no new clients, then every front end is closed as soon as it is not in use, or at the
//! deadline. Nothing acknowledged is lost either way.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use forebay_serve::nbd::NbdServer;

use super::Disks;
use crate::Failure;
use crate::end::{Event, LastResort, RETRY_INTERVAL};
use crate::notify::Notifier;

/// How much longer than the deadline the rest of the daemon may take to close before the process just ends.
const CLOSE_GRACE: Duration = Duration::from_secs(2);

/// Returns when the last front end is closed. The first signal closes them, and goes on trying until
/// none is in use; the second, or the deadline, forces the end.
pub fn serve_until_end<T: Send + Sync + 'static>(
    disks: &Arc<Disks<T>>,
    events: &Receiver<Event>,
    notifier: &Notifier,
    deadline: Duration,
) -> Result<(), Failure> {
    // The disks hold a sender, so that this waits for as long as it takes.
    while let Ok(Event::Unmounted(number)) = events.recv() {
        if let Some(name) = disks.was_unmounted(number) {
            tracing::info!(volume = name, "unmounted by another process");
            if !disks.has_front_ends() {
                tracing::info!("the last front end is closed: ending");
                return Ok(());
            }
        }
    }
    notifier.send("STOPPING=1\nSTATUS=Waiting for requests and for disks in use");
    tracing::info!(
        deadline_s = deadline.as_secs(),
        "told to end: closing the front ends"
    );
    let before_end = {
        let disks = Arc::downgrade(disks);
        move || {
            if let Some(disks) = disks.upgrade() {
                close_front_ends_by_force(&disks);
            }
        }
    };
    let last_resort = LastResort::after(deadline + CLOSE_GRACE, before_end)?;
    let drained = close_front_ends(disks, events, Instant::now() + deadline);
    // From here on only the pool is left to close; the last resort stays armed in case that hangs.
    std::mem::forget(last_resort);
    drained
}

fn close_front_ends<T>(
    disks: &Arc<Disks<T>>,
    events: &Receiver<Event>,
    deadline: Instant,
) -> Result<(), Failure> {
    let servers = std::mem::take(&mut *disks.servers.lock());
    // All at once: none may let clients in while another one waits for its own.
    servers.iter().for_each(NbdServer::begin_drain);
    disks.vhost.begin_drain();
    let mut signals = 1;
    let mut waits = 0;
    loop {
        let mut in_use = unmount_all(disks);
        in_use.extend(disks.ublk.remove_unused());
        in_use.extend(disks.vhost.remove_unused());
        if !servers.iter().all(NbdServer::is_drained) {
            in_use.push("NBD connections".to_owned());
        }
        if in_use.is_empty() {
            return Ok(());
        }
        if signals > 1 || Instant::now() >= deadline {
            insist(disks, servers);
            return Err(Failure::Forced(format!(
                "ended while in use: {}; what uses it gets errors from now on unless it waits, and \
                 nothing acknowledged is lost",
                in_use.join(", ")
            )));
        }
        // Not at once: most are closed before the next look.
        if waits == 1 {
            tracing::warn!(
                disks = in_use.join(", "),
                "in use, and served until they are not; unmount what is on them and detach their \
                 loop devices, or signal again to end at once"
            );
        }
        let left = deadline.saturating_duration_since(Instant::now());
        match events.recv_timeout(left.min(RETRY_INTERVAL)) {
            Ok(Event::Signal) => signals += 1,
            Ok(Event::Unmounted(number)) => {
                disks.was_unmounted(number);
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => waits += 1,
        }
    }
}

/// Unmounts what is not in use; returns what is still there, and why if that is unusual.
fn unmount_all<T>(disks: &Disks<T>) -> Vec<String> {
    let mut in_use = Vec::new();
    for served in disks.served() {
        let path = served.mounted_on().unwrap_or_default().join("disk");
        let path = path.display();
        match disks.unmount(&served, false) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                in_use.push(path.to_string());
            }
            // Its end arrives as an event, at once unless it was detached while open.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                in_use.push(format!("{path} (unmounted by another process, still open)"));
            }
            Err(error) => in_use.push(format!("{path} ({error})")),
        }
    }
    in_use
}

/// Closes what is still open, in use or not.
fn insist<T>(disks: &Disks<T>, servers: Vec<NbdServer>) {
    servers.iter().for_each(NbdServer::cut);
    disks.vhost.cut();
    close_front_ends_by_force(disks);
    let until = Instant::now() + CLOSE_GRACE;
    let is_over = || {
        let has_guests = !disks.vhost.remove_unused().is_empty();
        servers.iter().all(NbdServer::is_drained) && !has_guests
    };
    while !is_over() {
        if Instant::now() >= until {
            // Dropping them would wait longer for requests that a backing does not answer; the
            // process ends and takes them along.
            std::mem::forget(servers);
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn close_front_ends_by_force<T>(disks: &Disks<T>) {
    for served in disks.served() {
        if let Err(error) = disks.unmount(&served, true) {
            tracing::error!(volume = served.name, %error, "not unmounted");
        }
    }
}
