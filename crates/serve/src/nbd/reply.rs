//! Replies, built one behind the other in a buffer that goes out with one call.

use crate::allocator::zeroed;
use crate::nbd::protocol::{BASE_ALLOCATION_ID, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, chunk};
use crate::nbd::request::Refusal;

/// Buffers grow by doubling up to this, in bytes, and beyond it by what is needed: half of a long
/// reply's buffer must not lie idle.
const DOUBLING_BYTES_MAX: usize = 64 << 10;

/// What longer buffers are rounded up to, in bytes.
const PAGE_BYTES: usize = 4096;

/// A buffer larger than this is given back after its reply, in bytes: holds 2 MiB of data, which
/// clients like to read at once, and the header.
const KEPT_BYTES_MAX: usize = (2 << 20) + PAGE_BYTES;

/// Longest message of an error, in bytes: clients show it, none needs more.
const MESSAGE_BYTES_MAX: usize = 1024;

/// The longest header of a read's data, in bytes.
const DATA_HEADER_BYTES: usize = 28;

/// Replies that wait to be sent. Its memory is cleared once, not for each reply.
#[derive(Default)]
pub(crate) struct ReplyBuffer {
    bytes: Vec<u8>,
    used: usize,
}

impl ReplyBuffer {
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    pub(crate) fn filled(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    /// Forgets everything after the first `used` bytes.
    pub(crate) fn truncate(&mut self, used: usize) {
        assert!(used <= self.used, "a buffer does not grow by truncation");
        self.used = used;
        if used == 0 && self.bytes.len() > KEPT_BYTES_MAX {
            self.bytes = Vec::new();
        }
    }

    /// Grows it to hold `end` bytes; false where there is no memory, and then it is as it was, or
    /// empty if it was.
    fn grow(&mut self, end: usize) -> bool {
        if self.bytes.len() >= end {
            return true;
        }
        if self.used == 0 {
            // What it had need not be there at the same time.
            self.bytes = Vec::new();
        }
        // Fresh memory comes cleared; the rest of it would have to be.
        let Some(mut grown) = zeroed(capacity(end)) else {
            return false;
        };
        grown[..self.used].copy_from_slice(&self.bytes[..self.used]);
        self.bytes = grown;
        true
    }

    /// Room for `count` bytes, which the caller fills: a few, for which there is always memory.
    fn space(&mut self, count: usize) -> &mut [u8] {
        let end = self.used + count;
        assert!(self.grow(end), "no memory for {end} bytes of replies");
        let space = &mut self.bytes[self.used..end];
        self.used = end;
        space
    }

    fn push(&mut self, bytes: &[u8]) {
        self.space(bytes.len()).copy_from_slice(bytes);
    }

    /// "Done", where the request has nothing else to say.
    pub(crate) fn simple(&mut self, cookie: u64, errno: u32) {
        self.push(&SIMPLE_REPLY_MAGIC.to_be_bytes());
        self.push(&errno.to_be_bytes());
        self.push(&cookie.to_be_bytes());
    }

    fn chunk_header(&mut self, cookie: u64, flags: u16, kind: u16, length: u32) {
        self.push(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
        self.push(&flags.to_be_bytes());
        self.push(&kind.to_be_bytes());
        self.push(&cookie.to_be_bytes());
        self.push(&length.to_be_bytes());
    }

    /// The end of a structured reply without content.
    pub(crate) fn nothing(&mut self, cookie: u64) {
        self.chunk_header(cookie, chunk::FLAG_DONE, chunk::NONE, 0);
    }

    /// The reply to a read, with one chunk where it is structured: room for its `length` bytes of
    /// data, which the caller fills; `None` where there is no memory for them.
    pub(crate) fn data(
        &mut self,
        cookie: u64,
        offset: u64,
        length: u32,
        structured: bool,
    ) -> Option<&mut [u8]> {
        // Room for all of it at once: a buffer that is filled is dear to grow.
        if !self.grow(self.used + DATA_HEADER_BYTES + length as usize) {
            return None;
        }
        if structured {
            self.chunk_header(cookie, chunk::FLAG_DONE, chunk::OFFSET_DATA, length + 8);
            self.push(&offset.to_be_bytes());
        } else {
            self.simple(cookie, 0);
        }
        Some(self.space(length as usize))
    }

    /// Lengths in bytes and states of consecutive extents.
    pub(crate) fn block_status(&mut self, cookie: u64, extents: &[(u32, u32)]) {
        let length = 4 + 8 * extents.len() as u32;
        self.chunk_header(cookie, chunk::FLAG_DONE, chunk::BLOCK_STATUS, length);
        self.push(&BASE_ALLOCATION_ID.to_be_bytes());
        for (length, state) in extents {
            self.push(&length.to_be_bytes());
            self.push(&state.to_be_bytes());
        }
    }

    /// An error; its message only where replies are structured.
    pub(crate) fn error(&mut self, cookie: u64, refusal: &Refusal, structured: bool) {
        if !structured {
            return self.simple(cookie, refusal.errno);
        }
        let mut end = refusal.message.len().min(MESSAGE_BYTES_MAX);
        while !refusal.message.is_char_boundary(end) {
            end -= 1;
        }
        let message = &refusal.message.as_bytes()[..end];
        let length = 6 + message.len() as u32;
        self.chunk_header(cookie, chunk::FLAG_DONE, chunk::ERROR, length);
        self.push(&refusal.errno.to_be_bytes());
        self.push(&(message.len() as u16).to_be_bytes());
        self.push(message);
    }
}

/// Bytes of a buffer that is to hold `needed`.
fn capacity(needed: usize) -> usize {
    if needed <= DOUBLING_BYTES_MAX {
        needed.next_power_of_two()
    } else {
        needed.next_multiple_of(PAGE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_replies_take_little_more_than_their_data_and_give_it_back() {
        for structured in [false, true] {
            let mut buffer = ReplyBuffer::default();
            buffer.data(1, 0, 32 << 20, structured).unwrap();
            assert!(buffer.bytes.capacity() <= (32 << 20) + PAGE_BYTES);
            buffer.truncate(0);
            assert_eq!(buffer.bytes.capacity(), 0);
            buffer.data(1, 0, 2 << 20, structured).unwrap();
            buffer.truncate(0);
            assert!(buffer.bytes.capacity() >= 2 << 20, "kept for the next");
        }
    }

    #[test]
    fn a_long_message_is_cut_between_letters() {
        let mut buffer = ReplyBuffer::default();
        let refusal = Refusal {
            errno: 5,
            message: "ü".repeat(600),
        };
        let odd = Refusal {
            errno: 5,
            message: format!("x{}", refusal.message),
        };
        buffer.error(1, &odd, true);
        let message = &buffer.filled()[26..];
        assert_eq!(message.len(), 1023);
        assert!(std::str::from_utf8(message).is_ok());
    }

    #[test]
    fn what_is_taken_back_is_not_sent() {
        let mut buffer = ReplyBuffer::default();
        buffer.simple(1, 0);
        let mark = buffer.used();
        buffer.data(2, 0, 100, true).unwrap();
        buffer.truncate(mark);
        buffer.simple(2, 5);
        assert_eq!(buffer.filled().len(), 32);
        assert_eq!(buffer.filled()[20..24], [0, 0, 0, 5]);
    }
}
