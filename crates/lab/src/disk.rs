//! A disk as slow as a real one: another store, with the waits of an SSD or an HDD.
//!
//! The device serves a fixed number of requests side by side. A request takes the channel that is
//! free first and holds it for its service time, so that threads that use the disk at once delay each
//! other as they would on the device; a call returns when its last request is served. The store
//! inside holds the bytes and counts.
//!
//! A sync costs nothing: an SSD with power-loss protection has made a write durable when it
//! acknowledges it, and so has an HDD whose write cache is off. The papers do not speak of the
//! disk's volatile cache, so this favours no design.

use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::virtual_time::VirtualClock;
use forebay::{Backing, BackingCounters, BackingIdentity, BackingStore, MarkPlace, WriteRun};
use rustix::thread::set_current_timer_slack;

/// What the kernel adds to a sleep at most, unless a thread asks for less.
const TIMER_SLACK: Duration = Duration::from_micros(50);

/// How callers wait in the host's time: long waits sleep, so that they leave the processor to others, and spin the end.
#[derive(Clone, Copy, Debug)]
struct Waits {
    /// Shorter ones spin.
    spin_below: Duration,
    /// How late a sleeper may wake.
    wake_slack: Duration,
}

/// For measurements of one client: the system wakes a sleeper some tens of microseconds late.
const EXACT: Waits = Waits {
    spin_below: Duration::from_micros(200),
    wake_slack: Duration::from_micros(100),
};

/// For a disk under a real system, which needs the processors meanwhile: only what an SSD takes for a write is spun.
const SPARING: Waits = Waits {
    spin_below: Duration::from_micros(50),
    wake_slack: Duration::from_micros(20),
};

/// How far apart two requests of an HDD may lie and still need no long seek.
const NEAR_BYTES: u64 = 1 << 20;

/// Which disk is imitated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DiskKind {
    /// As fast as the store inside.
    None,
    /// A SATA SSD of 128 GB, as under Tinca (§5.1). The paper names no model; drives of that size were
    /// client drives, and these are the figures of their data sheets (2012 to 2014): 10,000 random
    /// reads and 40,000 random writes of 4 KiB a second one at a time, some 90,000 of either with many
    /// at once. So 100 µs to read and 25 µs to write 4 KiB, 2 ns for each further byte, 9 requests
    /// side by side. Writes are acknowledged from a buffer of 64 of them, and wait where that is full;
    /// it empties by 90,000 a second, and keeps that up, as the data set fills a small part of the
    /// flash.
    #[default]
    Ssd,
    /// A disk of 7,200 rotations a minute, as under Spindle (§5.1): 4 ms of seek and rotation, 0.5 ms
    /// within 1 MiB, none where a request begins at the end of the last, 7 ns a byte, one at a time.
    Hdd,
    /// That disk below the DRAM of Spindle's machine: 90 GB, of which the kernel's default lets a fifth
    /// be dirty: more than the data set of fio (§5.1, Table 1). Writes go to pages and to the disk in the
    /// kernel's own time; reads wait for the disk.
    PagedHdd,
}

impl DiskKind {
    /// Until an SSD acknowledges 4 KiB.
    const SSD_WRITE: Duration = Duration::from_micros(25);

    /// What it is called in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            DiskKind::None => "none",
            DiskKind::Ssd => "ssd",
            DiskKind::Hdd => "hdd",
            DiskKind::PagedHdd => "hdd-below-dram",
        }
    }

    const fn channels(self) -> usize {
        match self {
            DiskKind::Ssd => 9,
            DiskKind::None | DiskKind::Hdd | DiskKind::PagedHdd => 1,
        }
    }

    /// How long the device works on `bytes` at `offset` when its last request ended at `last_end`.
    fn service(self, is_write: bool, offset: u64, bytes: u64, last_end: u64) -> Duration {
        let latency_ns = match self {
            DiskKind::None => return Duration::ZERO,
            DiskKind::PagedHdd if is_write => return Duration::ZERO,
            DiskKind::Ssd if is_write => DiskKind::SSD_WRITE.as_nanos() as u64,
            DiskKind::Ssd => 100_000,
            _ if offset == last_end => 0,
            _ if offset.abs_diff(last_end) <= NEAR_BYTES => 500_000,
            DiskKind::Hdd | DiskKind::PagedHdd => 4_000_000,
        };
        let transfer_ns = match self {
            DiskKind::Hdd | DiskKind::PagedHdd => bytes * 7,
            // The latency is that of the first 4 KiB.
            DiskKind::Ssd | DiskKind::None => bytes.saturating_sub(4096) * 2,
        };
        Duration::from_nanos(latency_ns + transfer_ns)
    }
}

