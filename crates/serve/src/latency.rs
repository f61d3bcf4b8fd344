//! How long requests take, by kind: a lock-free histogram round any [`BlockDevice`].
//!
//! The histogram is log-linear, as Tene's HdrHistogram is: every power of two of nanoseconds has 32
//! steps, so a quantile is right to about 3 %. Recording is one relaxed add to the step's count.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use histogram::{AtomicHistogram, Config, Histogram};

use crate::block_device::{Access, Answer, BlockDevice, DeviceError, Extent, QueuedReads};

/// Steps of a power of two, as a power of two.
const STEP_BITS: u8 = 5;
/// Longer than this (about 18 minutes) counts as this.
const LATENCY_BITS_MAX: u8 = 40;
const LATENCY_MAX_NS: u64 = (1 << LATENCY_BITS_MAX) - 1;

const BUCKETS: Config = match Config::new(STEP_BITS, LATENCY_BITS_MAX) {
    Ok(buckets) => buckets,
    Err(_) => panic!("a power of two has fewer steps than values"),
};

/// Counts of latencies; any thread may record at any time.
pub struct LatencyHistogram {
    counts: AtomicHistogram,
    sum_ns: AtomicU64,
    max_ns: AtomicU64,
}

impl Default for LatencyHistogram {
    fn default() -> LatencyHistogram {
        LatencyHistogram {
            counts: AtomicHistogram::with_config(&BUCKETS),
            sum_ns: AtomicU64::new(0),
            max_ns: AtomicU64::new(0),
        }
    }
}

impl LatencyHistogram {
    /// One more request took this long.
    pub fn record(&self, latency: Duration) {
        let latency_ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        // It fails above the maximum only.
        let _ = self.counts.increment(latency_ns.min(LATENCY_MAX_NS));
        self.sum_ns.fetch_add(latency_ns, Ordering::Relaxed);
        if latency_ns > self.max_ns.load(Ordering::Relaxed) {
            self.max_ns.fetch_max(latency_ns, Ordering::Relaxed);
        }
    }

    /// What was recorded until now. Requests that end meanwhile are in it or not.
    pub fn snapshot(&self) -> LatencySnapshot {
        LatencySnapshot {
            counts: self.counts.load(),
            sum_ns: self.sum_ns.load(Ordering::Relaxed),
            max_ns: self.max_ns.load(Ordering::Relaxed),
        }
    }
}

/// A histogram at one moment, or what came between two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencySnapshot {
    counts: Histogram,
    sum_ns: u64,
    max_ns: u64,
}

impl Default for LatencySnapshot {
    fn default() -> LatencySnapshot {
        LatencySnapshot {
            counts: Histogram::with_config(&BUCKETS),
            sum_ns: 0,
            max_ns: 0,
        }
    }
}

impl LatencySnapshot {
    /// Requests recorded.
    pub fn count(&self) -> u64 {
        self.counts.as_slice().iter().sum()
    }

    /// The latency that this share (0 to 1) of the requests did not exceed, right to 3 %; 0 where
    /// there were none.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        let bucket = self.counts.quantile_bucket(share.clamp(0.0, 1.0));
        let top_ns = bucket.ok().flatten().map_or(0, |bucket| bucket.end());
        top_ns.min(self.max_ns)
    }

    /// What came after `earlier`, an older snapshot of the same histogram. Its maximum is that of
    /// the highest bucket with something in it.
    #[must_use]
    pub fn since(&self, earlier: &LatencySnapshot) -> LatencySnapshot {
        let mut since = LatencySnapshot {
            counts: self.counts.clone(),
            sum_ns: self.sum_ns.saturating_sub(earlier.sum_ns),
            max_ns: self.max_ns,
        };
        let counts = since.counts.as_mut_slice().iter_mut();
        for (count, then) in counts.zip(earlier.counts.as_slice()) {
            *count = count.saturating_sub(*then);
        }
        since.max_ns = since.quantile_ns(1.0);
        since
    }

    /// The figures that a screen shows.
    pub fn summary(&self) -> LatencySummary {
        let count = self.count();
        LatencySummary {
            count,
            mean_ns: self.sum_ns.checked_div(count).unwrap_or(0),
            p50_ns: self.quantile_ns(0.5),
            p99_ns: self.quantile_ns(0.99),
            p999_ns: self.quantile_ns(0.999),
            max_ns: self.max_ns,
        }
    }
}

