//! The server: a listening socket, a thread for each connection, an orderly end.
//!
//! Guarantees: connections beyond the stated number are turned away with a reason and the others
//! are served on; a client that is slow in the handshake is dropped; running out of descriptors or
//! threads delays new clients and does not affect the others; `drain` answers what has been asked.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustls::ServerConfig;

use crate::nbd::address::NbdAddress;
use crate::nbd::connection;
use crate::nbd::exports::Exports;
use crate::nbd::handshake::{Handshake, Negotiated, Outcome, Security};
use crate::nbd::link::{Entry, Limits, Link, Links};
use crate::nbd::memory::Memory;
use crate::nbd::socket::{Listener, Socket};
use crate::nbd::stats::{NbdStats, Tallies, count};
use crate::nbd::tls::{self, TlsFiles, TlsTransport};
use crate::nbd::transport::Transport;

/// Rest after accept failed, which it does for as long as there are no descriptors.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Clients in the handshake at the same time; for one more, the oldest is cut off.
const HANDSHAKES_MAX: usize = 64;

/// How long a client may take to start TLS where it must: until then the peer is unauthenticated.
const TLS_START_TIMEOUT: Duration = Duration::from_secs(3);

/// How long a dropped server waits for requests that a device is still at.
const DROP_GRACE: Duration = Duration::from_secs(5);

/// How a server behaves.
#[derive(Clone, Debug)]
pub struct NbdOptions {
    /// Encrypts, and lets in only clients that show a certificate of one of our authorities.
    /// Without, TCP listens on loopback only.
    pub tls: Option<TlsFiles>,
    /// Clients served at the same time (at least 1); more are turned away.
    pub connections_max: usize,
    /// Clients of one peer (a process, over a Unix socket; a host, over TCP); if not said, three in
    /// four of all, so that there is room for others.
    pub peer_connections_max: Option<usize>,
    /// A client that has an export open and has sent no request for so long makes way where all
    /// places are taken.
    pub silence: Duration,
    /// How long a client may keep others waiting for memory that its request holds: for data that it
    /// does not send, for a reply that it does not take.
    pub patience: Duration,
    /// How long a client may take from the connection to its request for an export.
    pub handshake_timeout: Duration,
    /// Threads that a connection may have for requests of many bytes; they start as needed, beside up to 32 for short ones that
    /// wait. With 0 all of these hold up the others.
    pub workers_per_connection: usize,
    /// Bytes that long requests of all clients together may hold; a client that asks for more
    /// waits. Each connection has a few MiB beside that.
    pub memory_max: u64,
    /// The user and group that a Unix socket belongs to from the moment it can be seen; without,
    /// the process's own.
    pub socket_owner: Option<(u32, u32)>,
}

impl Default for NbdOptions {
    fn default() -> NbdOptions {
        NbdOptions {
            tls: None,
            connections_max: 64,
            peer_connections_max: None,
            silence: Duration::from_secs(10),
            patience: Duration::from_secs(30),
            handshake_timeout: Duration::from_secs(10),
            workers_per_connection: 8,
            memory_max: 1 << 30,
            socket_owner: None,
        }
    }
}

impl NbdOptions {
    fn limits(&self) -> Limits {
        let count_max = self.connections_max.max(1);
        let usual = count_max - count_max / 4;
        Limits {
            count_max,
            peer_max: self.peer_connections_max.unwrap_or(usual).max(1),
            silence: self.silence,
        }
    }
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum NbdError {
    /// It cannot listen there.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: NbdAddress,
        /// Why.
        source: io::Error,
    },
    /// A file of the TLS configuration is missing or wrong.
    #[error("TLS: {source}")]
    Tls {
        /// Which and why.
        source: io::Error,
    },
}

/// A running server. Dropping it cuts its connections off and removes its socket.
pub struct NbdServer {
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

struct Shared {
    exports: Arc<Exports>,
    options: NbdOptions,
    tls: Option<Arc<ServerConfig>>,
    listener: Listener,
    is_stopping: AtomicBool,
    /// What the acceptor sleeps on after an error.
    stop_lock: Mutex<()>,
    stopping: Condvar,
    /// Clients in the handshake. They take no place from those that have an export open.
    handshakes: Links,
    links: Links,
    memory: Arc<Memory>,
    connections_total: AtomicU64,
    connections_refused: AtomicU64,
    handshakes_failed: AtomicU64,
    accept_errors: AtomicU64,
    /// What connections that have ended did.
    ended: Mutex<Tallies>,
}

impl std::fmt::Debug for NbdServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NbdServer on {}", self.address())
    }
}

