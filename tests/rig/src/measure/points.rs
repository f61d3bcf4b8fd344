//! The grid: which points belong to which figure of the study (Lee et al., An Empirical Study on
//! NVM-based Block I/O Caches, APSys 2018), scaled to devices in a guest's memory.

use super::fio::{Access, Engine, Job};
use super::stage::{Contender, FAST_BYTES};
use super::{KIB, MIB, size_name};

/// What fits the fast device, with room to spare.
pub const FITTING_BYTES: u64 = FAST_BYTES / 2;
/// Requests that each asynchronous job keeps on their way.
const DEPTH: u32 = 4;
/// Random requests.
const SMALL: u64 = 4 * KIB;
/// Sequential requests.
const LARGE: u64 = 4 * MIB;

/// A plot, or two, of the study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Figure {
    /// Synchronous random reads, by block size and working set: what finding the data costs.
    #[value(name = "5")]
    Lookup,
    /// 4 KiB random reads, by threads.
    #[value(name = "7a")]
    ReadsByThreads,
    /// 4 MiB sequential reads, by threads.
    #[value(name = "7b")]
    LargeReadsByThreads,
    /// 4 KiB random requests, by share of writes.
    #[value(name = "8a")]
    SmallByWrites,
    /// 4 MiB sequential requests, by share of writes.
    #[value(name = "8b")]
    LargeByWrites,
    /// 4 KiB random requests, half of them writes, by threads.
    #[value(name = "9")]
    MixByThreads,
    /// 4 KiB random writes with fsync each, by threads; not in the study.
    #[value(name = "fsync")]
    SyncedWrites,
    /// 4 KiB random reads of 16 threads, by working set, past the fast device's end.
    #[value(name = "11")]
    BySet,
}

impl Figure {
    /// All of them, the one that empties the caches last.
    pub const ALL: [Figure; 8] = [
        Figure::Lookup,
        Figure::ReadsByThreads,
        Figure::LargeReadsByThreads,
        Figure::SmallByWrites,
        Figure::LargeByWrites,
        Figure::MixByThreads,
        Figure::SyncedWrites,
        Figure::BySet,
    ];

    /// The beginning of its rows' names.
    pub fn key(self) -> &'static str {
        match self {
            Figure::Lookup => "fig5",
            Figure::ReadsByThreads => "fig7a",
            Figure::LargeReadsByThreads => "fig7b",
            Figure::SmallByWrites => "fig8a",
            Figure::LargeByWrites => "fig8b",
            Figure::MixByThreads => "fig9",
            Figure::SyncedWrites => "fsync",
            Figure::BySet => "fig11",
        }
    }

    /// Its points in order.
    pub fn points(self, is_quick: bool) -> Vec<Point> {
        let numbers = |quick: &'static [u32], full: &'static [u32]| {
            if is_quick { quick } else { full }.iter().copied()
        };
        let threads = || numbers(&[1, 4, 16], &[1, 2, 4, 8, 16]);
        let point = |place: String, key: String, job: Job| Point {
            figure: self,
            place,
            key,
            job,
        };
        let by_threads = |job: &dyn Fn(u32) -> Job, threads: &mut dyn Iterator<Item = u32>| {
            let each = |threads: u32| {
                point(
                    threads.to_string(),
                    format!("threads{threads}"),
                    job(threads),
                )
            };
            threads.map(each).collect::<Vec<_>>()
        };
        let by_writes = |job: &dyn Fn(u32) -> Job, percents: &mut dyn Iterator<Item = u32>| {
            let each = |percent: u32| {
                point(
                    format!("{percent} %"),
                    format!("writes{percent}"),
                    job(percent),
                )
            };
            percents.map(each).collect::<Vec<_>>()
        };
        match self {
            Figure::Lookup => lookup(is_quick),
            Figure::ReadsByThreads => by_threads(&|jobs| small(0, jobs), &mut threads()),
            Figure::LargeReadsByThreads => {
                by_threads(&|jobs| large(0, jobs), &mut numbers(&[1, 4], &[1, 2, 4, 8]))
            }
            Figure::SmallByWrites => by_writes(
                &|percent| small(percent, 1),
                &mut numbers(&[0, 10, 50, 100], &[0, 1, 10, 30, 50, 70, 100]),
            ),
            Figure::LargeByWrites => by_writes(
                &|percent| large(percent, 1),
                &mut numbers(&[0, 50], &[0, 1, 10, 50, 100]),
            ),
            Figure::MixByThreads => by_threads(&|jobs| small(50, jobs), &mut threads()),
            Figure::SyncedWrites => by_threads(&synced, &mut numbers(&[1, 4], &[1, 4, 16])),
            Figure::BySet => by_set(numbers(&[50, 100, 200], &[25, 50, 75, 100, 150, 200])),
        }
    }

    /// Which contenders take part.
    pub fn has(self, contender: Contender) -> bool {
        match self {
            // What is larger than the fast device does not fit it.
            Figure::BySet => contender != Contender::RawFast,
            // One point of a device that is always the slowest is enough.
            _ => contender != Contender::RawSlow,
        }
    }
}