/// What is shown of a histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencySummary {
    /// Requests.
    pub count: u64,
    /// Their mean latency.
    pub mean_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// What one in a hundred exceeds.
    pub p99_ns: u64,
    /// What one in a thousand exceeds.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// One kind of request.
#[derive(Default)]
pub struct RequestMeter {
    latencies: LatencyHistogram,
    bytes: AtomicU64,
    errors: AtomicU64,
}

impl RequestMeter {
    fn meter<T>(
        &self,
        bytes: u64,
        request: impl FnOnce() -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        let started = Instant::now();
        let result = request();
        self.record(started, result.is_ok().then_some(bytes));
        result
    }

    /// A request that ends now, with so many bytes or in an error.
    fn record(&self, started: Instant, bytes: Option<u64>) {
        self.latencies.record(started.elapsed());
        match bytes {
            Some(bytes) => self.bytes.fetch_add(bytes, Ordering::Relaxed),
            None => self.errors.fetch_add(1, Ordering::Relaxed),
        };
    }

    /// What was metered until now.
    pub fn snapshot(&self) -> RequestSnapshot {
        RequestSnapshot {
            latencies: self.latencies.snapshot(),
            bytes: self.bytes.load(Ordering::Relaxed),
            errors: self.errors.load(Ordering::Relaxed),
        }
    }
}

/// One kind of request at one moment, or between two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestSnapshot {
    /// How long the requests took, those that failed too.
    pub latencies: LatencySnapshot,
    /// Bytes of the requests that succeeded.
    pub bytes: u64,
    /// Requests that failed.
    pub errors: u64,
}

impl RequestSnapshot {
    /// What came after `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &RequestSnapshot) -> RequestSnapshot {
        RequestSnapshot {
            latencies: self.latencies.since(&earlier.latencies),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            errors: self.errors.saturating_sub(earlier.errors),
        }
    }
}

/// What a [`MeteredDevice`] has measured; shared, so that it can be asked while the disk is served.
#[derive(Default)]
pub struct DeviceMeters {
    /// Reads.
    pub read: RequestMeter,
    /// Writes of data.
    pub write: RequestMeter,
    /// Flushes.
    pub flush: RequestMeter,
    /// Discards and writes of zeroes.
    pub discard: RequestMeter,
}

impl DeviceMeters {
    /// All kinds at (about) one moment.
    pub fn snapshot(&self) -> DeviceSnapshot {
        DeviceSnapshot {
            read: self.read.snapshot(),
            write: self.write.snapshot(),
            flush: self.flush.snapshot(),
            discard: self.discard.snapshot(),
        }
    }
}

/// All kinds of requests at one moment, or between two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceSnapshot {
    /// Reads.
    pub read: RequestSnapshot,
    /// Writes of data.
    pub write: RequestSnapshot,
    /// Flushes.
    pub flush: RequestSnapshot,
    /// Discards and writes of zeroes.
    pub discard: RequestSnapshot,
}

impl DeviceSnapshot {
    /// What came after `earlier`: a screen's last second, say.
    #[must_use]
    pub fn since(&self, earlier: &DeviceSnapshot) -> DeviceSnapshot {
        DeviceSnapshot {
            read: self.read.since(&earlier.read),
            write: self.write.since(&earlier.write),
            flush: self.flush.since(&earlier.flush),
            discard: self.discard.since(&earlier.discard),
        }
    }
}

/// A disk that times each request and passes it to `D`.
pub struct MeteredDevice<D> {
    device: D,
    meters: Arc<DeviceMeters>,
}

impl<D> MeteredDevice<D> {
    /// Times the requests to `device` from now on.
    pub fn new(device: D) -> MeteredDevice<D> {
        MeteredDevice {
            device,
            meters: Arc::default(),
        }
    }

    /// The measurements; they stay readable when the device has gone.
    pub fn meters(&self) -> Arc<DeviceMeters> {
        Arc::clone(&self.meters)
    }

    /// The device behind it.
    pub fn inner(&self) -> &D {
        &self.device
    }
}

