//! How bytes come and go: a socket, TLS over one, or memory in tests.

use std::io;
use std::sync::Arc;
use std::time::Instant;

/// Both directions of a connection. One thread receives; several may send, one at a time.
pub trait Transport: Send + Sync {
    /// Waits for at least one byte and returns how many came, 0 at the end of the stream.
    ///
    /// # Errors
    /// The connection failed, or the deadline has passed.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Sends all of `bytes`.
    ///
    /// # Errors
    /// The connection failed, or the deadline has passed.
    fn send(&self, bytes: &[u8]) -> io::Result<()>;

    /// From when on receiving and sending fail, however much the peer has sent by then.
    ///
    /// # Errors
    /// The socket refused.
    fn set_deadline(&self, deadline: Option<Instant>) -> io::Result<()>;

    /// Tells the peer that nothing follows. The connection need not be usable any more.
    fn finish(&self) {}
}

impl<T: Transport + ?Sized> Transport for Arc<T> {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (**self).receive(buffer)
    }
    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        (**self).send(bytes)
    }
    fn set_deadline(&self, deadline: Option<Instant>) -> io::Result<()> {
        (**self).set_deadline(deadline)
    }
    fn finish(&self) {
        (**self).finish();
    }
}

/// Fills `buffer`.
///
/// # Errors
/// As [`Transport::receive`]; the stream ended first.
pub(crate) fn receive_exact(transport: &dyn Transport, buffer: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        match transport.receive(&mut buffer[filled..])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => filled += count,
        }
    }
    Ok(())
}
