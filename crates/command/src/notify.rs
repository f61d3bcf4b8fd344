//! Telling the service manager the daemon's state: the protocol of systemd's sd_notify(3), a
//! datagram of `NAME=VALUE` lines to the socket that `NOTIFY_SOCKET` names.
//!
//! Without that variable nothing happens, and nothing here ever fails the daemon.

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

/// The way to the service manager, if there is one.
#[derive(Debug)]
pub struct Notifier {
    socket: Option<UnixDatagram>,
}

impl Notifier {
    /// Looks for the service manager in the environment.
    pub fn from_environment() -> Notifier {
        let connected = std::env::var_os("NOTIFY_SOCKET").map(|name| connect(&name));
        Notifier {
            socket: connected.and_then(|connected| {
                connected
                    .inspect_err(
                        |error| tracing::warn!(%error, "the service manager is not reached"),
                    )
                    .ok()
            }),
        }
    }

    /// Sends lines such as `READY=1`.
    pub fn send(&self, lines: &str) {
        if let Some(socket) = &self.socket
            && let Err(error) = socket.send(lines.as_bytes())
        {
            tracing::warn!(%error, lines, "the service manager was not told");
        }
    }

    /// Keeps reporting that the daemon is alive while `is_well` says so, if the manager asked for
    /// that: twice in each interval that it allows.
    pub fn watch(self: &Arc<Self>, is_well: impl Fn() -> bool + Send + 'static) {
        let Some(interval) = watchdog_interval() else {
            return;
        };
        let notifier = Arc::clone(self);
        let watch = move || {
            while is_well() {
                notifier.send("WATCHDOG=1");
                std::thread::sleep(interval / 2);
            }
        };
        let spawned = std::thread::Builder::new()
            .name("watchdog".into())
            .spawn(watch);
        if let Err(error) = spawned {
            tracing::warn!(%error, "the watchdog does not run");
        }
    }
}

/// `WATCHDOG_USEC`, if it is meant for this process.
fn watchdog_interval() -> Option<Duration> {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
    let interval = number("WATCHDOG_USEC").filter(|interval| is_ours && *interval > 0)?;
    Some(Duration::from_micros(interval))
}

fn connect(name: &OsString) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    match name.as_bytes() {
        [b'@', name @ ..] => socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?,
        _ => socket.connect(name)?,
    }
    // A manager that does not read must not block the daemon.
    socket.set_nonblocking(true)?;
    Ok(socket)
}