/// What the flash of an SSD takes for one request out of its write buffer, the first 4 KiB.
const SSD_DRAIN: Duration = Duration::from_micros(11);
/// How far the flash may lag behind what was acknowledged: 64 writes.
const SSD_LAG: Duration = Duration::from_micros(11 * 64);

/// Whose time a device lives in.
enum Clock {
    /// The host's, since then. Callers sleep, and spin the last of it.
    Real(Instant),
    /// Waits are skipped.
    Virtual(Arc<VirtualClock>),
}

impl Clock {
    fn now(&self) -> Duration {
        match self {
            Clock::Real(began) => began.elapsed(),
            Clock::Virtual(clock) => clock.now(),
        }
    }
}

/// Until when each channel is taken, until when the flash is, and where the last request ended.
struct Channels {
    clock: Arc<Clock>,
    free_at: Vec<Duration>,
    drained_at: Duration,
    last_end: u64,
}

impl Channels {
    fn idle(kind: DiskKind, clock: Clock) -> Channels {
        let now = clock.now();
        Channels {
            clock: Arc::new(clock),
            free_at: vec![now; kind.channels()],
            drained_at: now,
            last_end: 0,
        }
    }

    /// When a request that is made `now` is served.
    fn serve(
        &mut self,
        kind: DiskKind,
        now: Duration,
        is_write: bool,
        offset: u64,
        bytes: u64,
    ) -> Duration {
        let service = kind.service(is_write, offset, bytes, self.last_end);
        self.last_end = offset + bytes;
        let mut start = now;
        if is_write && kind == DiskKind::Ssd {
            let transfer = service.saturating_sub(DiskKind::SSD_WRITE);
            self.drained_at = self.drained_at.max(now) + SSD_DRAIN + transfer;
            start = start.max(self.drained_at.saturating_sub(SSD_LAG));
        }
        let Some(free_at) = self.free_at.iter_mut().min() else {
            return now;
        };
        *free_at = start.max(*free_at) + service;
        *free_at
    }
}

/// A store that makes its callers wait as a disk would. Of holes it tells nothing, as a disk does not.
pub struct EmulatedDisk {
    inner: Backing,
    kind: DiskKind,
    waits: Waits,
    channels: Mutex<Channels>,
    is_waiting: AtomicBool,
}

