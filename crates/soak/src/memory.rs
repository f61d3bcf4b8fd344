//! The daemon's memory over time: its resident set without what it shares with the pool's file, so
//! that a leak of kilobytes shows.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::tally::Tally;

const INTERVAL: Duration = Duration::from_millis(250);
/// Part of a daemon's run that is warm-up, and its least length: each thread's buffers grow to the
/// largest request that it meets.
const WARM_UP: f64 = 0.2;
const WARM_UP_S: f64 = 45.0;
/// A slope over less would be noise, multiplied to an hour.
const MEASURED_S: f64 = 60.0;
/// The slope looks at all pairs of so many samples.
const SAMPLES_MAX: usize = 1200;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    pub generation: u64,
    pub at_s: f64,
    /// Resident bytes, anonymous and of files, not shared memory.
    pub rss_bytes: f64,
    pub descriptors: u64,
    pub threads: u64,
}

/// Looks at the daemon until the run is over.
pub fn watch(tally: &Tally) -> Vec<Sample> {
    let mut samples = Vec::new();
    while !tally.is_over.load(SeqCst) {
        let (pid, generation) = (tally.daemon.load(SeqCst), tally.generation.load(SeqCst));
        if pid != 0
            && let Some((rss_bytes, threads)) = status(pid)
        {
            samples.push(Sample {
                generation,
                at_s: tally.elapsed_ns() as f64 / 1e9,
                rss_bytes,
                descriptors: std::fs::read_dir(format!("/proc/{pid}/fd"))
                    .map_or(0, |entries| entries.count() as u64),
                threads,
            });
        }
        std::thread::sleep(INTERVAL);
    }
    samples
}

fn status(pid: u32) -> Option<(f64, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let kib = number("RssAnon:")? + number("RssFile:")?;
    Some(((kib << 10) as f64, number("Threads:")?))
}

/// The samples of the daemon that ran longest, without its warm-up.
pub fn of_longest_generation(samples: &[Sample]) -> &[Sample] {
    let generations = samples.chunk_by(|one, next| one.generation == next.generation);
    let longest = generations
        .max_by_key(|samples| samples.len())
        .unwrap_or(&[]);
    let (Some(first), Some(last)) = (longest.first(), longest.last()) else {
        return longest;
    };
    let warm_at_s = first.at_s + (WARM_UP * (last.at_s - first.at_s)).max(WARM_UP_S);
    &longest[longest.partition_point(|sample| sample.at_s < warm_at_s)..]
}

/// Bytes an hour: the median slope of all pairs (Theil 1950, Sen 1968), which outliers do not move.
/// `None` for less than a minute.
pub fn growth_bytes_per_hour(samples: &[Sample]) -> Option<f64> {
    if samples.last()?.at_s - samples.first()?.at_s < MEASURED_S {
        return None;
    }
    let step = samples.len().div_ceil(SAMPLES_MAX).max(1);
    let thinned: Vec<Sample> = samples.iter().copied().step_by(step).collect();
    let mut slopes = Vec::new();
    for (index, early) in thinned.iter().enumerate() {
        for late in &thinned[index + 1..] {
            slopes.push((late.rss_bytes - early.rss_bytes) / (late.at_s - early.at_s));
        }
    }
    let middle = slopes.len() / 2;
    (!slopes.is_empty()).then(|| *slopes.select_nth_unstable_by(middle, f64::total_cmp).1 * 3600.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(generation: u64, at_s: f64, rss_bytes: f64) -> Sample {
        Sample {
            generation,
            at_s,
            rss_bytes,
            descriptors: 0,
            threads: 0,
        }
    }

    #[test]
    fn the_slope_passes_over_outliers() {
        let mut samples: Vec<Sample> = (0..80)
            .map(|index| sample(1, f64::from(index), 1e6 + 2.0 * f64::from(index)))
            .collect();
        samples[7].rss_bytes = 9e9;
        assert!((growth_bytes_per_hour(&samples).unwrap() - 7200.0).abs() < 1.0);
        assert_eq!(growth_bytes_per_hour(&samples[..1]), None);
    }

    #[test]
    fn the_longest_generation_counts() {
        let lengths = [3_usize, 100, 5];
        let mut samples = Vec::new();
        for (generation, length) in lengths.iter().enumerate() {
            for index in 0..*length {
                samples.push(sample(generation as u64, index as f64, 0.0));
            }
        }
        let longest = of_longest_generation(&samples);
        assert_eq!((longest.len(), longest[0].generation), (55, 1));
    }
}
