//! How often others can make us write to the log: a few times at once, then now and then, with the
//! number of what was left out.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Messages at once.
const AT_ONCE: u32 = 10;

/// After that, one in so long.
const INTERVAL: Duration = Duration::from_secs(6);

/// Messages of one cause.
#[derive(Debug)]
pub(crate) struct LogRateLimit(Mutex<State>);

#[derive(Debug)]
struct State {
    left: u32,
    /// When `left` was last refilled; none before the first message.
    refilled: Option<Instant>,
    left_out: u64,
}

impl Default for LogRateLimit {
    fn default() -> LogRateLimit {
        LogRateLimit::new()
    }
}

impl LogRateLimit {
    pub(crate) const fn new() -> LogRateLimit {
        LogRateLimit(Mutex::new(State {
            left: AT_ONCE,
            refilled: None,
            left_out: 0,
        }))
    }

    /// Whether there may be one more, and how many were left out since the last one.
    pub(crate) fn next(&self) -> Option<u64> {
        self.next_at(Instant::now())
    }

    fn next_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock();
        let since = now.saturating_duration_since(*state.refilled.get_or_insert(now));
        let intervals = (since.as_nanos() / INTERVAL.as_nanos()) as u32;
        if intervals > 0 {
            state.left = state.left.saturating_add(intervals).min(AT_ONCE);
            state.refilled = Some(now);
        }
        if state.left == 0 {
            state.left_out += 1;
            return None;
        }
        state.left -= 1;
        Some(std::mem::take(&mut state.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_at_once_and_then_now_and_then() {
        let limit = LogRateLimit::new();
        let start = Instant::now();
        let heard = |at: Duration, count: usize| -> Vec<u64> {
            let all = (0..count).filter_map(|_| limit.next_at(start + at));
            all.collect()
        };
        assert_eq!(heard(Duration::ZERO, 1000), [0; AT_ONCE as usize]);
        assert_eq!(heard(INTERVAL, 1000), [1000 - u64::from(AT_ONCE)]);
        assert_eq!(heard(INTERVAL * 3, 3), [999, 0]);
        // Nothing for long is not saved up.
        assert_eq!(heard(INTERVAL * 1000, 1000).len(), AT_ONCE as usize);
    }
}
