//! A connected socket, Unix or TCP, and a listening one; the same calls serve both.
//!
//! TCP listens beyond loopback only where TLS guards it.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, SocketFlags, sockopt};

use crate::nbd::address::NbdAddress;
use crate::nbd::transport::Transport;
use crate::unix_socket::UnixListeningSocket;

/// Whose connections are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A process of this machine, over a Unix socket.
    Process(i32),
    /// A host, over TCP.
    Host(IpAddr),
    /// Not known; all such peers are counted together.
    Unknown,
}

/// One connection's socket.
pub(crate) struct Socket {
    descriptor: OwnedFd,
    /// Until when the peer may take for what is received or sent.
    deadline: Mutex<Option<Instant>>,
}

impl Socket {
    pub(crate) fn new(descriptor: OwnedFd) -> Socket {
        Socket {
            descriptor,
            deadline: Mutex::new(None),
        }
    }

    /// The process or address at the other end.
    pub(crate) fn peer(&self) -> Peer {
        if let Ok(Some(address)) = rustix::net::getpeername(&self.descriptor)
            && let Ok(address) = SocketAddr::try_from(address)
        {
            return Peer::Host(address.ip().to_canonical());
        }
        match sockopt::socket_peercred(&self.descriptor) {
            Ok(process) => Peer::Process(process.pid.as_raw_nonzero().get()),
            Err(_) => Peer::Unknown,
        }
    }

    /// What has arrived can still be received; what arrives from now on need not be.
    pub(crate) fn shutdown_read(&self) {
        // It fails only where the peer has closed, which is as good.
        let _ = rustix::net::shutdown(&self.descriptor, Shutdown::Read);
    }

    /// Nothing is received or sent any more; threads that wait for either return.
    pub(crate) fn shutdown(&self) {
        let _ = rustix::net::shutdown(&self.descriptor, Shutdown::Both);
    }

    /// Applies the deadline to the next call; fails where it has passed.
    fn arm(&self) -> io::Result<bool> {
        let deadline = *self.deadline.lock();
        let Some(deadline) = deadline else {
            return Ok(false);
        };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(timed_out());
        }
        self.set_timeouts(Some(left.max(Duration::from_millis(1))))?;
        Ok(true)
    }

    fn set_timeouts(&self, timeout: Option<Duration>) -> io::Result<()> {
        for kind in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
            sockopt::set_socket_timeout(&self.descriptor, kind, timeout)?;
        }
        Ok(())
    }
}

fn timed_out() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the peer took too long")
}

/// What a system call's error means with a deadline or without.
fn explain(errno: Errno, is_armed: bool) -> io::Error {
    match errno {
        Errno::AGAIN if is_armed => timed_out(),
        other => other.into(),
    }
}

impl Transport for Socket {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let is_armed = self.arm()?;
        loop {
            match rustix::net::recv(&self.descriptor, &mut *buffer, RecvFlags::empty()) {
                Ok((count, _)) => return Ok(count),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(explain(errno, is_armed)),
            }
        }
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let is_armed = self.arm()?;
            match rustix::net::send(&self.descriptor, rest, SendFlags::NOSIGNAL) {
                Ok(count) => rest = &rest[count..],
                Err(Errno::INTR) => {}
                Err(errno) => return Err(explain(errno, is_armed)),
            }
        }
        Ok(())
    }

    fn set_deadline(&self, deadline: Option<Instant>) -> io::Result<()> {
        *self.deadline.lock() = deadline;
        match deadline {
            None => self.set_timeouts(None),
            Some(_) => Ok(()),
        }
    }
}

/// Loopback, also where IPv6 carries IPv4.
fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// A listening socket.
pub(crate) struct Listener {
    kind: Kind,
    address: NbdAddress,
}

enum Kind {
    Unix(UnixListeningSocket),
    Tcp(OwnedFd),
}

impl Listener {
    /// Listens on `address`. A Unix socket without a listener is replaced; the new one belongs to
    /// `owner`.
    pub(crate) fn bind(
        address: &NbdAddress,
        is_guarded: bool,
        owner: Option<(u32, u32)>,
    ) -> io::Result<Listener> {
        match address {
            NbdAddress::Unix(path) => Listener::bind_unix(path.clone(), owner),
            NbdAddress::Tcp { host, port } => Listener::bind_tcp(host, *port, is_guarded),
        }
    }

    fn bind_unix(path: PathBuf, owner: Option<(u32, u32)>) -> io::Result<Listener> {
        Ok(Listener {
            kind: Kind::Unix(UnixListeningSocket::bind(path.clone(), owner)?),
            address: NbdAddress::Unix(path),
        })
    }

    fn bind_tcp(host: &str, port: u16, is_guarded: bool) -> io::Result<Listener> {
        let addresses: Vec<_> = (host, port).to_socket_addrs()?.collect();
        let open = addresses.iter().find(|address| !is_loopback(address.ip()));
        if let (Some(open), false) = (open, is_guarded) {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!(
                    "{} is not loopback, and without TLS every client that reaches it could read and \
                     write the disk; listen on 127.0.0.1 or ::1, or configure TLS",
                    open.ip()
                ),
            ));
        }
        let listener = TcpListener::bind(&addresses[..])?;
        let bound = listener.local_addr()?;
        Ok(Listener {
            kind: Kind::Tcp(listener.into()),
            address: NbdAddress::Tcp {
                host: bound.ip().to_string(),
                port: bound.port(),
            },
        })
    }

    pub(crate) fn address(&self) -> &NbdAddress {
        &self.address
    }

    /// Waits for the next client.
    pub(crate) fn accept(&self) -> io::Result<Socket> {
        let descriptor = match &self.kind {
            Kind::Unix(listening) => listening.accept()?,
            Kind::Tcp(listener) => {
                let descriptor = rustix::net::accept_with(listener.as_fd(), SocketFlags::CLOEXEC)?;
                sockopt::set_tcp_nodelay(&descriptor, true)?;
                // A peer that vanished silently must not keep its place for ever.
                sockopt::set_socket_keepalive(&descriptor, true)?;
                descriptor
            }
        };
        Ok(Socket::new(descriptor))
    }

    /// No connection is accepted any more: `accept` fails from now on, also where it waits.
    pub(crate) fn stop(&self) {
        match &self.kind {
            Kind::Unix(listening) => listening.stop(),
            Kind::Tcp(listener) => {
                let _ = rustix::net::shutdown(listener, Shutdown::Both);
            }
        }
    }
}