impl EmulatedDisk {
    /// Puts the waits of `kind` around `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn BackingStore>, kind: DiskKind) -> EmulatedDisk {
        EmulatedDisk::waiting(Backing::from_store(inner), kind, EXACT)
    }

    /// The same for a disk that is served to other programs of this machine: waits leave them the processors.
    #[must_use]
    pub fn sparing(inner: Backing, kind: DiskKind) -> EmulatedDisk {
        EmulatedDisk::waiting(inner, kind, SPARING)
    }

    fn waiting(inner: Backing, kind: DiskKind, waits: Waits) -> EmulatedDisk {
        let channels = Channels::idle(kind, Clock::Real(Instant::now()));
        EmulatedDisk {
            inner,
            kind,
            waits,
            channels: Mutex::new(channels),
            is_waiting: AtomicBool::new(true),
        }
    }

    /// Turns the waits off, for a warm-up that only its end matters of, and on again.
    pub fn set_waiting(&self, is_waiting: bool) {
        self.is_waiting.store(is_waiting, Ordering::Relaxed);
    }

    /// Lives in a time in which waits are skipped, or in the host's again; idle in either case. No request may be under way.
    pub(crate) fn set_clock(&self, clock: Option<Arc<VirtualClock>>) {
        let clock = clock.map_or_else(|| Clock::Real(Instant::now()), Clock::Virtual);
        *self.channels() = Channels::idle(self.kind, clock);
    }

    fn channels(&self) -> MutexGuard<'_, Channels> {
        // Times have no invariant that a panicking holder could have broken.
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time of the device, and what it is now.
    fn now(&self) -> (Arc<Clock>, Duration) {
        let clock = Arc::clone(&self.channels().clock);
        let now = clock.now();
        (clock, now)
    }

    /// Waits until the device would have served all of the requests, each `(offset, bytes)`, that were
    /// made at that time: copying the bytes is part of a device's service.
    fn serve(
        &self,
        (clock, made_at): (Arc<Clock>, Duration),
        is_write: bool,
        requests: impl Iterator<Item = (u64, u64)>,
    ) {
        let is_free = match self.kind {
            DiskKind::None => true,
            DiskKind::PagedHdd => is_write,
            DiskKind::Ssd | DiskKind::Hdd => false,
        };
        if is_free || !self.is_waiting.load(Ordering::Relaxed) {
            return;
        }
        let mut channels = self.channels();
        let done_at = requests
            .map(|(offset, bytes)| channels.serve(self.kind, made_at, is_write, offset, bytes))
            .max();
        drop(channels);
        match (done_at, &*clock) {
            (None, _) => {}
            (Some(done_at), Clock::Real(began)) => self.waits.wait_until(*began + done_at),
            (Some(done_at), Clock::Virtual(clock)) => clock.wait_until(done_at),
        }
    }
}

impl Waits {
    fn wait_until(self, done_at: Instant) {
        let left = done_at.saturating_duration_since(Instant::now());
        if left > self.spin_below {
            if self.wake_slack < TIMER_SLACK {
                // Where it is refused the wait is that much longer.
                let _ = set_current_timer_slack(NonZeroU64::new(1));
            }
            std::thread::sleep(left - self.wake_slack);
        }
        while Instant::now() < done_at {
            std::hint::spin_loop();
        }
    }
}

impl BackingStore for EmulatedDisk {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn refresh_size(&self) -> io::Result<u64> {
        self.inner.refresh_size()
    }

    fn identity(&self) -> BackingIdentity {
        self.inner.identity()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let made_at = self.now();
        self.inner.read_at(offset, out)?;
        self.serve(made_at, false, std::iter::once((offset, out.len() as u64)));
        Ok(())
    }

