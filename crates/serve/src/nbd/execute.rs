//! One request carried out: the device is asked, the reply is built.
//!
//! A write that is answered is durable, so FUA asks for nothing more and FLUSH has nothing to wait
//! for; it confirms that the device still keeps that promise. Where the device has a volatile cache, only a write with FUA is, and
//! FLUSH makes durable what was answered before it came, of any connection.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::allocator::{no_memory, zeroed};
use crate::block_device::{BlockDevice, DeviceError, ExtentState};
use crate::nbd::link::Link;
use crate::nbd::protocol::{STATE_HOLE, STATE_ZERO, errno};
use crate::nbd::reply::ReplyBuffer;
use crate::nbd::request::{Operation, Refusal, Request};
use crate::nbd::stats::{Tallies, count};

/// Zeroes written at once where a hole is not wanted, and bytes read at once to warm the cache.
const PIECE_BYTES: u64 = 1 << 20;

/// Extents in one reply; a client that wants to know more asks again.
const EXTENTS_MAX: usize = 4096;

/// Bytes of one reply's extents looked up at most: what a request may hold a worker up with.
const STATUS_BYTES_MAX: u64 = 1 << 30;

/// What requests are carried out on.
pub(crate) struct Executor<'e> {
    pub(crate) device: &'e dyn BlockDevice,
    pub(crate) structured: bool,
    pub(crate) tallies: &'e Tallies,
    pub(crate) link: &'e Link,
    /// The client no longer waits for answers.
    pub(crate) is_dead: &'e AtomicBool,
}

impl Executor<'_> {
    /// Carries out a request that has passed validation and adds its reply.
    pub(crate) fn execute(
        &self,
        request: &Request,
        operation: Operation,
        payload: &[u8],
        replies: &mut ReplyBuffer,
    ) {
        let mark = replies.used();
        let (offset, length) = (request.offset, u64::from(request.length));
        let result = match operation {
            Operation::Read => self.read(request, replies),
            Operation::Write => self.write(request, payload),
            Operation::Flush => {
                count(&self.tallies.flushes, 1);
                self.device.flush()
            }
            Operation::Trim => {
                count(&self.tallies.zeroings, 1);
                nonempty(length, || self.device.discard(offset, length))
            }
            Operation::WriteZeroes { no_hole } => {
                count(&self.tallies.zeroings, 1);
                nonempty(length, || match no_hole {
                    true => self.write_real_zeroes(offset, length),
                    false => self.device.write_zeroes(offset, length),
                })
            }
            Operation::Cache => self.warm(offset, length),
            Operation::BlockStatus { only_one } => self.block_status(request, only_one, replies),
            Operation::Disconnect => return,
        };
        match result {
            Ok(()) if replies.used() == mark => replies.simple(request.cookie, 0),
            Ok(()) => {}
            Err(error) => {
                replies.truncate(mark);
                self.refuse(request, &refusal_of(&error), replies);
            }
        }
    }

    /// Answers a request with an error.
    pub(crate) fn refuse(&self, request: &Request, refusal: &Refusal, replies: &mut ReplyBuffer) {
        count(&self.tallies.errors, 1);
        replies.error(request.cookie, refusal, self.structured);
    }

    fn read(&self, request: &Request, replies: &mut ReplyBuffer) -> Result<(), DeviceError> {
        count(&self.tallies.reads, 1);
        if request.length == 0 {
            if self.structured {
                replies.nothing(request.cookie);
            }
            return Ok(());
        }
        let data = replies.data(
            request.cookie,
            request.offset,
            request.length,
            self.structured,
        );
        let data = data.ok_or_else(|| no_memory(request.length as usize))?;
        self.device.read_at(request.offset, data)?;
        count(&self.tallies.read_bytes, u64::from(request.length));
        Ok(())
    }

    fn write(&self, request: &Request, payload: &[u8]) -> Result<(), DeviceError> {
        count(&self.tallies.writes, 1);
        let is_durable = request.is_synced() || !self.device.has_volatile_cache();
        nonempty(payload.len() as u64, || match is_durable {
            true => self.device.write_at(request.offset, payload),
            false => self.device.write_unsynced_at(request.offset, payload),
        })?;
        count(&self.tallies.written_bytes, payload.len() as u64);
        Ok(())
    }

    /// Calls `visit` with the pieces of a range, as long as an answer can reach the client and it
    /// returns true.
    fn in_pieces(
        &self,
        offset: u64,
        length: u64,
        mut visit: impl FnMut(u64, usize) -> Result<bool, DeviceError>,
    ) -> Result<(), DeviceError> {
        let end = offset + length;
        let mut at = offset;
        while at < end && !self.is_dead.load(Ordering::Relaxed) && !self.link.is_cut() {
            // Cut at multiples of the piece, so that no block is touched twice.
            let piece_end = end.min((at / PIECE_BYTES + 1) * PIECE_BYTES);
            if !visit(at, (piece_end - at) as usize)? {
                break;
            }
            at = piece_end;
        }
        Ok(())
    }

    fn write_real_zeroes(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        let zeroes = piece(length)?;
        self.in_pieces(offset, length, |at, count| {
            self.device.write_at(at, &zeroes[..count])?;
            Ok(true)
        })
    }

    /// Advice, which need not be followed to the end: an end must not wait for it.
    fn warm(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        count(&self.tallies.others, 1);
        let mut scratch = piece(length)?;
        self.in_pieces(offset, length, |at, count| {
            self.device.read_at(at, &mut scratch[..count])?;
            Ok(!self.link.is_ending())
        })
    }

    fn block_status(
        &self,
        request: &Request,
        only_one: bool,
        replies: &mut ReplyBuffer,
    ) -> Result<(), DeviceError> {
        count(&self.tallies.others, 1);
        let length = u64::from(request.length).min(STATUS_BYTES_MAX);
        let extents_max = if only_one { 1 } else { EXTENTS_MAX };
        let extents = self.device.extents(request.offset, length, extents_max)?;
        let described: Vec<(u32, u32)> = extents
            .iter()
            .map(|extent| (extent.length as u32, state_of(extent.state)))
            .collect();
        replies.block_status(request.cookie, &described);
        Ok(())
    }
}

/// Zeroes for a piece of a range of this length.
fn piece(length: u64) -> Result<Vec<u8>, DeviceError> {
    let bytes = PIECE_BYTES.min(length) as usize;
    Ok(zeroed(bytes).ok_or_else(|| no_memory(bytes))?)
}

fn state_of(state: ExtentState) -> u32 {
    match state {
        ExtentState::Data => 0,
        ExtentState::Zero => STATE_ZERO,
        ExtentState::Hole => STATE_HOLE | STATE_ZERO,
    }
}

/// A request for no bytes is done at once.
fn nonempty(
    length: u64,
    action: impl FnOnce() -> Result<(), DeviceError>,
) -> Result<(), DeviceError> {
    if length == 0 { Ok(()) } else { action() }
}

/// What a client is told of a device's error.
pub(crate) fn refusal_of(error: &DeviceError) -> Refusal {
    let number = match error.errno() {
        libc::ENOSPC => errno::ENOSPC,
        libc::EOPNOTSUPP => errno::ENOTSUP,
        libc::EINVAL => errno::EINVAL,
        libc::ENOMEM => errno::ENOMEM,
        _ => errno::EIO,
    };
    Refusal {
        errno: number,
        message: error.to_string(),
    }
}
