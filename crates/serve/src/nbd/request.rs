//! Requests of the transmission: parsed, and validated before any of them is carried out.

use crate::nbd::protocol::{PAYLOAD_BYTES_MAX, REQUEST_MAGIC, command, command_flag, errno};

/// Bytes of a request, a write's data apart.
pub(crate) const REQUEST_BYTES: usize = 28;

/// A request as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) flags: u16,
    pub(crate) command: u16,
    /// The client's name for the request, sent back in the reply.
    pub(crate) cookie: u64,
    pub(crate) offset: u64,
    /// In bytes.
    pub(crate) length: u32,
}

/// What a good request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Read,
    Write,
    Disconnect,
    Flush,
    Trim,
    Cache,
    WriteZeroes { no_hole: bool },
    BlockStatus { only_one: bool },
}

/// Why a request is answered with an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The error's number in the protocol.
    pub(crate) errno: u32,
    pub(crate) message: String,
}

impl Refusal {
    fn new(errno: u32, message: impl Into<String>) -> Refusal {
        Refusal {
            errno,
            message: message.into(),
        }
    }
}

/// What the client of a request may ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rights {
    pub(crate) size_bytes: u64,
    pub(crate) structured: bool,
    pub(crate) block_status: bool,
}

impl Request {
    /// `None` where the bytes do not start with the magic: nothing that follows can be understood.
    pub(crate) fn parse(bytes: &[u8; REQUEST_BYTES]) -> Option<Request> {
        fn field<const N: usize>(bytes: &[u8; REQUEST_BYTES], at: usize) -> [u8; N] {
            bytes[at..at + N].try_into().expect("inside the request")
        }
        if u32::from_be_bytes(field(bytes, 0)) != REQUEST_MAGIC {
            return None;
        }
        Some(Request {
            flags: u16::from_be_bytes(field(bytes, 4)),
            command: u16::from_be_bytes(field(bytes, 6)),
            cookie: u64::from_be_bytes(field(bytes, 8)),
            offset: u64::from_be_bytes(field(bytes, 16)),
            length: u32::from_be_bytes(field(bytes, 24)),
        })
    }

    /// Whether it is answered only when it is durable.
    pub(crate) fn is_synced(&self) -> bool {
        self.flags & command_flag::FUA != 0
    }

    /// Bytes of data that follow the request.
    pub(crate) fn payload_bytes(&self) -> u32 {
        match self.command {
            command::WRITE => self.length,
            _ => 0,
        }
    }

    /// What the request asks for, or why it is refused.
    pub(crate) fn classify(&self, rights: Rights) -> Result<Operation, Refusal> {
        let operation = match self.command {
            command::READ => Operation::Read,
            command::WRITE => Operation::Write,
            command::DISCONNECT => return Ok(Operation::Disconnect),
            command::FLUSH => Operation::Flush,
            command::TRIM => Operation::Trim,
            command::CACHE => Operation::Cache,
            command::WRITE_ZEROES => Operation::WriteZeroes {
                no_hole: self.flags & command_flag::NO_HOLE != 0,
            },
            command::BLOCK_STATUS => Operation::BlockStatus {
                only_one: self.flags & command_flag::REQ_ONE != 0,
            },
            command::RESIZE => {
                return Err(Refusal::new(
                    errno::ENOTSUP,
                    "an export cannot be resized by its clients; resize the volume at the server",
                ));
            }
            other => {
                return Err(Refusal::new(
                    errno::EINVAL,
                    format!("there is no command {other}"),
                ));
            }
        };
        self.check_flags(operation, rights)?;
        self.check_range(operation, rights.size_bytes)?;
        Ok(operation)
    }

