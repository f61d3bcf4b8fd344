//! Many reads of one file at once by an io_uring.
//!
//! The kernel writes to the callers' memory while a read is under way, so [`Ring::read`] does not return before every read that it
//! handed over has come back, whatever goes wrong.

#![allow(
    unsafe_code,
    reason = "the kernel is given pointers to the callers' memory"
)]

use super::{Came, PageRead};
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
/// A call that the kernel has no memory for is made so often in a row.
const TRIES: u32 = 8;
/// Between two looks at a ring that takes no more calls.
const LOOK: Duration = Duration::from_millis(1);

/// A ring of [`DEPTH`] entries. None is under way while nobody reads.
struct Ring(IoUring);

/// How a call of [`Ring::read`] went.
#[derive(Default)]
struct Done {
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

    /// Reads all, and tells `came` of those that were read whole.
    fn read(&mut self, file: &File, reads: &mut [PageRead<'_>], came: &mut Came<'_>) -> Done {
        let mut done = Done::default();
        let (mut next, mut tries) = (0, 0);
        let mut under_way = UnderWay {
            ring: &mut self.0,
            count: 0,
        };
        while next < reads.len() || under_way.count > 0 {
            while next < reads.len() && under_way.push(file, &mut reads[next], next) {
                next += 1;
            }
            let awaited = match next < reads.len() {
                true => under_way.count.min(HANDED_OVER_AT_ONCE),
                false => under_way.count,
            };
            done.calls += 1;
            let called = under_way.ring.submit_and_wait(awaited);
            match called {
                Ok(_) => tries = 0,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Reads that come back may free what it lacks.
                Err(error) if is_transient(&error) && tries < TRIES => {
                    tries += 1;
                    std::thread::sleep(LOOK);
                }
                Err(_) => {
                    done.is_broken = true;
                    break;
                }
            }
            under_way.reap(reads, came);
        }
        done
    }
}

/// Reads that were put into the queue and have not come back. Dropping this waits for those that the kernel took, also where a caller
/// panics.
struct UnderWay<'r> {
    ring: &'r mut IoUring,
    count: usize,
}

impl UnderWay<'_> {
    /// Puts a read into the queue; false if it is to wait.
    fn push(&mut self, file: &File, read: &mut PageRead<'_>, number: usize) -> bool {
        if self.count == DEPTH {
            return false;
        }
        let length = u32::try_from(read.out.len()).expect("a read is of a few pages");
        let fd = types::Fd(file.as_raw_fd());
        let entry = opcode::Read::new(fd, read.out.as_mut_ptr(), length);
        let entry = entry.offset(read.offset()).build().user_data(number as u64);
        // SAFETY: `file` and `read.out` are borrowed until `Ring::read` returns or unwinds, which drops this and so waits until no read
        // that the kernel took is under way; a ring that holds one which was never taken is dropped without another call.
        let is_pushed = unsafe { self.ring.submission().push(&entry) }.is_ok();
        self.count += usize::from(is_pushed);
        is_pushed
    }

    /// Takes what has come back.
    fn reap(&mut self, reads: &[PageRead<'_>], came: &mut Came<'_>) {
        for back in self.ring.completion() {
            self.count -= 1;
            let number = back.user_data() as usize;
            let out = &*reads[number].out;
            if usize::try_from(back.result()) == Ok(out.len()) {
                came(number, out);
            }
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let never_taken = self.ring.submission().len();
        while self.count > never_taken {
            let back = self.ring.completion().count();
            self.count -= back;
            if back == 0 {
                std::thread::sleep(LOOK);
            }
        }
    }
}

/// The kernel has no rings, or none for this process.
fn is_for_good(error: &io::Error) -> bool {
    let is_refused = matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM));
    is_refused || error.kind() == io::ErrorKind::Unsupported
}

/// The call is to be made again.
fn is_transient(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY))
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
    /// None is ever made.
    pub(super) fn none() -> Rings {
        Rings {
            is_refused: AtomicBool::new(true),
            ..Rings::default()
        }
    }

    /// Reads all by one ring, and tells `came` of those that were read whole; by how many system calls. None if there is no ring.
    pub(super) fn read(
        &self,
        file: &File,
        reads: &mut [PageRead<'_>],
        came: &mut Came<'_>,
    ) -> Option<u64> {
        let mut ring = self.ring()?;
        let done = ring.read(file, reads, came);
        if !done.is_broken {
            // One more than are kept goes.
            drop(self.kept.push(ring));
        }
        Some(done.calls)
    }

    fn ring(&self) -> Option<Ring> {
        if let Some(ring) = self.kept.pop() {
            return Some(ring);
        }
        if self.is_refused.load(Ordering::Relaxed) {
            return None;
        }
        Ring::new()
            .inspect_err(|error| {
                // What a process lacks now, descriptors or memory, it may have later.
                let is_final = is_for_good(error);
                self.is_refused.fetch_or(is_final, Ordering::Relaxed);
            })
            .ok()
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
            let mut is_read = vec![false; count];
            let mut came = |number: usize, bytes: &[u8]| {
                assert!(bytes.iter().all(|byte| u64::from(*byte) == page_of(number)));
                assert!(!std::mem::replace(&mut is_read[number], true));
            };
            let Some(calls) = rings.read(&file, &mut reads, &mut came) else {
                eprintln!("skipped each_read_says_for_itself: there is no io_uring");
                return;
            };
            let expected = (0..count).map(|number| number != 1);
            assert!(is_read.into_iter().eq(expected));
            assert!(count > DEPTH || calls == 1, "{calls} calls for {count}");
        }
        assert_eq!(rings.kept.len(), 1);
    }

    #[test]
    fn only_a_refusal_for_good_is_remembered() {
        let of = |number| is_for_good(&io::Error::from_raw_os_error(number));
        assert!(of(libc::ENOSYS) && of(libc::EPERM) && of(libc::EOPNOTSUPP));
        assert!(!of(libc::EMFILE) && !of(libc::ENFILE) && !of(libc::ENOMEM));
        assert!(Rings::none().ring().is_none());
    }

    #[test]
    fn a_reader_that_panics_leaves_no_read_under_way() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 40 * PAGE_BYTES]).unwrap();
        let rings = Rings::default();
        let mut out = Pages::zeroed(40);
        let pages = (0..).zip(out.chunks_exact_mut(PAGE_BYTES));
        let mut reads: Vec<_> = pages.map(|(page, out)| PageRead { page, out }).collect();
        let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            rings.read(&file, &mut reads, &mut |number, _| assert_ne!(number, 5))
        }));
        if read.is_ok() {
            eprintln!("skipped a_reader_that_panics: there is no io_uring");
            return;
        }
        // What was handed over has landed; the ring is not used again.
        let bytes: Vec<u8> = (0..40).map(|page| out.page(page)[0]).collect();
        assert!(bytes[..DEPTH].iter().all(|byte| *byte == 7), "{bytes:?}");
        assert!(rings.kept.is_empty());
    }
}
