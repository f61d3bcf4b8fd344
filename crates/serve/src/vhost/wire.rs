//! Messages on the socket: a header, a short payload, sometimes file descriptors.
//!
//! Guarantees: a length above [`PAYLOAD_BYTES_MAX`] is refused; descriptors that came with an
//! unknown message are closed. Why it is not the `vhost` crate's: `docs/inside/front-ends.md`.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// What the protocol's messages are called, by number.
pub(crate) mod code {
    pub(crate) const GET_FEATURES: u32 = 1;
    pub(crate) const SET_FEATURES: u32 = 2;
    pub(crate) const SET_OWNER: u32 = 3;
    pub(crate) const RESET_OWNER: u32 = 4;
    pub(crate) const SET_MEM_TABLE: u32 = 5;
    pub(crate) const SET_VRING_NUM: u32 = 8;
    pub(crate) const SET_VRING_ADDR: u32 = 9;
    pub(crate) const SET_VRING_BASE: u32 = 10;
    pub(crate) const GET_VRING_BASE: u32 = 11;
    pub(crate) const SET_VRING_KICK: u32 = 12;
    pub(crate) const SET_VRING_CALL: u32 = 13;
    pub(crate) const SET_VRING_ERR: u32 = 14;
    pub(crate) const GET_PROTOCOL_FEATURES: u32 = 15;
    pub(crate) const SET_PROTOCOL_FEATURES: u32 = 16;
    pub(crate) const GET_QUEUE_NUM: u32 = 17;
    pub(crate) const SET_VRING_ENABLE: u32 = 18;
    pub(crate) const SET_BACKEND_REQ_FD: u32 = 21;
    pub(crate) const GET_CONFIG: u32 = 24;
    pub(crate) const SET_CONFIG: u32 = 25;
    pub(crate) const RESET_DEVICE: u32 = 34;
    pub(crate) const GET_MAX_MEM_SLOTS: u32 = 36;
    pub(crate) const ADD_MEM_REG: u32 = 37;
    pub(crate) const REM_MEM_REG: u32 = 38;
}

/// Bytes of a header: what, flags, bytes that follow.
const HEADER_BYTES: usize = 12;

/// The longest payload: more than any message has.
const PAYLOAD_BYTES_MAX: usize = 4096;

/// Descriptors that come with one message at most, by the protocol.
const DESCRIPTORS_MAX: usize = 8;

const VERSION: u32 = 1;
const VERSION_MASK: u32 = 3;
const FLAG_REPLY: u32 = 1 << 2;
const FLAG_NEED_REPLY: u32 = 1 << 3;

/// One message from the client.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) code: u32,
    pub(crate) needs_reply: bool,
    pub(crate) payload: Vec<u8>,
    pub(crate) descriptors: Vec<OwnedFd>,
}

/// The numbers of a payload, one after the other, in this machine's byte order.
pub(crate) struct Numbers<'p>(&'p [u8]);

impl<'p> Numbers<'p> {
    pub(crate) fn of(payload: &'p [u8]) -> Numbers<'p> {
        Numbers(payload)
    }

    fn take<const BYTES: usize>(&mut self) -> io::Result<[u8; BYTES]> {
        let (number, rest) = self.0.split_first_chunk().ok_or_else(too_short)?;
        self.0 = rest;
        Ok(*number)
    }

    pub(crate) fn u32(&mut self) -> io::Result<u32> {
        self.take().map(u32::from_ne_bytes)
    }

    pub(crate) fn u64(&mut self) -> io::Result<u64> {
        self.take().map(u64::from_ne_bytes)
    }

    /// What is left.
    pub(crate) fn rest(&self) -> &'p [u8] {
        self.0
    }
}

fn too_short() -> io::Error {
    invalid("a message is shorter than its kind is")
}

/// What the client did wrong.
pub(crate) fn invalid(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

/// The next message; `None` where the client has gone.
///
/// # Errors
/// The socket, or what came is no message.
pub(crate) fn receive(stream: &UnixStream) -> io::Result<Option<Message>> {
    let mut header = [0; HEADER_BYTES];
    let mut descriptors = Vec::new();
    let mut filled = 0;
    while filled < HEADER_BYTES {
        match receive_part(stream, &mut header[filled..], &mut descriptors)? {
            0 if filled == 0 => return Ok(None),
            0 => return Err(invalid("the client left in the midst of a message")),
            count => filled += count,
        }
    }
    let mut numbers = Numbers::of(&header);
    let (code, flags, bytes) = (numbers.u32()?, numbers.u32()?, numbers.u32()? as usize);
    if flags & VERSION_MASK != VERSION || flags & FLAG_REPLY != 0 {
        return Err(invalid(format!(
            "message {code} has flags {flags:#x}, which no request has"
        )));
    }
    if bytes > PAYLOAD_BYTES_MAX {
        return Err(invalid(format!(
            "message {code} says that {bytes} bytes follow; it may have {PAYLOAD_BYTES_MAX}"
        )));
    }
    let mut payload = vec![0; bytes];
    let mut filled = 0;
    while filled < bytes {
        match receive_part(stream, &mut payload[filled..], &mut descriptors)? {
            0 => return Err(invalid("the client left in the midst of a message")),
            count => filled += count,
        }
    }
    Ok(Some(Message {
        code,
        needs_reply: flags & FLAG_NEED_REPLY != 0,
        payload,
        descriptors,
    }))
}

fn receive_part(
    stream: &UnixStream,
    bytes: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut slices = [IoSliceMut::new(bytes)];
        match recvmsg(stream, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            other => break other?,
        }
    };
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if received.flags.contains(ReturnFlags::CTRUNC) || descriptors.len() > DESCRIPTORS_MAX {
        return Err(invalid(
            "a message has more descriptors than the protocol allows",
        ));
    }
    Ok(received.bytes)
}

/// Answers a message.
///
/// # Errors
/// The socket.
pub(crate) fn reply(
    stream: &UnixStream,
    code: u32,
    payload: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
    for number in [code, VERSION | FLAG_REPLY, payload.len() as u32] {
        bytes.extend(number.to_ne_bytes());
    }
    bytes.extend(payload);
    let descriptors: Vec<BorrowedFd<'_>> = descriptor.into_iter().collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    let mut sent = 0;
    while sent < bytes.len() {
        let slices = [io::IoSlice::new(&bytes[sent..])];
        match sendmsg(stream.as_fd(), &slices, &mut ancillary, SendFlags::NOSIGNAL) {
            Ok(count) => {
                sent += count;
                // They went with the first byte.
                ancillary.clear();
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
