//! How long requests take, by kind: a lock-free histogram round any [`BlockDevice`].
//!
//! The histogram is log-linear, as Tene's HdrHistogram is: every power of two of nanoseconds has 32
//! steps, so a quantile is right to about 3 %. Recording is one relaxed add to the step's count.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::block_device::{Access, BlockDevice, DeviceError, Extent};

/// Steps of a power of two, as a power of two.
const STEP_BITS: u32 = 5;
const STEPS: usize = 1 << STEP_BITS;
/// Longer than this (about 18 minutes) counts as this.
const LATENCY_BITS_MAX: u32 = 40;
const BUCKETS: usize = ((LATENCY_BITS_MAX - STEP_BITS + 1) as usize) << STEP_BITS;

/// The bucket of a latency: the power of two above its step bits, then the step.
fn bucket_of(latency_ns: u64) -> usize {
    let latency_ns = latency_ns.min((1 << LATENCY_BITS_MAX) - 1);
    let shift = (u64::BITS - latency_ns.leading_zeros()).saturating_sub(STEP_BITS + 1);
    shift as usize * STEPS + (latency_ns >> shift) as usize
}

/// The greatest latency that falls into a bucket.
fn bucket_top_ns(bucket: usize) -> u64 {
    let shift = (bucket / STEPS).saturating_sub(1) as u32;
    let step = (bucket - shift as usize * STEPS) as u64;
    ((step + 1) << shift) - 1
}

/// Counts of latencies; any thread may record at any time.
pub struct LatencyHistogram {
    counts: Box<[AtomicU64]>,
    sum_ns: AtomicU64,
    max_ns: AtomicU64,
}

impl Default for LatencyHistogram {
    fn default() -> LatencyHistogram {
        LatencyHistogram {
            counts: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            sum_ns: AtomicU64::new(0),
            max_ns: AtomicU64::new(0),
        }
    }
}

impl LatencyHistogram {
    /// One more request took this long.
    pub fn record(&self, latency: Duration) {
        let latency_ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket_of(latency_ns)].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(latency_ns, Ordering::Relaxed);
        if latency_ns > self.max_ns.load(Ordering::Relaxed) {
            self.max_ns.fetch_max(latency_ns, Ordering::Relaxed);
        }
    }

    /// What was recorded until now. Requests that end meanwhile are in it or not.
    pub fn snapshot(&self) -> LatencySnapshot {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts: Box<[u64]> = self.counts.iter().map(load).collect();
        LatencySnapshot {
            count: counts.iter().sum(),
            counts,
            sum_ns: load(&self.sum_ns),
            max_ns: load(&self.max_ns),
        }
    }
}

/// A histogram at one moment, or what came between two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencySnapshot {
    counts: Box<[u64]>,
    count: u64,
    sum_ns: u64,
    max_ns: u64,
}

impl Default for LatencySnapshot {
    fn default() -> LatencySnapshot {
        LatencySnapshot {
            counts: vec![0; BUCKETS].into(),
            count: 0,
            sum_ns: 0,
            max_ns: 0,
        }
    }
}

impl LatencySnapshot {
    /// Requests recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The latency that this share (0 to 1) of the requests did not exceed, right to 3 %; 0 where
    /// there were none.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        let wanted = (share.clamp(0.0, 1.0) * self.count as f64).ceil().max(1.0) as u64;
        let mut passed = 0;
        let bucket = self.counts.iter().position(|count| {
            passed += count;
            passed >= wanted
        });
        bucket.map_or(0, |bucket| bucket_top_ns(bucket).min(self.max_ns))
    }

    /// What came after `earlier`, an older snapshot of the same histogram. Its maximum is that of
    /// the highest bucket with something in it.
    #[must_use]
    pub fn since(&self, earlier: &LatencySnapshot) -> LatencySnapshot {
        let both = self.counts.iter().zip(&earlier.counts);
        let counts: Box<[u64]> = both.map(|(now, then)| now.saturating_sub(*then)).collect();
        let highest = counts.iter().rposition(|count| *count > 0);
        LatencySnapshot {
            count: counts.iter().sum(),
            sum_ns: self.sum_ns.saturating_sub(earlier.sum_ns),
            max_ns: highest.map_or(0, |bucket| bucket_top_ns(bucket).min(self.max_ns)),
            counts,
        }
    }

    /// The figures that a screen shows.
    pub fn summary(&self) -> LatencySummary {
        LatencySummary {
            count: self.count,
            mean_ns: self.sum_ns.checked_div(self.count).unwrap_or(0),
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
        self.latencies.record(started.elapsed());
        match &result {
            Ok(_) => self.bytes.fetch_add(bytes, Ordering::Relaxed),
            Err(_) => self.errors.fetch_add(1, Ordering::Relaxed),
        };
        result
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
    fn extents(
        &self,
        offset: u64,
        length: u64,
        extents_max: usize,
    ) -> Result<Vec<Extent>, DeviceError> {
        self.device.extents(offset, length, extents_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDevice;

    #[test]
    fn buckets_follow_each_other_without_gaps_and_are_narrow() {
        let mut next = 0;
        for bucket in 0..BUCKETS {
            let top = bucket_top_ns(bucket);
            assert_eq!((bucket_of(next), bucket_of(top)), (bucket, bucket));
            assert!(top - next <= next / STEPS as u64);
            next = top + 1;
        }
        assert_eq!(next, 1 << LATENCY_BITS_MAX);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

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
