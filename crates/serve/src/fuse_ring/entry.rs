//! One entry of a queue: memory that the kernel puts one request at a time into and takes its answer from, and
//! the io_uring by which both sides say so.
//!
//! One thread has an entry and its ring. The kernel touches the memory only while that thread is in
//! [`Entry::register`] or [`Entry::wait`]: it copies a request when the thread waits, since it does so as work
//! of that thread, and an answer when the thread submits it. In between the memory is the thread's own.
#![allow(unsafe_code)] // The kernel is given the memory's address, and a field of a submission is set by its place.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::time::Duration;

use io_uring::squeue::Entry128;
use io_uring::{IoUring, opcode, types};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::wire::Fields;

/// `FUSE_IO_URING_CMD_REGISTER`: here is an entry, and its memory.
const REGISTER: u32 = 1;

/// `FUSE_IO_URING_CMD_COMMIT_AND_FETCH`: here is the answer, and the entry is free for the next request.
const COMMIT_AND_FETCH: u32 = 2;

/// Where `struct fuse_uring_req_header` has what: the request's or the answer's header, the first structure of
/// a request, and what is said of the payload.
const HEADER_AT: usize = 0;
const ARGUMENTS_AT: usize = 128;
const ARGUMENTS_BYTES: usize = 128;
const COMMIT_ID_AT: usize = 256 + 8;
const PAYLOAD_BYTES_AT: usize = 256 + 16;
const HEADERS_BYTES: usize = 256 + 32;

/// Where the two pieces of memory are described that an entry is registered with, beside the headers.
const PIECES_AT: usize = 512;
const PIECES_BYTES: usize = 2 * size_of::<libc::iovec>();

/// The payload begins at a page, so that the kernel copies whole ones.
const PAYLOAD_AT: usize = 4096;
const _: () = assert!(HEADERS_BYTES <= PIECES_AT && PIECES_AT + PIECES_BYTES <= PAYLOAD_AT);

/// Where `struct io_uring_sqe` has the length, which an entry is registered with: two pieces of memory.
const SUBMISSION_LENGTH_AT: usize = 24;
const PIECES: u32 = 2;
const _: () = assert!(size_of::<Entry128>() == 128);

/// Pause before asking again where the kernel is short of memory.
const RETRY_PAUSE: Duration = Duration::from_millis(1);

/// See the module.
pub struct Entry {
    /// Before the memory, which the kernel may use for as long as there is a ring.
    ring: IoUring<Entry128>,
    memory: Memory,
    device: types::Fd,
    queue: u16,
    /// System calls that waited for a request or told of an answer.
    calls: u64,
}

/// A request in an entry's memory.
#[derive(Debug)]
pub struct Request<'a> {
    /// What is asked for, one of [`super::opcode`].
    pub opcode: u32,
    /// Of what, or in which directory.
    pub inode: u64,
    /// The caller's user.
    pub user: u32,
    /// The caller's group.
    pub group: u32,
    /// Its first structure, where the operation has one.
    pub arguments: Fields<'a>,
    /// How much of the payload is the request's.
    pub given: usize,
    /// What follows the structure, and where the answer goes.
    pub payload: &'a mut [u8],
}

impl Entry {
    /// An entry of `queue`, for payloads of as many bytes. Made by the thread that has it: the ring has no other.
    ///
    /// # Errors
    /// The kernel has no such ring, or forbids it.
    pub fn new(device: BorrowedFd<'_>, queue: u16, payload_bytes: usize) -> io::Result<Entry> {
        Ok(Entry {
            ring: Entry::ring()?,
            memory: Memory::new(PAYLOAD_AT + payload_bytes)?,
            device: types::Fd(device.as_raw_fd()),
            queue,
            calls: 0,
        })
    }

    /// A ring for one thing at a time, whose completions come only while its thread waits for them.
    fn ring() -> io::Result<IoUring<Entry128>> {
        IoUring::<Entry128>::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(1)
    }

    /// Whether there can be such rings.
    ///
    /// # Errors
    /// Why not.
    pub fn probe() -> io::Result<()> {
        Entry::ring().map(drop)
    }

    /// Gives it to the kernel: from here on requests come.
    ///
    /// # Errors
    /// The kernel does not take it; then it takes none of this mount.
    pub fn register(&mut self) -> io::Result<()> {
        let pieces = self.memory.describe();
        let mut submission = self.submission(REGISTER, 0, Some(pieces as u64));
        // SAFETY: an `Entry128` is the kernel's structure of 128 bytes (checked above), without padding that
        // matters, and these four are its length.
        unsafe {
            let length = (&raw mut submission).cast::<u8>().add(SUBMISSION_LENGTH_AT);
            length.cast::<u32>().write_unaligned(PIECES);
        }
        self.push(&submission);
        // What the kernel does not take it says at once.
        self.ring.submit()?;
        let told = self.ring.completion().next();
        let Some(refused) = told.map(|completion| completion.result()) else {
            return Ok(());
        };
        assert!(refused < 0, "a request comes only to a thread that waits");
        Err(io::Error::from_raw_os_error(-refused))
    }

