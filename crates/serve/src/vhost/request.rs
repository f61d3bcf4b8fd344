//! One request out of a chain of descriptors: validated whole before any of it is carried out.
//!
//! Guarantees: every byte that a [`Request`] names lies in the guest's memory; a chain that loops,
//! breaks off, mixes its directions or points elsewhere is no request.

use virtio_bindings::bindings::virtio_blk::{
    VIRTIO_BLK_T_DISCARD, VIRTIO_BLK_T_FLUSH, VIRTIO_BLK_T_GET_ID, VIRTIO_BLK_T_IN,
    VIRTIO_BLK_T_OUT, VIRTIO_BLK_T_WRITE_ZEROES,
};
use virtio_queue::DescriptorChain;
use virtio_queue::desc::split::Descriptor;
use vm_memory::{Bytes, GuestAddress, GuestMemory as _, Permissions};

use crate::vhost::memory::{GuestMemory, MappedMemory};

/// Bytes of the header: the request's type, a reserved word, and the sector.
const HEADER_BYTES: usize = 16;

/// Pieces of memory in one request; guests are told far fewer.
const SEGMENTS_MAX: usize = 1026;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Read,
    Write,
    Flush,
    Discard,
    WriteZeroes,
    GetSerial,
    Unknown,
}

impl Operation {
    fn of(code: u32) -> Operation {
        match code {
            VIRTIO_BLK_T_IN => Operation::Read,
            VIRTIO_BLK_T_OUT => Operation::Write,
            VIRTIO_BLK_T_FLUSH => Operation::Flush,
            VIRTIO_BLK_T_DISCARD => Operation::Discard,
            VIRTIO_BLK_T_WRITE_ZEROES => Operation::WriteZeroes,
            VIRTIO_BLK_T_GET_ID => Operation::GetSerial,
            _ => Operation::Unknown,
        }
    }
}

/// A piece of the guest's memory, never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) address: GuestAddress,
    pub(crate) bytes: u32,
}

/// A request that can be carried out or refused.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Its chain's name, given back with the answer.
    pub(crate) head: u16,
    pub(crate) operation: Operation,
    /// First sector, of 512 bytes.
    pub(crate) sector: u64,
    /// Where the data is or is to go, header and status apart.
    pub(crate) data: Vec<Segment>,
    /// Bytes of the data.
    pub(crate) data_bytes: u64,
    /// Where the status byte goes.
    pub(crate) status: GuestAddress,
    /// Bytes of the chain that the guest may expect to be written, the status among them.
    pub(crate) writable_bytes: u32,
}

/// A chain that is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// Its name.
    pub(crate) head: u16,
    /// Where a status byte can be put, if anywhere.
    pub(crate) status: Option<GuestAddress>,
}

/// The memory of a chain by direction.
#[derive(Default)]
struct Parts {
    readable: Vec<Segment>,
    writable: Vec<Segment>,
    readable_bytes: u64,
    writable_bytes: u64,
}

impl Request {
    /// Reads a chain.
    ///
    /// # Errors
    /// It is no request.
    pub(crate) fn parse(
        chain: DescriptorChain<&MappedMemory>,
        memory: &GuestMemory,
    ) -> Result<Request, Malformed> {
        let head = chain.head_index();
        let mut parts = Parts::default();
        let is_whole = parts.gather(chain, memory);
        let status = parts.take_status();
        let malformed = Malformed { head, status };
        let (true, Some(status)) = (is_whole, status) else {
            return Err(malformed);
        };
        let (code, sector) = parts.take_header(memory).ok_or(malformed)?;
        let operation = Operation::of(code);
        let writable_bytes = u32::try_from(parts.writable_bytes + 1).map_err(|_| malformed)?;
        let (mut data, data_bytes) = match operation {
            Operation::Read | Operation::GetSerial => (parts.writable, parts.writable_bytes),
            _ => (parts.readable, parts.readable_bytes),
        };
        // It may wait for a worker, together with as many others as the queue has entries.
        data.shrink_to_fit();
        Ok(Request {
            head,
            operation,
            sector,
            data,
            data_bytes,
            status,
            writable_bytes,
        })
    }
}

impl Parts {
    /// Sorts the chain's memory; false where the chain is broken.
    fn gather(&mut self, chain: DescriptorChain<&MappedMemory>, memory: &GuestMemory) -> bool {
        let mut has_next = true;
        let mut count = 0;
        for descriptor in chain {
            has_next = Descriptor::has_next(&descriptor);
            count += 1;
            if count > SEGMENTS_MAX || !self.add(&descriptor, memory) {
                return false;
            }
        }
        // A chain that was cut short, by a loop for example, ends with one that names another.
        !has_next
    }

