//! The time that a DIMM is busy: what waits for it, waits in the order of time, not of simulation.
//!
//! Cores are simulated one after the other, some ahead of others by a step, and a controller's reads come later than
//! the access that caused them. So a DIMM does not keep when it is free again: it keeps, for short spans of
//! time, how much of each is taken, and a request gets the first free time from its own on.

/// Cycles of a span, as a power of two.
const SPAN_SHIFT: u32 = 7;
const SPAN_CYCLES: u64 = 1 << SPAN_SHIFT;
/// Spans that are kept: requests are never further apart in time than this.
const SPANS: usize = 1 << 14;

/// How long requests take.
#[derive(Clone, Copy, Debug)]
pub struct DeviceTimes {
    /// From the start of a read to its data.
    pub read_cycles: u64,
    /// From the start of a write to its end.
    pub write_cycles: u64,
    /// How long a read keeps the next request waiting.
    pub read_busy_cycles: u64,
    /// How long a write does.
    pub write_busy_cycles: u64,
}

/// One DIMM.
#[derive(Debug)]
pub struct Device {
    times: DeviceTimes,
    /// For each span its number and the cycles of it that are taken.
    spans: Vec<(u64, u64)>,
    /// Spans of which each is known to be full.
    full: std::ops::Range<u64>,
}

impl Device {
    /// An idle one.
    pub fn new(times: DeviceTimes) -> Device {
        Device {
            times,
            spans: vec![(0, 0); SPANS],
            full: 0..0,
        }
    }

    /// A read that is asked for at `now`: when its data is there, in cycles.
    pub fn read(&mut self, now: u64) -> u64 {
        self.take(now, self.times.read_busy_cycles) + self.times.read_cycles
    }

    /// A write that is asked for at `now`: when it is done.
    pub fn write(&mut self, now: u64) -> u64 {
        self.take(now, self.times.write_busy_cycles) + self.times.write_cycles
    }

    /// Takes `busy` cycles from the first free time on: when it starts.
    fn take(&mut self, now: u64, busy: u64) -> u64 {
        let mut span = self.first_free(now >> SPAN_SHIFT);
        let start = now.max((span << SPAN_SHIFT) + self.taken(span));
        let mut left = busy;
        loop {
            let part = left.min(SPAN_CYCLES - self.taken(span));
            self.spans[span as usize % SPANS].1 += part;
            left -= part;
            if left == 0 {
                return start;
            }
            span += 1;
        }
    }

    /// The first span from `from` on that is not full.
    fn first_free(&mut self, from: u64) -> u64 {
        let is_known = self.full.contains(&from);
        let mut span = if is_known { self.full.end } else { from };
        while self.taken(span) >= SPAN_CYCLES {
            span += 1;
        }
        self.full = if is_known { self.full.start } else { from }..span;
        span
    }

    /// How much of a span is taken.
    fn taken(&mut self, span: u64) -> u64 {
        let kept = &mut self.spans[span as usize % SPANS];
        if kept.0 < span {
            *kept = (span, 0);
        }
        assert!(kept.0 == span, "requests are too far apart in time");
        kept.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device() -> Device {
        Device::new(DeviceTimes {
            read_cycles: 100,
            write_cycles: 300,
            read_busy_cycles: 10,
            write_busy_cycles: 40,
        })
    }

    #[test]
    fn an_idle_one_answers_after_its_latency() {
        let mut device = device();
        assert_eq!(device.read(1000), 1100);
        assert_eq!(device.write(5000), 5300);
    }

    #[test]
    fn requests_wait_for_each_other() {
        let mut device = device();
        let ends: Vec<u64> = (0..30).map(|_| device.read(1024)).collect();
        assert!(ends.windows(2).all(|pair| pair[1] == pair[0] + 10));
    }

    #[test]
    fn a_request_of_later_keeps_no_earlier_one_waiting() {
        let mut device = device();
        assert_eq!(device.write(100_000), 100_300);
        assert_eq!(device.read(1024), 1124);
    }

    #[test]
    fn no_more_is_served_than_time_allows() {
        let mut device = device();
        let last = (0..1000).map(|_| device.write(0)).max().unwrap();
        assert!(last >= 999 * 40);
        assert!(last <= 1000 * 40 + 300 + SPAN_CYCLES);
    }
}
