//! Reads that wait in the kernel: any thread queues some, and one takes those that have come.
//!
//! By Linux's asynchronous I/O (`io_submit`) and not by an io_uring: a ring completes a read as work of the thread that
//! submitted it, which sleeps for its client's next request here and would be woken for each, or else lets one thread alone
//! submit. This has neither: a completion wakes the thread that waits for completions.
#![allow(unsafe_code)] // The kernel is given the addresses of buffers, and libc has no calls for it.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::fstatfs;

/// Operations of `struct iocb`.
const READ: u16 = 0;
const POLL: u16 = 5;

/// Names the completion that says that no more reads come; no read has this number.
const END: u64 = u64::MAX;

/// Completions taken with one call.
const BATCH: usize = 32;

/// File systems whose direct reads return before they are done (`statfs`): ext4 and XFS. Others may carry one out in the call
/// that queues it, which would hold up the thread that does.
const ASYNCHRONOUS: [u64; 2] = [0xEF53, 0x5846_5342];

/// Whether the file lies where direct reads are carried out behind the caller's back.
pub(super) fn is_asynchronous(file: &File) -> bool {
    fstatfs(file).is_ok_and(|found| ASYNCHRONOUS.contains(&(found.f_type as u64)))
}

/// `struct iocb`. The two halves of the second field change places with the order of bytes; both are 0.
#[repr(C)]
#[derive(Default)]
struct ControlBlock {
    data: u64,
    key_and_flags: [u32; 2],
    operation: u16,
    priority: i16,
    descriptor: u32,
    buffer: u64,
    length: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_descriptor: u32,
}
const _: () = assert!(size_of::<ControlBlock>() == 64);

/// `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    object: u64,
    result: i64,
    result2: i64,
}
const _: () = assert!(size_of::<Event>() == 32);

/// A read to be queued.
pub(crate) struct QueuedRead {
    /// Names it when it is done.
    pub(crate) number: usize,
    /// An open file, with `O_DIRECT`.
    pub(crate) file: RawFd,
    pub(crate) offset: u64,
    pub(crate) buffer: *mut u8,
    pub(crate) len: usize,
}

/// A read that is done.
pub(crate) struct ReadDone {
    pub(crate) number: usize,
    /// Bytes read.
    pub(crate) result: io::Result<usize>,
}

/// The kernel's side of it.
pub(crate) struct ReadContext {
    context: libc::c_ulong,
    /// Readable once no more reads come.
    ended: OwnedFd,
}

impl ReadContext {
    /// For so many reads at a time at most.
    ///
    /// # Errors
    /// The kernel's: it has none, or `fs.aio-max-nr` is used up.
    pub(crate) fn new(reads_max: usize) -> io::Result<ReadContext> {
        let ended = eventfd(0, EventfdFlags::CLOEXEC)?;
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel stores the context's name where the second argument points.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, reads_max + 1, &raw mut context) };
        if made != 0 {
            return Err(io::Error::last_os_error());
        }
        let context = ReadContext { context, ended };
        let end = ControlBlock {
            data: END,
            operation: POLL,
            descriptor: context.ended.as_raw_fd() as u32,
            buffer: libc::POLLIN as u64,
            ..ControlBlock::default()
        };
        // Where it is refused (a filter of system calls may), no read would ever be answered.
        match context.take_events(0, &mut []) {
            // A signal came first: it is there all the same.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            taken => taken?,
        };
        // SAFETY: a poll names no memory.
        match unsafe { context.submit_blocks(&[end]) }? {
            1 => Ok(context),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Queues reads, in the order given; returns how many the kernel took, at least one.
    ///
    /// # Safety
    /// The buffers of those that were taken are the kernel's until [`ReadContext::wait`] has named them or this is dropped.
    ///
    /// # Errors
    /// The kernel's, where it took none.
    pub(crate) unsafe fn submit(&self, reads: &[QueuedRead]) -> io::Result<usize> {
        let block_of = |read: &QueuedRead| ControlBlock {
            data: read.number as u64,
            operation: READ,
            descriptor: read.file as u32,
            buffer: read.buffer.addr() as u64,
            length: read.len as u64,
            offset: read.offset as i64,
            ..ControlBlock::default()
        };
        let blocks: Vec<ControlBlock> = reads.iter().map(block_of).collect();
        // SAFETY: the caller's promise.
        unsafe { self.submit_blocks(&blocks) }
    }

    /// # Safety
    /// As [`ReadContext::submit`].
    unsafe fn submit_blocks(&self, blocks: &[ControlBlock]) -> io::Result<usize> {
        let pointers: Vec<*const ControlBlock> = blocks.iter().map(std::ptr::from_ref).collect();
        // SAFETY: the kernel copies the blocks during the call; what they name is the caller's promise.
        let taken = unsafe {
            libc::syscall(
                libc::SYS_io_submit,
                self.context,
                pointers.len(),
                pointers.as_ptr(),
            )
        };
        usize::try_from(taken).map_err(|_| io::Error::last_os_error())
    }

    /// Waits for at least one completion and adds those that have come; whether reads may still be queued.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn wait(&self, done: &mut Vec<ReadDone>) -> io::Result<bool> {
        let mut events = [Event::default(); BATCH];
        let count = match self.take_events(1, &mut events) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            taken => taken?,
        };
        let reads = events[..count].iter().filter(|event| event.data != END);
        done.extend(reads.map(|event| {
            ReadDone {
                number: event.data as usize,
                result: usize::try_from(event.result)
                    .map_err(|_| io::Error::from_raw_os_error(-event.result as i32)),
            }
        }));
        Ok(events[..count].iter().all(|event| event.data != END))
    }

    /// Stores completions, and waits until there are so many.
    fn take_events(&self, events_min: usize, events: &mut [Event]) -> io::Result<usize> {
        // SAFETY: the kernel stores at most so many events where it is told, and returns how many.
        let count = unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.context,
                events_min,
                events.len(),
                events.as_mut_ptr(),
                std::ptr::null::<libc::timespec>(),
            )
        };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }

    /// Has [`ReadContext::wait`] say, once, that no more reads are queued.
    pub(crate) fn end(&self) {
        let written = rustix::io::write(&self.ended, &1_u64.to_ne_bytes());
        assert_eq!(written, Ok(8), "a counter of events takes one more");
    }
}

impl Drop for ReadContext {
    fn drop(&mut self) {
        // It returns when no read is under way any more, so that their buffers may go.
        // SAFETY: this context, which nothing uses any more.
        let destroyed = unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
        assert_eq!(destroyed, 0, "the context was made by this process");
    }
}
