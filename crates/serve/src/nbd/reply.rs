//! Replies, built one behind the other in a buffer that goes out with one call.

use crate::nbd::protocol::{BASE_ALLOCATION_ID, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, chunk};
use crate::nbd::request::Refusal;

/// The buffer given back after a reply larger than this, in bytes.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Longest message of an error, in bytes: clients show it, none needs more.
const MESSAGE_BYTES_MAX: usize = 1024;

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

    /// Room for `count` bytes, which the caller fills.
    pub(crate) fn space(&mut self, count: usize) -> &mut [u8] {
        let end = self.used + count;
        if self.bytes.len() < end {
            if self.used == 0 {
                // Fresh memory comes cleared; growing would copy and clear it.
                self.bytes = vec![0; end.next_power_of_two()];
            } else {
                self.bytes.resize(end.next_power_of_two(), 0);
            }
        }
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

    /// The header of one chunk with all the data read, `length` bytes of which follow.
    pub(crate) fn data_header(&mut self, cookie: u64, offset: u64, length: u32) {
        self.chunk_header(cookie, chunk::FLAG_DONE, chunk::OFFSET_DATA, length + 8);
        self.push(&offset.to_be_bytes());
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

#[cfg(test)]
mod tests {
    use super::*;

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
        buffer.data_header(2, 0, 100);
        buffer.space(100);
        buffer.truncate(mark);
        buffer.simple(2, 5);
        assert_eq!(buffer.filled().len(), 32);
        assert_eq!(buffer.filled()[20..24], [0, 0, 0, 5]);
    }
}