impl NbdServer {
    /// Listens on `address` and serves what is and will be in `exports`.
    ///
    /// # Errors
    /// The address cannot be listened on (TCP beyond loopback without TLS included), or a file of
    /// the TLS configuration is wrong.
    pub fn start(
        exports: Arc<Exports>,
        address: &NbdAddress,
        options: NbdOptions,
    ) -> Result<NbdServer, NbdError> {
        let listen_error = |source| NbdError::Listen {
            address: address.clone(),
            source,
        };
        let tls = options.tls.as_ref().map(tls::configure).transpose();
        let tls = tls.map_err(|source| NbdError::Tls { source })?;
        let listener =
            Listener::bind(address, tls.is_some(), options.socket_owner).map_err(listen_error)?;
        let shared = Arc::new(Shared {
            exports,
            memory: Memory::new(options.memory_max, options.patience),
            options,
            tls,
            listener,
            is_stopping: AtomicBool::new(false),
            stop_lock: Mutex::new(()),
            stopping: Condvar::new(),
            handshakes: Links::default(),
            links: Links::default(),
            connections_total: AtomicU64::new(0),
            connections_refused: AtomicU64::new(0),
            handshakes_failed: AtomicU64::new(0),
            accept_errors: AtomicU64::new(0),
            ended: Mutex::default(),
        });
        let acceptor = std::thread::Builder::new()
            .name("nbd-accept".into())
            .spawn({
                let shared = Arc::clone(&shared);
                move || shared.accept_all()
            });
        match acceptor {
            Ok(thread) => Ok(NbdServer {
                shared,
                acceptor: Some(thread),
            }),
            Err(source) => {
                shared.listener.stop();
                Err(listen_error(source))
            }
        }
    }

    /// Where it listens, with the real port where 0 was asked for.
    pub fn address(&self) -> &NbdAddress {
        self.shared.listener.address()
    }

    /// Bytes that long requests of all clients together may hold.
    pub fn memory_max(&self) -> u64 {
        self.shared.options.memory_max
    }

    /// What it has done so far.
    pub fn stats(&self) -> NbdStats {
        let shared = &*self.shared;
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut stats = NbdStats {
            connections_open: (shared.handshakes.count() + shared.links.count()) as u64,
            connections_total: load(&shared.connections_total),
            connections_refused: load(&shared.connections_refused),
            handshakes_failed: load(&shared.handshakes_failed),
            accept_errors: load(&shared.accept_errors),
            ..NbdStats::default()
        };
        let ended = shared.ended.lock();
        ended.add_to(&mut stats);
        shared.links.each(|link| link.tallies.add_to(&mut stats));
        stats
    }

    /// Ends in order: no new connections, requests that have reached us are answered, then the
    /// connections are closed. True if that was done by the deadline; else those left are cut off.
    pub fn drain(&self, deadline: Duration) -> bool {
        self.begin_drain();
        let is_drained = self.shared.wait_for_none(deadline);
        if !is_drained {
            self.cut();
        }
        is_drained
    }

    /// Starts to end and returns at once: no client can connect any more, idle connections close,
    /// the others when what has reached us is answered. See [`NbdServer::is_drained`].
    pub fn begin_drain(&self) {
        self.shared.stop_accepting();
        self.shared.handshakes.close();
        self.shared.links.close();
    }

    /// Whether no connection is left; after [`NbdServer::begin_drain`] it stays so.
    pub fn is_drained(&self) -> bool {
        self.shared.wait_for_none(Duration::ZERO)
    }

    /// Cuts all connections off: nothing more is received or answered. What was answered is kept.
    pub fn cut(&self) {
        self.shared.handshakes.each(Link::cut);
        self.shared.links.each(Link::cut);
    }
}

impl Drop for NbdServer {
    fn drop(&mut self) {
        self.shared.stop_accepting();
        if let Some(thread) = self.acceptor.take() {
            let _ = thread.join();
        }
        self.begin_drain();
        self.cut();
        self.shared.wait_for_none(DROP_GRACE);
    }
}

impl Shared {
    fn stop_accepting(&self) {
        let guard = self.stop_lock.lock();
        if !self.is_stopping.swap(true, Ordering::SeqCst) {
            self.listener.stop();
        }
        self.stopping.notify_all();
        drop(guard);
    }