impl<D: BlockDevice> BlockDevice for MeteredDevice<D> {
    fn size_bytes(&self) -> u64 {
        self.device.size_bytes()
    }
    fn block_size(&self) -> u32 {
        self.device.block_size()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        let bytes = buffer.len() as u64;
        let read = || self.device.read_at(offset, buffer);
        self.meters.read.meter(bytes, read)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        let write = || self.device.write_at(offset, data);
        self.meters.write.meter(data.len() as u64, write)
    }
    fn has_volatile_cache(&self) -> bool {
        self.device.has_volatile_cache()
    }
    fn write_unsynced_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        let write = || self.device.write_unsynced_at(offset, data);
        self.meters.write.meter(data.len() as u64, write)
    }
    fn write_zeroes(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        let zero = || self.device.write_zeroes(offset, length);
        self.meters.discard.meter(length, zero)
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        let discard = || self.device.discard(offset, length);
        self.meters.discard.meter(length, discard)
    }
    fn flush(&self) -> Result<(), DeviceError> {
        self.meters.flush.meter(0, || self.device.flush())
    }
    fn is_quick(&self, access: Access, offset: u64, length: u64) -> bool {
        self.device.is_quick(access, offset, length)
    }
    fn queued_reads(&self, reads_max: usize) -> Option<Arc<dyn QueuedReads>> {
        let (reads, meters) = (
            self.device.queued_reads(reads_max)?,
            Arc::clone(&self.meters),
        );
        Some(Arc::new(MeteredReads { reads, meters }))
    }
    fn extents(
        &self,
        offset: u64,
        length: u64,
        extents_max: usize,
    ) -> Result<Vec<Extent>, DeviceError> {
        self.device.extents(offset, length, extents_max)
    }
}

/// Times each read from when it is begun until it is to be answered.
struct MeteredReads {
    reads: Arc<dyn QueuedReads>,
    meters: Arc<DeviceMeters>,
}

impl MeteredReads {
    fn metered(&self, answer: Answer) -> Answer {
        let (started, meters) = (Instant::now(), Arc::clone(&self.meters));
        Box::new(move |read| {
            let bytes = read.as_ref().ok().map(|bytes| bytes.len() as u64);
            meters.read.record(started, bytes);
            answer(read);
        })
    }
}

impl QueuedReads for MeteredReads {
    fn begin(&self, offset: u64, length: usize, answer: &mut dyn FnMut() -> Answer) -> bool {
        let mut answer = || self.metered(answer());
        self.reads.begin(offset, length, &mut answer)
    }

    fn read(&self, offset: u64, length: usize, answer: &mut dyn FnMut() -> Answer) -> bool {
        let mut answer = || self.metered(answer());
        self.reads.read(offset, length, &mut answer)
    }

    fn submit(&self) -> bool {
        self.reads.submit()
    }

    fn work(&self, after_batch: &(dyn Fn() + Sync)) {
        self.reads.work(after_batch);
    }

    fn close(&self) {
        self.reads.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDevice;

    #[test]
    fn quantiles_are_right_to_a_step() {
        let histogram = LatencyHistogram::default();
        assert_eq!(histogram.snapshot().summary(), LatencySummary::default());
        for micros in 1..=1000 {
            histogram.record(Duration::from_micros(micros));
        }
        let all = histogram.snapshot();
        let summary = all.summary();
        assert_eq!((summary.count, summary.max_ns), (1000, 1_000_000));
        assert_eq!(summary.mean_ns, 500_500);
        for (found, right) in [(summary.p50_ns, 500_000), (summary.p99_ns, 990_000)] {
            assert!((right..=right + right / 32).contains(&found), "{found}");
        }
        histogram.record(Duration::from_secs(4000));
        let last = histogram.snapshot().since(&all);
        assert_eq!(last.count(), 1);
        assert_eq!(last.quantile_ns(0.0), (1 << LATENCY_BITS_MAX) - 1);
    }

    #[test]
    fn requests_are_counted_by_kind_and_failures_apart() {
        let disk = MeteredDevice::new(MemoryDevice::new(8192, 512));
        let meters = disk.meters();
        disk.write_at(0, &[1; 4096]).expect("write");
        let before = meters.snapshot();
        disk.read_at(0, &mut [0; 512]).expect("read");
        assert!(disk.read_at(8192, &mut [0; 512]).is_err());
        disk.flush().expect("flush");
        disk.discard(0, 4096).expect("discard");
        let after = meters.snapshot().since(&before);
        assert_eq!(
            (after.write.latencies.count(), before.write.bytes),
            (0, 4096)
        );
        let read = &after.read;
        assert_eq!(
            (read.latencies.count(), read.bytes, read.errors),
            (2, 512, 1)
        );
        assert_eq!(after.flush.latencies.count(), 1);
        assert_eq!(after.discard.bytes, 4096);
    }
}