/// One point of a figure: a job, to be done by every contender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Where it belongs.
    pub figure: Figure,
    /// What it is called along the horizontal axis.
    pub place: String,
    /// What it is called in names of rows.
    pub key: String,
    /// What is done.
    pub job: Job,
}

fn small(write_percent: u32, jobs: u32) -> Job {
    Job {
        access: Access::Random,
        engine: Engine::Asynchronous(DEPTH),
        write_percent,
        block_bytes: SMALL,
        span_bytes: FITTING_BYTES,
        jobs,
        is_synced: false,
    }
}

fn large(write_percent: u32, jobs: u32) -> Job {
    Job {
        access: Access::Sequential,
        block_bytes: LARGE,
        ..small(write_percent, jobs)
    }
}

fn synced(jobs: u32) -> Job {
    Job {
        engine: Engine::Synchronous,
        is_synced: true,
        ..small(100, jobs)
    }
}

fn lookup(is_quick: bool) -> Vec<Point> {
    let blocks: &[u64] = if is_quick {
        &[4, 64, 256]
    } else {
        &[4, 16, 64, 256]
    };
    let parts: &[u64] = if is_quick { &[4, 1] } else { &[4, 2, 1] };
    let mut points = Vec::new();
    for part in parts {
        let span_bytes = FITTING_BYTES / part;
        for block in blocks {
            points.push(Point {
                figure: Figure::Lookup,
                place: format!("{block} KiB"),
                key: format!("{block}k_set{}m", span_bytes / MIB),
                job: Job {
                    engine: Engine::Synchronous,
                    block_bytes: block * KIB,
                    span_bytes,
                    ..small(0, 1)
                },
            });
        }
    }
    points
}

fn by_set(percents: impl Iterator<Item = u32>) -> Vec<Point> {
    let each = |percent: u32| {
        let span_bytes = FAST_BYTES * u64::from(percent) / 100;
        Point {
            figure: Figure::BySet,
            place: size_name(span_bytes),
            key: format!("set{}m", span_bytes / MIB),
            job: Job {
                span_bytes,
                ..small(0, 16)
            },
        }
    };
    percents.map(each).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::measure::stage::SLOW_BYTES;

    #[test]
    fn points_have_their_own_names_and_fit_their_devices() {
        for is_quick in [false, true] {
            let mut names = HashSet::new();
            for point in Figure::ALL
                .iter()
                .flat_map(|figure| figure.points(is_quick))
            {
                let job = &point.job;
                assert!(names.insert(format!("{} {}", point.figure.key(), point.key)));
                assert!(job.span_bytes <= SLOW_BYTES);
                assert!(point.figure == Figure::BySet || job.span_bytes <= FITTING_BYTES);
                assert!(
                    job.access == Access::Random
                        || job.span_bytes / u64::from(job.jobs) >= job.block_bytes
                );
            }
        }
    }
}
