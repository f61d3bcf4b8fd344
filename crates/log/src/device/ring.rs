//! Many reads of one file at once by an io_uring.
//!
//! The kernel writes to the callers' memory while a read is under way, so [`Ring::read`] does not return before every read that it
//! handed over has come back, whatever goes wrong.

#![allow(
    unsafe_code,
    reason = "the kernel is given pointers to the callers' memory"
)]

use super::PageRead;
use crossbeam_queue::ArrayQueue;
use io_uring::{IoUring, Probe, opcode, types};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Reads under way at most.
pub(crate) const DEPTH: usize = 32;
/// While more reads wait to be handed over, the next ones are when so many have come back: one call for all of these.
const HANDED_OVER_AT_ONCE: usize = 8;
/// Rings that are kept for the next reader.
const KEPT: usize = 64;
/// Between two looks at a ring that takes no more calls.
const LOOK: Duration = Duration::from_millis(1);

/// A ring of [`DEPTH`] entries. None is under way while nobody reads.
struct Ring(IoUring);

/// How a call of [`Ring::read`] went.
struct Done {
    is_read: Vec<bool>,
    /// System calls.
    calls: u64,
    /// The ring may hold reads that were never taken: it is not to be used again.
    is_broken: bool,
}

impl Ring {
    fn new() -> io::Result<Ring> {
        let ring = IoUring::new(DEPTH as u32)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        match probe.is_supported(opcode::Read::CODE) {
            true => Ok(Ring(ring)),
            false => Err(io::Error::from(io::ErrorKind::Unsupported)),
        }
    }

    /// Reads all, and says which were read whole.
    fn read(&mut self, file: &File, reads: &mut [PageRead<'_>]) -> Done {
        let mut done = Done {
            is_read: vec![false; reads.len()],
            calls: 0,
            is_broken: false,
        };
        let (mut next, mut under_way) = (0, 0);
        while next < reads.len() || under_way > 0 {
            while under_way < DEPTH && next < reads.len() && self.push(file, &mut reads[next], next)
            {
                (next, under_way) = (next + 1, under_way + 1);
            }
            let awaited = match next < reads.len() {
                true => under_way.min(HANDED_OVER_AT_ONCE),
                false => under_way,
            };
            done.calls += 1;
            let called = self.0.submit_and_wait(awaited);
            if called.is_err_and(|error| !is_transient(&error)) {
                done.is_broken = true;
                let never_taken = self.0.submission().len();
                while under_way > never_taken {
                    std::thread::sleep(LOOK);
                    under_way -= self.reap(reads, &mut done.is_read);
                }
                break;
            }
            under_way -= self.reap(reads, &mut done.is_read);
        }
        done
    }

    /// Puts a read into the queue; false if that is full.
    fn push(&mut self, file: &File, read: &mut PageRead<'_>, number: usize) -> bool {
        let length = u32::try_from(read.out.len()).expect("a read is of a few pages");
        let entry = opcode::Read::new(types::Fd(file.as_raw_fd()), read.out.as_mut_ptr(), length);
        let entry = entry.offset(read.offset()).build().user_data(number as u64);
        // SAFETY: `file` and `read.out` are borrowed until `read` returns, which it does only when no read that the kernel took is
        // under way; a ring that holds one which was never taken is dropped without another call.
        unsafe { self.0.submission().push(&entry) }.is_ok()
    }

    /// Takes what has come back; how many these were.
    fn reap(&mut self, reads: &[PageRead<'_>], is_read: &mut [bool]) -> usize {
        let mut count = 0;
        for back in self.0.completion() {
            let number = back.user_data() as usize;
            is_read[number] = usize::try_from(back.result()) == Ok(reads[number].out.len());
            count += 1;
        }
        count
    }
}

/// The call is to be made again.
fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)
    )
}

/// The rings of a device, one for each thread that reads many pages at the moment.
pub(super) struct Rings {
    kept: ArrayQueue<Ring>,
    /// The kernel has no io_uring, or gives none.
    is_refused: AtomicBool,
}

impl Default for Rings {
    fn default() -> Rings {
        Rings {
            kept: ArrayQueue::new(KEPT),
            is_refused: AtomicBool::new(false),
        }
    }
}

impl Rings {
    /// Reads all by one ring: which were read whole, and by how many system calls. None if there is no ring.
    pub(super) fn read(&self, file: &File, reads: &mut [PageRead<'_>]) -> Option<(Vec<bool>, u64)> {
        let mut ring = self.ring()?;
        let done = ring.read(file, reads);
        if !done.is_broken {
            // One more than are kept goes.
            drop(self.kept.push(ring));
        }
        Some((done.is_read, done.calls))
    }

    fn ring(&self) -> Option<Ring> {
        if let Some(ring) = self.kept.pop() {
            return Some(ring);
        }
        if self.is_refused.load(Ordering::Relaxed) {
            return None;
        }
        let ring = Ring::new().ok();
        self.is_refused.store(ring.is_none(), Ordering::Relaxed);
        ring
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{PAGE_BYTES, Pages};
    use std::io::Write;

    #[test]
    fn each_read_says_for_itself_whether_it_was_whole() {
        let mut file = tempfile::tempfile().unwrap();
        for page in 0..100u8 {
            file.write_all(&[page; PAGE_BYTES]).unwrap();
        }
        let rings = Rings::default();
        for count in [2, DEPTH, 77] {
            let mut out = Pages::zeroed(count);
            // One lies behind the end.
            let page_of = |number: usize| match number {
                1 => 100,
                _ => (number * 37 % 100) as u64,
            };
            let pages = out.chunks_exact_mut(PAGE_BYTES).enumerate();
            let reads = pages.map(|(number, out)| PageRead {
                page: page_of(number),
                out,
            });
            let mut reads: Vec<_> = reads.collect();
            let Some((is_read, calls)) = rings.read(&file, &mut reads) else {
                eprintln!("skipped each_read_says_for_itself: there is no io_uring");
                return;
            };
            for (number, out) in out.chunks_exact(PAGE_BYTES).enumerate() {
                assert_eq!(is_read[number], number != 1);
                assert!(number == 1 || out.iter().all(|byte| u64::from(*byte) == page_of(number)));
            }
            assert!(count > DEPTH || calls == 1, "{calls} calls for {count}");
        }
        assert_eq!(rings.kept.len(), 1);
    }
}
