//! Many writes in flight at once over one io_uring.
//!
//! The kernel reads the callers' buffers while a write is in flight, so [`Ring::write_all`] does not
//! return before every write it handed over has completed, whatever goes wrong.
#![allow(unsafe_code)] // The kernel is given raw pointers to the callers' buffers.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use io_uring::{IoUring, Probe, opcode, types};

/// Writes in flight at most: enough for a fast NVMe device to be busy, and one page of queue.
pub(super) const RING_DEPTH: u32 = 64;

/// Pause before asking again where the kernel says it is short of memory for requests.
const RETRY_PAUSE: Duration = Duration::from_millis(1);

/// One write; at most `u32::MAX` bytes.
pub(super) struct RingWrite<'a> {
    pub(super) file: &'a File,
    pub(super) offset: u64,
    pub(super) bytes: &'a [u8],
}

/// An io_uring of [`RING_DEPTH`] entries.
pub(super) struct Ring {
    ring: IoUring,
    broken: bool,
}

impl Ring {
    /// Sets the ring up.
    ///
    /// # Errors
    /// The kernel's, where it has no io_uring, forbids it, is out of locked memory or is too old to
    /// know the plain write operation (before 5.6).
    pub(super) fn new() -> io::Result<Self> {
        let ring = IoUring::new(RING_DEPTH)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Write::CODE) {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        Ok(Self {
            ring,
            broken: false,
        })
    }

    /// Whether the kernel refused the ring itself at some time, after which it is never used again.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Writes everything and returns one result for each write, in the order given.
    pub(super) fn write_all(&mut self, writes: &[RingWrite<'_>]) -> Vec<io::Result<()>> {
        assert!(
            !self.broken,
            "a broken ring may hold requests of an earlier call"
        );
        let mut progress = Progress::new(writes.len());
        while progress.in_flight > 0 || !progress.waiting.is_empty() {
            self.fill(writes, &mut progress);
            if let Err(error) = self.ring.submit_and_wait(1)
                && !is_transient(&error)
            {
                self.give_up(writes, &mut progress, &error);
                break;
            }
            self.reap(writes, &mut progress);
        }
        progress.results
    }

    /// Queues waiting writes up to the ring's depth.
    fn fill(&mut self, writes: &[RingWrite<'_>], progress: &mut Progress) {
        let mut queue = self.ring.submission();
        while progress.in_flight < RING_DEPTH as usize {
            let Some(index) = progress.waiting.pop_front() else {
                break;
            };
            let write = &writes[index];
            let rest = &write.bytes[progress.done[index]..];
            let length = u32::try_from(rest.len()).unwrap_or(u32::MAX);
            let request =
                opcode::Write::new(types::Fd(write.file.as_raw_fd()), rest.as_ptr(), length)
                    .offset(write.offset + progress.done[index] as u64)
                    .build()
                    .user_data(index as u64);
            // SAFETY: `rest` and the descriptor are borrowed for as long as `writes` is, and
            // `write_all` returns only once no request is in flight; a ring that still holds
            // requests the kernel never took is marked broken and not entered again.
            let pushed = unsafe { queue.push(&request) };
            if pushed.is_err() {
                progress.waiting.push_front(index);
                break;
            }
            progress.in_flight += 1;
        }
    }

    /// Takes completions; short writes go back to the waiting ones.
    fn reap(&mut self, writes: &[RingWrite<'_>], progress: &mut Progress) {
        for completion in self.ring.completion() {
            progress.in_flight -= 1;
            let index = completion.user_data() as usize;
            progress.complete(index, completion.result(), writes[index].bytes.len());
        }
    }

    /// The ring itself failed: waits for what the kernel already took, fails the rest.
    fn give_up(&mut self, writes: &[RingWrite<'_>], progress: &mut Progress, error: &io::Error) {
        self.broken = true;
        let never_taken = self.ring.submission().len();
        while progress.in_flight > never_taken {
            self.reap(writes, progress);
            std::thread::sleep(RETRY_PAUSE);
        }
        for (result, done) in progress.results.iter_mut().zip(&progress.settled) {
            if !done {
                *result = Err(copy_of(error));
            }
        }
    }
}

/// How far each write of one call is.
struct Progress {
    waiting: VecDeque<usize>,
    in_flight: usize,
    done: Vec<usize>,
    settled: Vec<bool>,
    results: Vec<io::Result<()>>,
}

impl Progress {
    fn new(count: usize) -> Self {
        Self {
            waiting: (0..count).collect(),
            in_flight: 0,
            done: vec![0; count],
            settled: vec![false; count],
            results: (0..count).map(|_| Ok(())).collect(),
        }
    }

    /// Books one completion: `result` is a byte count or a negated errno.
    fn complete(&mut self, index: usize, result: i32, len: usize) {
        let outcome = if result < 0 {
            Err(io::Error::from_raw_os_error(-result))
        } else {
            Ok(result as usize)
        };
        match outcome {
            Err(error) if is_transient(&error) => self.waiting.push_back(index),
            Err(error) => self.settle(index, Err(error)),
            Ok(0) if self.done[index] < len => {
                self.settle(index, Err(io::Error::from(io::ErrorKind::WriteZero)));
            }
            Ok(written) => {
                self.done[index] += written;
                if self.done[index] >= len {
                    self.settle(index, Ok(()));
                } else {
                    self.waiting.push_back(index);
                }
            }
        }
    }

    fn settle(&mut self, index: usize, result: io::Result<()>) {
        self.settled[index] = true;
        self.results[index] = result;
    }
}

/// Errors that say "ask again".
fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)
    )
}

fn copy_of(error: &io::Error) -> io::Error {
    error
        .raw_os_error()
        .map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_write_is_resumed_and_a_stuck_one_fails() {
        let mut progress = Progress::new(3);
        progress.waiting.clear();
        progress.complete(0, 10, 30);
        assert_eq!(progress.waiting, [0]);
        assert_eq!(progress.done[0], 10);
        progress.complete(0, 20, 30);
        assert!(progress.settled[0] && progress.results[0].is_ok());
        progress.complete(1, 0, 30);
        assert_eq!(
            progress.results[1].as_ref().unwrap_err().kind(),
            io::ErrorKind::WriteZero
        );
        progress.complete(2, -libc::EIO, 30);
        assert_eq!(
            progress.results[2].as_ref().unwrap_err().raw_os_error(),
            Some(libc::EIO)
        );
    }

    #[test]
    fn an_interrupted_write_waits_again() {
        let mut progress = Progress::new(1);
        progress.waiting.clear();
        progress.complete(0, -libc::EAGAIN, 30);
        assert_eq!(progress.waiting, [0]);
        assert!(!progress.settled[0]);
    }
}
