//! The clients of the control socket: how many there are, how long each has been waited for, and
//! streams on which a whole request and a whole answer have a deadline, however they dribble.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

/// How long one that is sent away may take to leave.
const LEAVE_TIME: Duration = Duration::from_secs(1);

/// How long a client may be silent before it makes way where all places are taken.
const SILENCE: Duration = Duration::from_secs(1);

/// The clients there are, and room for so many.
pub(super) struct Clients {
    count_max: usize,
    present: Mutex<Vec<Arc<Client>>>,
    left: Condvar,
}

/// One of them.
pub(super) struct Client {
    stream: UnixStream,
    /// Since when its next request is waited for; none while one is carried out.
    waits_since: Mutex<Option<Instant>>,
}

/// A client's place, given back when it is dropped.
pub(super) struct Place {
    clients: Arc<Clients>,
    client: Arc<Client>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

impl Clients {
    pub(super) fn new(count_max: usize) -> Arc<Clients> {
        Arc::new(Clients {
            count_max,
            present: Mutex::default(),
            left: Condvar::new(),
        })
    }

    /// A place for a client. Where all are taken, the one that has been silent for longest makes way;
    /// `None` where none has been for long enough.
    ///
    /// # Errors
    /// No descriptor is to be had.
    pub(super) fn admit(self: &Arc<Clients>, stream: &UnixStream) -> io::Result<Option<Place>> {
        let client = Arc::new(Client {
            stream: stream.try_clone()?,
            waits_since: Mutex::new(Some(Instant::now())),
        });
        let mut present = lock(&self.present);
        if present.len() >= self.count_max {
            let waits =
                |client: &Arc<Client>| lock(&client.waits_since).map(|since| since.elapsed());
            let silent = present
                .iter()
                .filter_map(|client| Some((waits(client)?, client)))
                .max_by_key(|(waits, _)| *waits);
            let Some((waits, silent)) = silent else {
                return Ok(None);
            };
            if waits < SILENCE {
                return Ok(None);
            }
            // It fails only where the client has gone, which is as good.
            let _ = silent.stream.shutdown(Shutdown::Both);
            let is_full = |present: &mut Vec<Arc<Client>>| present.len() >= self.count_max;
            self.left.wait_while_for(&mut present, is_full, LEAVE_TIME);
            if is_full(&mut present) {
                return Ok(None);
            }
        }
        present.push(Arc::clone(&client));
        drop(present);
        Ok(Some(Place {
            clients: Arc::clone(self),
            client,
        }))
    }
}

impl Place {
    /// Its next request is waited for from now on, or no longer.
    pub(super) fn wait_for_request(&self, waits: bool) {
        *lock(&self.client.waits_since) = waits.then(Instant::now);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.clients.present).retain(|other| !Arc::ptr_eq(other, &self.client));
        self.clients.left.notify_all();
    }
}

/// Receives, up to a deadline for all of it.
pub(super) struct TimedReader {
    stream: UnixStream,
    deadline: Arc<Mutex<Instant>>,
}

impl TimedReader {
    /// With a deadline that others move on.
    pub(super) fn new(stream: UnixStream, deadline: &Arc<Mutex<Instant>>) -> TimedReader {
        TimedReader {
            stream,
            deadline: Arc::clone(deadline),
        }
    }
}

impl Read for TimedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = left_until(*lock(&self.deadline))?;
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(buffer)
    }
}

/// Sends; all that is given to one `write_all` has to go in time.
pub(super) struct TimedWriter<'s> {
    stream: &'s UnixStream,
    time: Duration,
}

impl<'s> TimedWriter<'s> {
    pub(super) fn new(stream: &'s UnixStream, time: Duration) -> TimedWriter<'s> {
        TimedWriter { stream, time }
    }
}

impl Write for TimedWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.time))?;
        self.stream.write(bytes)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let deadline = Instant::now() + self.time;
        let mut rest = bytes;
        while !rest.is_empty() {
            self.stream.set_write_timeout(Some(left_until(deadline)?))?;
            match self.stream.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn left_until(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client took too long",
        ));
    }
    // The system's clock of sockets knows no less.
    Ok(left.max(Duration::from_millis(1)))
}