    /// Waits for the next request; what was answered before is told in the same system call.
    ///
    /// # Errors
    /// The mount has ended, or the kernel does not take the answer: this entry gets no more.
    pub fn wait(&mut self) -> io::Result<()> {
        loop {
            let told = self.ring.completion().next();
            match told.map(|completion| completion.result()) {
                Some(0..) => return Ok(()),
                Some(result) => return Err(io::Error::from_raw_os_error(-result)),
                None => self.calls += 1,
            }
            // The kernel holds the entry, and may be putting a request into it: whatever goes wrong here, a thread
            // that went would take the request with it.
            if let Err(error) = self.ring.submit_and_wait(1)
                && error.kind() != io::ErrorKind::Interrupted
            {
                tracing::debug!(%error, "the kernel's io_uring is asked again");
                std::thread::sleep(RETRY_PAUSE);
            }
        }
    }

    /// The request that [`Entry::wait`] waited for.
    ///
    /// # Errors
    /// It says that it is longer than its memory.
    pub fn request(&mut self) -> io::Result<Request<'_>> {
        let (headers, payload) = self.memory.bytes().split_at_mut(PAYLOAD_AT);
        let mut header = Fields::new(&headers[HEADER_AT..ARGUMENTS_AT]);
        let _length = header.u32()?;
        let opcode = header.u32()?;
        let _unique = header.u64()?;
        let given = Fields::new(&headers[PAYLOAD_BYTES_AT..]).u32()? as usize;
        if given > payload.len() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        Ok(Request {
            opcode,
            inode: header.u64()?,
            user: header.u32()?,
            group: header.u32()?,
            arguments: Fields::new(&headers[ARGUMENTS_AT..ARGUMENTS_AT + ARGUMENTS_BYTES]),
            given,
            payload,
        })
    }

    /// Answers the request: with so much of the payload, or an error of this number. The kernel is told by the
    /// next [`Entry::wait`].
    pub fn answer(&mut self, answer: Result<usize, i32>) {
        let headers = self.memory.bytes();
        let mut commit_id = [0; size_of::<u64>()];
        commit_id.copy_from_slice(&headers[COMMIT_ID_AT..COMMIT_ID_AT + size_of::<u64>()]);
        let (length, error) = match answer {
            Ok(length) => (length as u32, 0),
            Err(number) => (0, -number.abs()),
        };
        // `struct fuse_out_header`: the whole length, an error, and the request's number, which stands there.
        headers[HEADER_AT..4].copy_from_slice(&(16 + length).to_ne_bytes());
        headers[4..8].copy_from_slice(&error.to_ne_bytes());
        headers[PAYLOAD_BYTES_AT..PAYLOAD_BYTES_AT + 4].copy_from_slice(&length.to_ne_bytes());
        let commit_id = u64::from_ne_bytes(commit_id);
        let submission = self.submission(COMMIT_AND_FETCH, commit_id, None);
        self.push(&submission);
    }

    /// System calls so far that waited for a request or told of an answer.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    fn submission(&self, command: u32, commit_id: u64, pieces: Option<u64>) -> Entry128 {
        // `struct fuse_uring_cmd_req`: flags, the request's number, the queue.
        let mut body = [0; 80];
        body[8..16].copy_from_slice(&commit_id.to_ne_bytes());
        body[16..18].copy_from_slice(&self.queue.to_ne_bytes());
        opcode::UringCmd80::new(self.device, command)
            .cmd(body)
            .addr(pieces)
            .build()
    }

    fn push(&mut self, submission: &Entry128) {
        // SAFETY: the kernel copies the submission during the call that submits it, but what that describes it may look at
        // later: it copies the pieces of a registration when it carries that out, which a thread of its own may do after
        // the call, and uses the memory that they name until it has said that the entry is gone, or the ring is. All of
        // that lies in this entry's memory, which is given back after the ring.
        let pushed = unsafe { self.ring.submission().push(submission) };
        pushed.expect("an entry submits one thing at a time");
    }
}

/// Zeroed pages, which cost nothing until they are used.
struct Memory {
    start: NonNull<u8>,
    length: usize,
}

/// Two pieces of the memory, as the kernel is told of them.
type Pieces = [libc::iovec; PIECES as usize];

// SAFETY: the pages belong to this value alone.
unsafe impl Send for Memory {}

impl Memory {
    fn new(length: usize) -> io::Result<Memory> {
        let (rights, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping at a place of the kernel's choice.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), length, rights, flags)? };
        let start = NonNull::new(start.cast()).expect("a mapping is never at 0");
        Ok(Memory { start, length })
    }

    /// Writes down, in the memory itself, where its headers and its payload are.
    fn describe(&mut self) -> *const Pieces {
        let start = self.start.as_ptr();
        // SAFETY: the memory is longer than `PAYLOAD_AT`, and begins at a page, so that what is written at `PIECES_AT` is
        // within it, aligned, and apart from headers and payload (checked above).
        unsafe {
            let pieces = start.add(PIECES_AT).cast::<Pieces>();
            pieces.write([
                libc::iovec {
                    iov_base: start.cast(),
                    iov_len: HEADERS_BYTES,
                },
                libc::iovec {
                    iov_base: start.add(PAYLOAD_AT).cast(),
                    iov_len: self.length - PAYLOAD_AT,
                },
            ]);
            pieces
        }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: mapped and zeroed at first, for as long as this value lives; the kernel writes to it only while
        // the thread that has the entry waits, and so holds no slice of it (see the module).
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: this mapping, of which no slice is left.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
#[path = "entry_tests.rs"]
mod tests;