    /// Waits until no client is left; false if one is at the deadline.
    fn wait_for_none(&self, deadline: Duration) -> bool {
        let start = Instant::now();
        // In this order: a connection enters the second before it leaves the first.
        self.handshakes.wait_for_none(deadline)
            && self
                .links
                .wait_for_none(deadline.saturating_sub(start.elapsed()))
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    fn accept_all(self: Arc<Shared>) {
        while !self.is_stopping() {
            match self.listener.accept() {
                Ok(socket) => self.admit(socket),
                Err(_) => self.rest(),
            }
        }
    }

    /// After accept failed: the cause may pass; wait rather than spin.
    fn rest(&self) {
        let mut guard = self.stop_lock.lock();
        if !self.is_stopping() {
            count(&self.accept_errors, 1);
            self.stopping.wait_for(&mut guard, ACCEPT_RETRY_INTERVAL);
        }
    }

    fn admit(self: &Arc<Shared>, socket: Socket) {
        count(&self.connections_total, 1);
        self.handshakes.make_room_below(HANDSHAKES_MAX);
        let link = Arc::new(Link::new(Some(Arc::new(socket))));
        // Joined here, not in the thread: the next client must see that it is there.
        if !self.handshakes.join(&link) {
            return;
        }
        let place = Place {
            shared: Arc::clone(self),
            link,
        };
        let spawned = std::thread::Builder::new()
            .name("nbd".into())
            .spawn(move || place.occupy());
        if spawned.is_err() {
            // No thread to be had: this client is cut off, the next one is in a while.
            self.rest();
        }
    }
}

/// A client's place among those in the handshake or those served, given up when it is dropped.
struct Place {
    shared: Arc<Shared>,
    link: Arc<Link>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let shared = &*self.shared;
        shared.handshakes.leave(&self.link);
        // Under the lock, so that a reader of the counts adds this connection exactly once.
        let ended = shared.ended.lock();
        self.link.tallies.fold_into(&ended);
        shared.links.leave(&self.link);
    }
}

impl Place {
    fn occupy(self) {
        let shared = &*self.shared;
        let Some(socket) = self.link.socket() else {
            return;
        };
        let result = self.negotiate(socket);
        match result {
            Ok(Some((transport, negotiated))) => {
                let workers = shared.options.workers_per_connection;
                connection::serve(&*transport, &negotiated, workers, &shared.memory);
                transport.finish();
            }
            Ok(None) => {}
            // A client that cannot negotiate does not affect the others.
            Err(_) => count(&shared.handshakes_failed, 1),
        }
        socket.shutdown();
    }

    /// From the handshake to those served, if there is room.
    fn take_place(&self) -> Result<(), String> {
        let shared = &*self.shared;
        let limits = shared.options.limits();
        match shared.links.join_below(&self.link, limits) {
            Entry::Joined => {
                shared.handshakes.leave(&self.link);
                Ok(())
            }
            Entry::Full => {
                count(&shared.connections_refused, 1);
                Err(format!(
                    "the server has {} connections already, which is its limit; try again later",
                    limits.count_max
                ))
            }
            Entry::PeerFull => {
                count(&shared.connections_refused, 1);
                Err(format!(
                    "you have {} connections already, which is the limit of one client; close one \
                     of them",
                    limits.peer_max
                ))
            }
            Entry::Closed => Err("the server is ending".into()),
        }
    }

    /// The handshake, through TLS where the client asks for that; `None` where it asks for nothing
    /// more, or is turned away.
    fn negotiate(
        &self,
        socket: &Arc<Socket>,
    ) -> io::Result<Option<(Box<dyn Transport>, Negotiated)>> {
        let shared = &*self.shared;
        let deadline = Instant::now() + shared.options.handshake_timeout;
        socket.set_deadline(Some(deadline))?;
        if shared.tls.is_some() {
            socket.set_deadline(Some(deadline.min(Instant::now() + TLS_START_TIMEOUT)))?;
        }
        let admit = || self.take_place();
        let mut handshake = Handshake {
            exports: &shared.exports,
            link: &self.link,
            admit: &admit,
            security: match shared.tls {
                Some(_) => Security::TlsAwaited,
                None => Security::Plain,
            },
            no_zeroes: false,
        };
        handshake.greet(socket)?;
        let mut transport: Box<dyn Transport> = Box::new(Arc::clone(socket));
        let mut outcome = handshake.negotiate(&*transport)?;
        if let (Outcome::StartTls, Some(config)) = (&outcome, &shared.tls) {
            transport = Box::new(TlsTransport::accept(config, Arc::clone(socket))?);
            socket.set_deadline(Some(deadline))?;
            handshake.security = Security::Tls;
            outcome = handshake.negotiate(&*transport)?;
        }
        let Outcome::Open(negotiated) = outcome else {
            transport.finish();
            return Ok(None);
        };
        socket.set_deadline(None)?;
        Ok(Some((transport, negotiated)))
    }
}