    fn write_runs(&self, runs: &[WriteRun<'_>]) -> Vec<io::Result<()>> {
        let made_at = self.now();
        let results = self.inner.write_runs(runs);
        let requests = runs.iter().map(|run| (run.offset, run.bytes.len() as u64));
        self.serve(made_at, true, requests);
        results
    }

    fn zero_range(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        let made_at = self.now();
        self.inner.zero_range(offset, len_bytes)?;
        // The device is told to forget; no bytes travel.
        self.serve(made_at, true, std::iter::once((offset, 0)));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }

    fn forget_cached(&self) -> Vec<Range<u64>> {
        self.inner.forget_cached()
    }

    fn holds_pool(&self) -> bool {
        self.inner.holds_pool()
    }

    fn mark_place(&self) -> Option<&dyn MarkPlace> {
        self.inner.mark_place()
    }

    fn counters(&self) -> BackingCounters {
        self.inner.counters()
    }

    fn transport(&self) -> String {
        format!(
            "{}, as slow as {}",
            self.inner.transport(),
            self.kind.as_str()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::MemoryStore;

    fn disk(kind: DiskKind) -> EmulatedDisk {
        EmulatedDisk::new(Arc::new(MemoryStore::new(1 << 24)), kind)
    }

    #[test]
    fn an_ssd_serves_nine_at_once_and_an_hdd_one() {
        let bytes = [7; 4096];
        let run = |number: u64| WriteRun {
            offset: number << 21,
            bytes: &bytes,
        };
        let runs: Vec<WriteRun<'_>> = (0..9).map(run).collect();
        let time = |disk: &EmulatedDisk, runs: &[WriteRun<'_>]| {
            let start = Instant::now();
            assert!(disk.write_runs(runs).iter().all(io::Result::is_ok));
            start.elapsed()
        };
        let ssd = disk(DiskKind::Ssd);
        assert!(time(&ssd, &runs) >= Duration::from_micros(25));
        let again = [runs.clone(), runs.clone()].concat();
        assert!(time(&ssd, &again) >= Duration::from_micros(50));
        let hdd = disk(DiskKind::Hdd);
        assert!(time(&hdd, &runs[..3]) >= Duration::from_millis(8));
        hdd.set_waiting(false);
        assert_eq!(hdd.counters().blocks_written, 3);
        assert!(time(&hdd, &runs[..1]) < Duration::from_millis(4));
    }

    #[test]
    fn the_flash_of_an_ssd_sets_the_pace_once_its_buffer_is_full() {
        let mut channels = Channels::idle(DiskKind::Ssd, Clock::Real(Instant::now()));
        let now = channels.free_at[0];
        let mut write = |at| channels.serve(DiskKind::Ssd, at, true, 0, 4096) - at;
        let waits: Vec<Duration> = (0..64).map(|_| write(now)).collect();
        assert_eq!(waits[0], Duration::from_micros(25));
        // Nine channels: the buffer alone takes all of them in eight rounds.
        assert_eq!(waits[63], Duration::from_micros(8 * 25));
        let later: Vec<Duration> = (0..2000).map(|_| write(now)).collect();
        let pace = (later[1999] - later[999]) / 1000;
        assert_eq!(pace, Duration::from_micros(11));
        assert_eq!(
            write(now + Duration::from_secs(1)),
            Duration::from_micros(25)
        );
    }

    #[test]
    fn what_is_near_costs_an_hdd_less() {
        let cost = |offset| DiskKind::Hdd.service(false, offset, 4096, 1 << 30);
        assert!(cost(1 << 30) < Duration::from_micros(100));
        assert!(cost((1 << 30) + 8192) < Duration::from_millis(1));
        assert!(cost(0) >= Duration::from_millis(4));
        assert_eq!(
            DiskKind::Ssd.service(true, 0, 8192, 0),
            Duration::from_nanos(33_192)
        );
    }

    #[test]
    fn dram_takes_the_writes_of_an_hdd_and_not_its_reads() {
        let disk = disk(DiskKind::PagedHdd);
        assert_eq!(
            DiskKind::PagedHdd.service(true, 1 << 23, 4096, 0),
            Duration::ZERO
        );
        let mut out = [0; 4096];
        let start = Instant::now();
        disk.read_at(1 << 23, &mut out).unwrap();
        assert!(start.elapsed() >= Duration::from_millis(4));
    }

    #[test]
    fn a_sparing_wait_is_as_long_and_the_mark_is_that_of_the_store_inside() {
        let store = Arc::new(MemoryStore::new(1 << 24).marked());
        let disk = EmulatedDisk::sparing(Backing::from_store(store), DiskKind::Hdd);
        let start = Instant::now();
        disk.read_at(1 << 23, &mut [0; 4096]).unwrap();
        assert!(start.elapsed() >= Duration::from_millis(4));
        let place = disk.mark_place().expect("a mark");
        place.write(b"mark").unwrap();
        assert_eq!(place.read().unwrap(), [b"mark"]);
    }

    #[test]
    fn the_bytes_are_those_of_the_store_inside() {
        let disk = disk(DiskKind::Ssd);
        let bytes = [9; 512];
        disk.write_runs(&[WriteRun {
            offset: 4096,
            bytes: &bytes,
        }]);
        let mut out = [0; 512];
        disk.read_at(4096, &mut out).unwrap();
        assert_eq!(out, bytes);
        assert_eq!(disk.counters().reads, 1);
        disk.sync().unwrap();
    }
}
