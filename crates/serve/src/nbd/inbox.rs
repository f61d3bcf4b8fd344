//! What has been received and not yet handled: many requests from one call, short data in place.

use std::io;

use crate::allocator::zeroed;
use crate::nbd::request::REQUEST_BYTES;
use crate::nbd::transport::Transport;

/// Longer reads and writes go to a worker, where copying them does not hold up other requests, in
/// bytes.
pub(crate) const INLINE_BYTES_MAX: u32 = 128 << 10;

/// Bytes received at once: holds the longest request that is handled in place, and a deep queue of
/// short ones.
const BUFFER_BYTES: usize = 2 * INLINE_BYTES_MAX as usize;

/// Memory for long data grows by this, as the data comes: a client that only promises pays for it.
const GROWTH_BYTES: usize = 1 << 20;

/// A receive buffer.
pub(crate) struct Inbox<'t> {
    transport: &'t dyn Transport,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Bytes still to come that are to be discarded.
    to_skip: usize,
}

/// What became of data that was to be taken out.
pub(crate) enum Taken {
    /// It is here.
    All(Vec<u8>),
    /// There is no memory for it; what has not come is to be passed over.
    NoMemory,
    /// The stream ended before.
    Ended,
}

impl<'t> Inbox<'t> {
    /// `None` where there is no memory for it.
    pub(crate) fn new(transport: &'t dyn Transport) -> Option<Inbox<'t>> {
        Some(Inbox {
            transport,
            buffer: zeroed(BUFFER_BYTES)?.into(),
            start: 0,
            end: 0,
            to_skip: 0,
        })
    }

    /// The next request, if all of it is here (its data apart). It stays until it is consumed.
    pub(crate) fn peek_request(&self) -> Option<&[u8; REQUEST_BYTES]> {
        self.buffer[self.start..self.end].first_chunk()
    }

    pub(crate) fn has_payload(&self, bytes: usize) -> bool {
        self.end - self.start >= REQUEST_BYTES + bytes
    }

    /// The data behind the next request.
    pub(crate) fn request_payload(&self, bytes: usize) -> &[u8] {
        &self.buffer[self.start + REQUEST_BYTES..self.start + REQUEST_BYTES + bytes]
    }

    /// The next request and `payload_bytes` bytes of data are done with.
    pub(crate) fn consume_request(&mut self, payload_bytes: usize) {
        self.start += REQUEST_BYTES + payload_bytes;
        assert!(self.start <= self.end, "only what is here is consumed");
    }

    /// Receives more; false at the end of the stream.
    pub(crate) fn receive(&mut self) -> bool {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.buffer.len() || self.start > self.buffer.len() / 2 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let received = self.transport.receive(&mut self.buffer[self.end..]);
        // An error ends a connection like its end does: what was whole has been handled.
        let count = received.unwrap_or(0);
        self.end += count;
        count > 0
    }

    /// Takes `bytes` of data out, waiting for what has not come.
    pub(crate) fn take(&mut self, bytes: usize) -> Taken {
        let here = bytes.min(self.end - self.start);
        let mut data = Vec::new();
        if data
            .try_reserve_exact(bytes.min(here + GROWTH_BYTES))
            .is_err()
        {
            self.skip(bytes);
            return Taken::NoMemory;
        }
        data.extend_from_slice(&self.buffer[self.start..self.start + here]);
        self.start += here;
        while data.len() < bytes {
            let from = data.len();
            let to = bytes.min(from + GROWTH_BYTES);
            if data.try_reserve(to - from).is_err() {
                self.to_skip = bytes - from;
                return Taken::NoMemory;
            }
            data.resize(to, 0);
            if receive_all(self.transport, &mut data[from..]).is_err() {
                return Taken::Ended;
            }
        }
        Taken::All(data)
    }

    /// Passes over `bytes` of data as far as they have come; true if that was all.
    pub(crate) fn skip(&mut self, bytes: usize) -> bool {
        let here = bytes.min(self.end - self.start);
        self.start += here;
        self.to_skip = bytes - here;
        self.to_skip == 0
    }

    /// Whether there is data to pass over that has not come.
    pub(crate) fn is_skipping(&self) -> bool {
        self.to_skip > 0
    }

    /// Passes over the rest as it comes; false if the stream ends before.
    pub(crate) fn skip_rest(&mut self) -> bool {
        assert_eq!(self.start, self.end, "what is here was passed over first");
        while self.to_skip > 0 {
            let room = self.to_skip.min(self.buffer.len());
            match self.transport.receive(&mut self.buffer[..room]) {
                Ok(count) if count > 0 => self.to_skip -= count,
                _ => return false,
            }
        }
        (self.start, self.end) = (0, 0);
        true
    }
}

fn receive_all(transport: &dyn Transport, buffer: &mut [u8]) -> io::Result<()> {
    crate::nbd::transport::receive_exact(transport, buffer)
}
