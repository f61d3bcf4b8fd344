//! The time that a DIMM is busy: what waits for it, waits in the order of time, not of simulation.
//!
//! Cores are simulated one after the other, some ahead of others by a step, and a controller's reads come later than
//! the access that caused them. So a DIMM does not keep when it is free again: it keeps, for short spans of
//! time, which cycles of each are taken, and a request gets the first free ones from its own time on. Requests in the order of time
//! are served one after the other; an earlier one that is simulated later waits for nobody who asked after it, but takes what those left.

/// Cycles of a span, as a power of two: as many as a word has bits.
const SPAN_SHIFT: u32 = 7;
const SPAN_CYCLES: u64 = 1 << SPAN_SHIFT;
const _: () = assert!(SPAN_CYCLES == u128::BITS as u64);
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

/// A span of time.
#[derive(Clone, Copy, Debug)]
struct Span {
    number: u64,
    /// A bit for each of its cycles, the first one lowest.
    taken: u128,
}

/// One DIMM.
#[derive(Debug)]
pub struct Device {
    times: DeviceTimes,
    spans: Vec<Span>,
    /// Spans of which each is known to be full.
    full: std::ops::Range<u64>,
}

impl Device {
    /// An idle one.
    pub fn new(times: DeviceTimes) -> Device {
        Device {
            times,
            spans: vec![
                Span {
                    number: 0,
                    taken: 0
                };
                SPANS
            ],
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

    /// Takes `busy` cycles, the first that are free from `now` on: when the last one ends, less all of them. That is the first one's
    /// time, unless others' lie between.
    fn take(&mut self, now: u64, busy: u64) -> u64 {
        let asked = now >> SPAN_SHIFT;
        let (mut span, mut left) = (asked, busy);
        loop {
            span = self.first_free(span);
            let from = if span == asked { now % SPAN_CYCLES } else { 0 };
            let taken = &mut self.spans[span as usize % SPANS].taken;
            if let Some(last) = take_of(taken, from, &mut left) {
                return (span << SPAN_SHIFT) + last + 1 - busy;
            }
            span += 1;
        }
    }

    /// The first span from `from` on that is not full.
    fn first_free(&mut self, from: u64) -> u64 {
        let mut span = from;
        loop {
            if self.full.contains(&span) {
                span = self.full.end;
            }
            if self.taken(span) != u128::MAX {
                break;
            }
            span += 1;
        }
        if span > from {
            let is_beyond = self.full.start <= from && from <= self.full.end;
            self.full = if is_beyond { self.full.start } else { from }..span;
        }
        span
    }

    /// Which cycles of a span are taken.
    fn taken(&mut self, number: u64) -> u128 {
        let kept = &mut self.spans[number as usize % SPANS];
        if kept.number < number {
            *kept = Span { number, taken: 0 };
        }
        assert!(kept.number == number, "requests are too far apart in time");
        kept.taken
    }
}

/// Takes up to `left` cycles of a span, the first that are free from one of its cycles on: the last one, if that were all.
fn take_of(taken: &mut u128, mut from: u64, left: &mut u64) -> Option<u64> {
    while from < SPAN_CYCLES {
        let free = !*taken >> from;
        if free == 0 {
            return None;
        }
        from += u64::from(free.trailing_zeros());
        // Ones come in from above, so that the run ends where the span does.
        let run = u64::from((*taken >> from | !(u128::MAX >> from)).trailing_zeros());
        let part = run.min(*left);
        *taken |= (u128::MAX >> (SPAN_CYCLES - part)) << from;
        from += part;
        *left -= part;
        if *left == 0 {
            return Some(from - 1);
        }
    }
    None
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
        // Nor one of the same span.
        assert_eq!(device.write(2048 + 60), 2048 + 360);
        assert_eq!(device.read(2048), 2048 + 100);
        // Which waits for it only where it would not be done before.
        assert_eq!(device.read(2048 + 55), 2048 + 55 + 40 + 100);
    }

    #[test]
    fn requests_wait_for_each_other_wherever_in_a_span_they_are_asked() {
        for offset in [0, 60, 124, 127] {
            let mut device = device();
            let now = 1024 + offset;
            let ends: Vec<u64> = (0..8).map(|_| device.read(now)).collect();
            let expected: Vec<u64> = (0..8).map(|before| now + 10 * before + 100).collect();
            assert_eq!(ends, expected, "{offset}");
        }
    }

    /// What is asked in the order of time is served as by a queue that keeps no more than when it is free again.
    #[test]
    fn requests_in_order_are_served_as_by_a_queue() {
        let mut random = fastrand::Rng::with_seed(3);
        for most_between in [5, 20, 60, 400] {
            let (mut device, mut now, mut free) = (device(), 0, 0);
            for _ in 0..20_000 {
                now += random.u64(0..most_between);
                let (done, busy, latency) = match random.bool() {
                    true => (device.read(now), 10, 100),
                    false => (device.write(now), 40, 300),
                };
                let start = now.max(free);
                free = start + busy;
                assert_eq!(done, start + latency);
            }
        }
    }

    /// Requests out of order take no cycle twice, and leave none of a queue's out.
    #[test]
    fn requests_out_of_order_take_each_cycle_once() {
        let mut random = fastrand::Rng::with_seed(4);
        let (mut device, mut taken) = (device(), vec![false; 1 << 16]);
        for _ in 0..1500 {
            let now = 10_000 + random.usize(0..20_000);
            let done = device.read(now as u64);
            let mut left = 10;
            let mut last = now;
            for (cycle, taken) in taken.iter_mut().enumerate().skip(now) {
                if left > 0 && !*taken {
                    *taken = true;
                    left -= 1;
                    last = cycle;
                }
            }
            assert_eq!(done, (last + 1 - 10 + 100) as u64);
        }
    }

    #[test]
    fn no_more_is_served_than_time_allows() {
        let mut device = device();
        let last = (0..1000).map(|_| device.write(0)).max().unwrap();
        assert!(last >= 999 * 40);
        assert!(last <= 1000 * 40 + 300 + SPAN_CYCLES);
    }
}
