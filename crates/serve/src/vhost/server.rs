//! The server: one disk at one socket, for one client at a time, and again for the next.
//!
//! Guarantees: the socket is the owner's alone; when a client has gone, however it went, all that it
//! asked for and that was begun is done before the next one is let in; an end leaves no thread and
//! no socket behind.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::block_device::BlockDevice;
use crate::unix_socket::UnixListeningSocket;
use crate::vhost::dispatch;
use crate::vhost::execute::Executor;
use crate::vhost::options::VhostUserOptions;
use crate::vhost::session::Session;
use crate::vhost::stats::{VhostUserStats, count};

/// Rest after accept failed, which it does for as long as there are no descriptors.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// How long a dropped server waits for requests that a device is still at.
const DROP_GRACE: Duration = Duration::from_secs(5);

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum VhostUserError {
    /// It cannot listen there.
    #[error("cannot listen on {}: {source}", path.display())]
    Listen {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// An option is out of its range.
    #[error("{0}")]
    Options(String),
}

/// A disk offered to virtual machines. Dropping it ends it and removes its socket.
pub struct VhostUserServer {
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

struct Shared {
    executor: Arc<Executor>,
    options: VhostUserOptions,
    listening: UnixListeningSocket,
    is_stopping: AtomicBool,
    /// The client there is.
    client: Mutex<Client>,
    changed: Condvar,
}

#[derive(Default)]
struct Client {
    /// Another handle of its socket.
    stream: Option<UnixStream>,
    /// The acceptor has returned.
    is_over: bool,
}

impl std::fmt::Debug for VhostUserServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "VhostUserServer on {}", self.path().display())
    }
}

impl VhostUserServer {
    /// Offers `device` at `socket`.
    ///
    /// # Errors
    /// The socket cannot be made, or it has a listener; an option is out of its range.
    pub fn start(
        device: Arc<dyn BlockDevice>,
        socket: &Path,
        options: VhostUserOptions,
    ) -> Result<VhostUserServer, VhostUserError> {
        options.check().map_err(VhostUserError::Options)?;
        let listen_error = |source| VhostUserError::Listen {
            path: socket.to_path_buf(),
            source,
        };
        let listening = UnixListeningSocket::bind(socket.to_path_buf(), options.socket_owner)
            .map_err(listen_error)?;
        let shared = Arc::new(Shared {
            executor: Arc::new(Executor::new(device, &options)),
            options,
            listening,
            is_stopping: AtomicBool::new(false),
            client: Mutex::default(),
            changed: Condvar::new(),
        });
        let acceptor = std::thread::Builder::new()
            .name("vhost-accept".into())
            .spawn({
                let shared = Arc::clone(&shared);
                move || shared.accept_all()
            });
        match acceptor {
            Ok(thread) => Ok(VhostUserServer {
                shared,
                acceptor: Some(thread),
            }),
            Err(source) => {
                shared.listening.stop();
                Err(listen_error(source))
            }
        }
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        self.shared.listening.path()
    }

    /// What it has done so far.
    pub fn stats(&self) -> VhostUserStats {
        self.shared.executor.tallies.snapshot()
    }

    /// Ends in order: no new client; the one there is keeps its disk until it goes by itself. True
    /// if it went by the deadline; else it is cut off.
    pub fn drain(&self, deadline: Duration) -> bool {
        self.begin_drain();
        let is_drained = self.shared.wait_for_end(deadline);
        if !is_drained {
            self.cut();
        }
        is_drained
    }

    /// Starts to end and returns at once: no client can connect any more, a connected one is served
    /// on. See [`VhostUserServer::is_drained`].
    pub fn begin_drain(&self) {
        self.shared.stop_accepting(self.shared.lock());
    }

    /// Whether no client is left; after [`VhostUserServer::begin_drain`] it stays so.
    pub fn is_drained(&self) -> bool {
        self.shared.wait_for_end(Duration::ZERO)
    }

    /// Ends if there is no client, so that none can come; else changes nothing. Whether it ended.
    pub fn close_unused(&self) -> bool {
        let client = self.shared.lock();
        let is_unused = client.stream.is_none();
        if is_unused {
            self.shared.stop_accepting(client);
        }
        is_unused
    }

    /// Cuts the client off: requests that were begun are finished and answered, those still in the
    /// guest's queues stay there.
    pub fn cut(&self) {
        let client = self.shared.lock();
        if let Some(stream) = &client.stream {
            // It fails only where the client has gone, which is as good.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

impl Drop for VhostUserServer {
    fn drop(&mut self) {
        self.begin_drain();
        self.cut();
        // A device that does not answer must not keep the process.
        if self.shared.wait_for_end(DROP_GRACE)
            && let Some(thread) = self.acceptor.take()
        {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Client> {
        self.client.lock()
    }

    /// A client not admitted while the lock was held will not be.
    fn stop_accepting(&self, client: MutexGuard<'_, Client>) {
        if !self.is_stopping.swap(true, Ordering::SeqCst) {
            self.listening.stop();
        }
        self.changed.notify_all();
        drop(client);
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    /// Waits until the acceptor is over; false if it is not at the deadline.
    fn wait_for_end(&self, deadline: Duration) -> bool {
        let until = Instant::now() + deadline;
        let mut client = self.lock();
        while !client.is_over {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            self.changed.wait_for(&mut client, left);
        }
        true
    }

    fn accept_all(self: Arc<Shared>) {
        while !self.is_stopping() {
            match self.listening.accept() {
                Ok(descriptor) => self.admit(descriptor),
                Err(_) => self.rest(),
            }
        }
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    /// After accept failed: the cause may pass; wait rather than spin.
    fn rest(&self) {
        let mut client = self.lock();
        if !self.is_stopping() {
            count(&self.executor.tallies.accept_errors, 1);
            self.changed.wait_for(&mut client, ACCEPT_RETRY_INTERVAL);
        }
    }

    fn admit(&self, descriptor: OwnedFd) {
        let stream = UnixStream::from(descriptor);
        let Ok(handle) = stream.try_clone() else {
            return self.rest();
        };
        {
            let mut client = self.lock();
            if self.is_stopping() {
                return;
            }
            client.stream = Some(handle);
        }
        let tallies = &self.executor.tallies;
        count(&tallies.connections_total, 1);
        tallies.connected.store(1, Ordering::Relaxed);
        self.serve(stream);
        tallies.connected.store(0, Ordering::Relaxed);
        self.lock().stream = None;
    }

    /// Serves a client until it goes or breaks the protocol. Everything that was begun for it is
    /// done on return.
    fn serve(&self, stream: UnixStream) {
        let stream = Arc::new(stream);
        let executor = Arc::clone(&self.executor);
        let mut session = Session::new(self.options.clone(), executor, Arc::clone(&stream));
        if let Err(error) = dispatch::serve(&stream, &mut session) {
            // A client that has gone needs no message, however it went.
            if error.kind() == io::ErrorKind::InvalidData {
                count(&self.executor.tallies.protocol_errors, 1);
                let path = self.listening.path().display();
                if let Some(left_out) = self.executor.log_rate_limit.next() {
                    tracing::warn!(socket = %path, %error, left_out, "a vhost-user client is disconnected");
                }
            }
        }
    }
}
