//! The figures of the study whose requests are followed through the layers, and Figure 1.

use super::contender::Contender;
use crate::measure::fio::{Access, Engine, Job};
use crate::measure::{KIB, MIB};

/// Of each contender's file; it fits the fast devices, with room to spare.
pub const SPAN_BYTES: u64 = 32 * MIB;
/// Requests that each asynchronous job keeps on their way.
const DEPTH: u32 = 4;

/// A figure of the study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Figure {
    /// Throughput of devices and caches.
    #[value(name = "1")]
    Devices,
    /// Where the time of small requests goes, devices alone.
    #[value(name = "4")]
    Alone,
    /// The same of a lookup, small and large.
    #[value(name = "6")]
    Lookup,
    /// The same of reads and writes of many threads; Table 1 too.
    #[value(name = "10")]
    Mixed,
}

impl Figure {
    /// All of them.
    pub const ALL: [Figure; 4] = [
        Figure::Devices,
        Figure::Alone,
        Figure::Lookup,
        Figure::Mixed,
    ];

    /// The beginning of its rows' names.
    pub fn key(self) -> &'static str {
        match self {
            Figure::Devices => "fig1",
            Figure::Alone => "fig4",
            Figure::Lookup => "fig6",
            Figure::Mixed => "fig10",
        }
    }

    /// What takes part.
    pub fn contenders(self) -> &'static [Contender] {
        use Contender::{BcacheNvmSsd, BcacheSsdHdd, DmCacheNvmSsd, DmCacheSsdHdd, Nvm, Ours, Ssd};
        match self {
            Figure::Devices => &Contender::ALL,
            Figure::Alone => &[Nvm, Ssd, Ours],
            Figure::Lookup => &[Nvm, BcacheNvmSsd, DmCacheNvmSsd, Ours],
            Figure::Mixed => &[
                Nvm,
                BcacheNvmSsd,
                BcacheSsdHdd,
                DmCacheNvmSsd,
                DmCacheSsdHdd,
                Ours,
            ],
        }
    }

    /// Its points in order.
    pub fn points(self) -> Vec<Point> {
        let point = |key: &'static str, place: &'static str, job: Job| Point {
            figure: self,
            key,
            place,
            job,
        };
        match self {
            Figure::Devices => vec![point(
                "threads16",
                "16 threads, half writes",
                Job {
                    access: Access::RandomApart,
                    ..asynchronous(16)
                },
            )],
            Figure::Alone => vec![
                point("reads", "4 KiB reads, 4 threads", synchronous(4, 4, 0)),
                point("writes", "4 KiB writes, 4 threads", synchronous(4, 4, 100)),
            ],
            Figure::Lookup => vec![
                point("4k", "4 KiB reads", synchronous(4, 1, 0)),
                point("64k", "64 KiB reads", synchronous(64, 1, 0)),
            ],
            Figure::Mixed => vec![point("threads8", "8 threads, half writes", asynchronous(8))],
        }
    }
}

/// One point of a figure: a job, to be done by each contender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Where it belongs.
    pub figure: Figure,
    /// What it is called in names of rows.
    pub key: &'static str,
    /// What it is called for people.
    pub place: &'static str,
    /// What is done.
    pub job: Job,
}

fn synchronous(block_kib: u64, jobs: u32, write_percent: u32) -> Job {
    Job {
        access: Access::Random,
        engine: Engine::Synchronous,
        write_percent,
        block_bytes: block_kib * KIB,
        span_bytes: SPAN_BYTES,
        jobs,
        is_synced: false,
    }
}

fn asynchronous(jobs: u32) -> Job {
    Job {
        engine: Engine::Asynchronous(DEPTH),
        ..synchronous(4, jobs, 50)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_have_names_of_their_own_and_contenders_too() {
        let points = Figure::ALL.iter().flat_map(|figure| figure.points());
        let mut names: Vec<String> = points
            .map(|point| format!("{}_{}", point.figure.key(), point.key))
            .chain(Contender::ALL.map(Contender::key))
            .collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