    fn add(&mut self, descriptor: &Descriptor, memory: &GuestMemory) -> bool {
        let segment = Segment {
            address: descriptor.addr(),
            bytes: descriptor.len(),
        };
        if segment.bytes == 0 {
            return true;
        }
        let is_write = descriptor.is_write_only();
        let access = match is_write {
            true => Permissions::Write,
            false => Permissions::Read,
        };
        let is_in_memory = memory.check_range(segment.address, segment.bytes as usize, access);
        let is_in_order = is_write || self.writable.is_empty();
        if !is_in_memory || !is_in_order {
            return false;
        }
        if is_write {
            self.writable.push(segment);
            self.writable_bytes += u64::from(segment.bytes);
        } else {
            self.readable.push(segment);
            self.readable_bytes += u64::from(segment.bytes);
        }
        true
    }

    /// The last writable byte, which is the status.
    fn take_status(&mut self) -> Option<GuestAddress> {
        let last = self.writable.last_mut()?;
        last.bytes -= 1;
        self.writable_bytes -= 1;
        let address = GuestAddress(last.address.0 + u64::from(last.bytes));
        if last.bytes == 0 {
            self.writable.pop();
        }
        Some(address)
    }

    /// The first readable bytes, which are the header: the request's type, and the sector.
    fn take_header(&mut self, memory: &GuestMemory) -> Option<(u32, u64)> {
        let mut header = [0; HEADER_BYTES];
        let mut filled = 0;
        let mut used_up = 0;
        for segment in &mut self.readable {
            let count = (segment.bytes as usize).min(HEADER_BYTES - filled);
            let part = &mut header[filled..filled + count];
            memory.read_slice(part, segment.address).ok()?;
            filled += count;
            segment.address.0 += count as u64;
            segment.bytes -= count as u32;
            if segment.bytes > 0 {
                break;
            }
            used_up += 1;
            if filled == HEADER_BYTES {
                break;
            }
        }
        if filled < HEADER_BYTES {
            return None;
        }
        self.readable.drain(..used_up);
        self.readable_bytes -= HEADER_BYTES as u64;
        let (code, rest) = header.split_first_chunk::<4>()?;
        let (_, sector) = rest.split_first_chunk::<4>()?;
        let sector: &[u8; 8] = sector.first_chunk()?;
        Some((u32::from_le_bytes(*code), u64::from_le_bytes(*sector)))
    }
}

/// Copies the request's data from byte `start` on into `out`. The guest may change its memory at any
/// time; what was copied stays as it is.
pub(crate) fn copy_in(
    data: &[Segment],
    memory: &GuestMemory,
    start: u64,
    out: &mut [u8],
) -> Result<(), vm_memory::GuestMemoryError> {
    let mut done = 0;
    visit(data, start, out.len(), |address, count| {
        memory.read_slice(&mut out[done..done + count], address)?;
        done += count;
        Ok::<(), vm_memory::GuestMemoryError>(())
    })?;
    match memory.is_lost() {
        // What was copied may not be the guest's data, and must not be stored.
        true => Err(vm_memory::GuestMemoryError::InvalidBackendAddress),
        false => Ok(()),
    }
}

/// Copies `bytes` to the request's data from byte `start` on.
pub(crate) fn copy_out(
    data: &[Segment],
    memory: &GuestMemory,
    start: u64,
    bytes: &[u8],
) -> Result<(), vm_memory::GuestMemoryError> {
    let mut done = 0;
    visit(data, start, bytes.len(), |address, count| {
        memory.write_slice(&bytes[done..done + count], address)?;
        done += count;
        Ok(())
    })
}

/// Calls `each` with the pieces of `count` bytes from byte `start` on.
fn visit<E>(
    data: &[Segment],
    start: u64,
    count: usize,
    mut each: impl FnMut(GuestAddress, usize) -> Result<(), E>,
) -> Result<(), E> {
    let mut skip = start;
    let mut left = count;
    for segment in data {
        let bytes = u64::from(segment.bytes);
        if skip >= bytes {
            skip -= bytes;
            continue;
        }
        if left == 0 {
            break;
        }
        let piece = ((bytes - skip) as usize).min(left);
        each(GuestAddress(segment.address.0 + skip), piece)?;
        left -= piece;
        skip = 0;
    }
    Ok(())
}
