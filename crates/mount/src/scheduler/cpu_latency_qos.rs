//! Keeping idle cores awake while programs wait for one request after the other.
//!
//! A request wakes two threads: ours, and the program's when it is answered. Where the woken one's core
//! sleeps, and above all where that is a virtual machine's, which gives the core back to its host, each
//! wake-up costs more than the request itself. So while requests come close together the kernel is told
//! by `/dev/cpu_dma_latency` that idle cores are to wait without sleeping, and some milliseconds after
//! that no more. The kernel drops the request when the process ends, however it does.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::clock::now_ms;

/// Where latencies are asked for, in microseconds, as the bytes of an `i32`.
const DEVICE: &str = "/dev/cpu_dma_latency";

/// No sleep at all: the shallowest state of a virtual machine's core is already the expensive one.
const AWAKE_US: i32 = 0;

/// The kernel's value where no process has a request.
const ANYTHING_US: i32 = 2_000_000_000;

/// So many requests within a window are close together.
const REQUESTS: u64 = 16;
const WINDOW_MS: u64 = 8;

/// How long after the last of them the cores stay awake.
const LASTING_MS: u64 = 20;

/// A window's start and its count of requests share a word.
const COUNT_BITS: u32 = 16;

/// See the module.
#[derive(Debug)]
pub struct CpuLatencyQos {
    keeper: Option<(Arc<Shared>, JoinHandle<()>)>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Written by the threads that serve, unsynchronized: a request missed in the count does no
    /// harm.
    window: AtomicU64,
    busy_ms: AtomicU64,
    is_busy: AtomicBool,
    is_over: AtomicBool,
}

impl CpuLatencyQos {
    /// Where it is not `wanted`, or the process may not request it, cores sleep as usual.
    pub fn new(wanted: bool) -> CpuLatencyQos {
        if !wanted {
            return CpuLatencyQos { keeper: None };
        }
        let device = OpenOptions::new().write(true).open(DEVICE);
        let made = device.and_then(CpuLatencyQos::with);
        made.unwrap_or_else(|error| {
            tracing::debug!(%error, device = DEVICE, "idle cores cannot be kept awake");
            CpuLatencyQos { keeper: None }
        })
    }

    fn with(device: File) -> std::io::Result<CpuLatencyQos> {
        let shared = Arc::new(Shared::default());
        let keeper = std::thread::Builder::new().name("mount-awake".into());
        let thread = keeper.spawn({
            let shared = Arc::clone(&shared);
            move || shared.keep(device)
        })?;
        Ok(CpuLatencyQos {
            keeper: Some((shared, thread)),
        })
    }

    /// A request has come.
    #[inline]
    pub fn note(&self, now: u64) {
        let Some((shared, thread)) = &self.keeper else {
            return;
        };
        let window = shared.window.load(Ordering::Relaxed);
        let (began, count) = (window >> COUNT_BITS, window % (1 << COUNT_BITS));
        if now.saturating_sub(began) >= WINDOW_MS {
            shared
                .window
                .store((now << COUNT_BITS) + 1, Ordering::Relaxed);
        } else if count < REQUESTS {
            shared.window.store(window + 1, Ordering::Relaxed);
            if count + 1 == REQUESTS {
                shared.busy_ms.store(now, Ordering::Relaxed);
                if !shared.is_busy.swap(true, Ordering::AcqRel) {
                    thread.thread().unpark();
                }
            }
        }
    }
}

impl Drop for CpuLatencyQos {
    fn drop(&mut self) {
        if let Some((shared, thread)) = self.keeper.take() {
            shared.is_over.store(true, Ordering::Release);
            thread.thread().unpark();
            // The thread returns no value.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// The keeper thread's loop: it sleeps while few requests come.
    fn keep(&self, mut device: File) {
        // A kernel that refuses the request, or its withdrawal, drops it when the device is closed.
        let mut ask = |latency_us: i32| device.write_all(&latency_us.to_ne_bytes()).is_ok();
        loop {
            while !self.is_busy.load(Ordering::Acquire) && !self.is_over() {
                std::thread::park();
            }
            if self.is_over() || !ask(AWAKE_US) {
                return;
            }
            while !self.is_over() && now_ms() < self.busy_ms.load(Ordering::Relaxed) + LASTING_MS {
                std::thread::park_timeout(Duration::from_millis(LASTING_MS));
            }
            // A thread that is busy from here on sets it again.
            self.is_busy.store(false, Ordering::Release);
            if !ask(ANYTHING_US) {
                return;
            }
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::OwnedFd;

    fn asked(device: &mut impl Read) -> i32 {
        let mut bytes = [0; 4];
        device.read_exact(&mut bytes).unwrap();
        i32::from_ne_bytes(bytes)
    }

    #[test]
    fn cores_are_kept_awake_while_requests_come_close_together_and_not_longer() {
        let (mut device, end) = std::io::pipe().unwrap();
        let awake = CpuLatencyQos::with(File::from(OwnedFd::from(end))).unwrap();
        let (shared, _) = awake.keeper.as_ref().unwrap();
        // All within one window, wherever the clock stands.
        while shared.window.load(Ordering::Relaxed) % (1 << COUNT_BITS) < REQUESTS - 1 {
            awake.note(now_ms());
        }
        assert!(!shared.is_busy.load(Ordering::Acquire), "too few");
        while !shared.is_busy.load(Ordering::Acquire) {
            awake.note(now_ms());
        }
        assert_eq!(asked(&mut device), AWAKE_US);
        assert_eq!(asked(&mut device), ANYTHING_US, "nothing came any more");
        drop(awake);
        assert_eq!(device.read(&mut [0]).unwrap(), 0, "nothing else was asked");
    }

    #[test]
    fn the_end_does_not_wait_for_requests() {
        let (mut device, end) = std::io::pipe().unwrap();
        drop(CpuLatencyQos::with(File::from(OwnedFd::from(end))).unwrap());
        assert_eq!(device.read(&mut [0]).unwrap(), 0);
        drop(CpuLatencyQos::new(false));
    }
}