    fn check_flags(&self, operation: Operation, rights: Rights) -> Result<(), Refusal> {
        // Clients are known to set FUA on everything, and it harms nothing.
        let allowed = command_flag::FUA
            | match operation {
                Operation::Read if rights.structured => command_flag::DF,
                Operation::WriteZeroes { .. } => command_flag::NO_HOLE,
                Operation::BlockStatus { .. } => command_flag::REQ_ONE,
                _ => 0,
            };
        if self.flags & !allowed != 0 {
            return Err(Refusal::new(
                errno::EINVAL,
                format!(
                    "flags {:#x} do not belong to command {}",
                    self.flags & !allowed,
                    self.command
                ),
            ));
        }
        if matches!(operation, Operation::BlockStatus { .. }) && !rights.block_status {
            return Err(Refusal::new(
                errno::EINVAL,
                "no metadata context was negotiated",
            ));
        }
        Ok(())
    }

    fn check_range(&self, operation: Operation, size_bytes: u64) -> Result<(), Refusal> {
        let has_data = matches!(operation, Operation::Read | Operation::Write);
        if operation == Operation::Flush {
            // Offset and length are reserved; what stands there is no reason to keep data unflushed.
            return Ok(());
        }
        if has_data && self.length > PAYLOAD_BYTES_MAX {
            return Err(Refusal::new(
                errno::EINVAL,
                format!(
                    "{} bytes are more than a request may have ({PAYLOAD_BYTES_MAX})",
                    self.length
                ),
            ));
        }
        if matches!(operation, Operation::BlockStatus { .. }) && self.length == 0 {
            return Err(Refusal::new(errno::EINVAL, "the status of no bytes"));
        }
        let end = self.offset.checked_add(u64::from(self.length));
        if end.is_none_or(|end| end > size_bytes) {
            let number = match operation {
                Operation::Write | Operation::WriteZeroes { .. } => errno::ENOSPC,
                _ => errno::EINVAL,
            };
            return Err(Refusal::new(
                number,
                format!(
                    "{} bytes at byte {} reach past the end of the export ({size_bytes} bytes)",
                    self.length, self.offset
                ),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHTS: Rights = Rights {
        size_bytes: 1 << 20,
        structured: true,
        block_status: true,
    };

    fn request(command: u16, flags: u16, offset: u64, length: u32) -> Request {
        Request {
            flags,
            command,
            cookie: 7,
            offset,
            length,
        }
    }

    #[test]
    fn a_request_is_read_field_by_field() {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[5] = 1;
        bytes[7] = 6;
        bytes[15] = 7;
        bytes[23] = 8;
        bytes[27] = 9;
        assert_eq!(Request::parse(&bytes), Some(request(6, 1, 8, 9)));
        bytes[0] ^= 1;
        assert_eq!(Request::parse(&bytes), None);
    }

    #[test]
    fn what_reaches_past_the_end_is_refused_as_the_protocol_says() {
        for (command, number) in [(0, 22), (1, 28), (4, 22), (5, 22), (6, 28), (7, 22)] {
            for (offset, length) in [
                (1 << 20, 1),
                ((1 << 20) - 1, 2),
                (u64::MAX, 1),
                (u64::MAX, 0),
            ] {
                let refused = request(command, 0, offset, length)
                    .classify(RIGHTS)
                    .unwrap_err();
                assert_eq!(refused.errno, number, "command {command} at {offset}");
            }
            if command != 7 {
                request(command, 0, 1 << 20, 0).classify(RIGHTS).unwrap();
            }
            request(command, 0, 0, 1 << 20).classify(RIGHTS).unwrap();
        }
    }

    #[test]
    fn what_is_too_long_or_unknown_is_refused() {
        let huge = Rights {
            size_bytes: 1 << 40,
            ..RIGHTS
        };
        for (command, flags, length, number) in [
            (0, 0, (32 << 20) + 1, 22),
            (1, 0, u32::MAX, 22),
            (8, 0, 0, 95),
            (9, 0, 0, 22),
            (0, command_flag::NO_HOLE, 1, 22),
            (1, command_flag::DF, 1, 22),
            (6, 1 << 4, 1, 22),
            (1, 1 << 5, 1, 22),
            (7, 0, 0, 22),
        ] {
            let refused = request(command, flags, 0, length)
                .classify(huge)
                .unwrap_err();
            assert_eq!(refused.errno, number, "command {command} flags {flags}");
        }
        for command in [4, 5, 6, 7] {
            request(command, 1, 0, u32::MAX).classify(huge).unwrap();
        }
    }
}
