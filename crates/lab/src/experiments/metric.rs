//! What figures and tables show of a measurement.

use forebay::EmulatedMedia;

use super::Outcome;
use crate::measure::Measurement;

/// One number of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Application writes a second.
    WritesPerSecond,
    /// Application operations a second.
    OperationsPerSecond,
    /// Microseconds of an application write, everything included.
    TimePerWrite,
    /// Cache lines flushed and streamed for an application write.
    LinesPerWrite,
    /// Cache lines flushed and streamed for an application operation.
    LinesPerOperation,
    /// Fences for an application write.
    FencesPerWrite,
    /// Bytes persisted in the medium for a byte that the application wrote.
    NvmBytesPerPayloadByte,
    /// Bytes persisted in the medium for an application operation.
    NvmBytesPerOperation,
    /// Blocks of 4 KiB written to the disk for an application write.
    DiskBlocksPerWrite,
    /// Blocks of 4 KiB written to the disk for an application operation.
    DiskBlocksPerOperation,
    /// Share of blocks read or written that were cached.
    HitRatio,
    /// Share of blocks written that were cached.
    WriteHitRatio,
    /// Blocks that a transaction changed, on average.
    BlocksPerTransaction,
    /// Microseconds that the medium's emulated delay for lines takes of an application write, on
    /// whichever thread.
    LineDelayPerWrite,
    /// Runs of blocks written to the disk for an application write.
    DiskRequestsPerWrite,
    /// Requests that read from the disk for an application write.
    DiskReadsPerWrite,
    /// Requests a second, of the study's jobs.
    RequestsPerSecond,
    /// Bytes a second, of the study's jobs.
    BytesPerSecond,
    /// Nanoseconds of a request as its thread sees it, of the study's jobs.
    ResponseTime,
}

impl Metric {
    /// What a table shows of an outcome.
    #[must_use]
    pub fn all_of(outcome: &Outcome) -> &'static [Metric] {
        match outcome {
            Outcome::Work(_) => Metric::OF_WORK,
            Outcome::Blocks(_) => Metric::OF_BLOCKS,
        }
    }

    /// What a table of exact counts and of times has of a workload.
    pub const OF_WORK: &'static [Metric] = &[
        Metric::LinesPerWrite,
        Metric::FencesPerWrite,
        Metric::NvmBytesPerPayloadByte,
        Metric::DiskBlocksPerWrite,
        Metric::HitRatio,
        Metric::WriteHitRatio,
        Metric::BlocksPerTransaction,
        Metric::WritesPerSecond,
        Metric::OperationsPerSecond,
    ];

    /// What explains a workload's speed.
    pub const OF_TIME: &'static [Metric] = &[
        Metric::TimePerWrite,
        Metric::LineDelayPerWrite,
        Metric::DiskBlocksPerWrite,
        Metric::DiskRequestsPerWrite,
        Metric::DiskReadsPerWrite,
    ];

    /// What it has of one of the study's jobs.
    pub const OF_BLOCKS: &'static [Metric] = &[
        Metric::RequestsPerSecond,
        Metric::BytesPerSecond,
        Metric::ResponseTime,
    ];

    /// As in JSON and CSV.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Metric::WritesPerSecond => "writes_per_s",
            Metric::OperationsPerSecond => "ops_per_s",
            Metric::TimePerWrite => "time_per_write_us",
            Metric::LinesPerWrite => "lines_per_write",
            Metric::LinesPerOperation => "lines_per_operation",
            Metric::FencesPerWrite => "fences_per_write",
            Metric::NvmBytesPerPayloadByte => "nvm_bytes_per_payload_byte",
            Metric::NvmBytesPerOperation => "nvm_bytes_per_operation",
            Metric::DiskBlocksPerWrite => "disk_blocks_per_write",
            Metric::DiskBlocksPerOperation => "disk_blocks_per_operation",
            Metric::HitRatio => "hit_ratio",
            Metric::WriteHitRatio => "write_hit_ratio",
            Metric::BlocksPerTransaction => "blocks_per_transaction",
            Metric::LineDelayPerWrite => "line_delay_per_write_us",
            Metric::DiskRequestsPerWrite => "disk_write_requests_per_write",
            Metric::DiskReadsPerWrite => "disk_read_requests_per_write",
            Metric::RequestsPerSecond => "requests_per_s",
            Metric::BytesPerSecond => "bytes_per_s",
            Metric::ResponseTime => "response_ns",
        }
    }

    /// For people, with its unit.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Metric::WritesPerSecond => "writes/s",
            Metric::OperationsPerSecond => "operations/s",
            Metric::TimePerWrite => "µs per write",
            Metric::LinesPerWrite => "lines/write",
            Metric::LinesPerOperation => "lines/operation",
            Metric::FencesPerWrite => "fences/write",
            Metric::NvmBytesPerPayloadByte => "NVM bytes/byte",
            Metric::NvmBytesPerOperation => "NVM bytes/operation",
            Metric::DiskBlocksPerWrite => "disk blocks/write",
            Metric::DiskBlocksPerOperation => "disk blocks/operation",
            Metric::HitRatio => "hit ratio",
            Metric::WriteHitRatio => "write hits",
            Metric::BlocksPerTransaction => "blocks/commit",
            Metric::LineDelayPerWrite => "µs of it for lines",
            Metric::DiskRequestsPerWrite => "write requests/write",
            Metric::DiskReadsPerWrite => "read requests/write",
            Metric::RequestsPerSecond => "requests/s",
            Metric::BytesPerSecond => "bytes/s",
            Metric::ResponseTime => "response time, ns",
        }
    }

    /// Whether it is a time or made of one, which depends on the machine and on what else it does; all others are counts.
    #[must_use]
    pub const fn is_timed(self) -> bool {
        matches!(
            self,
            Metric::WritesPerSecond
                | Metric::OperationsPerSecond
                | Metric::TimePerWrite
                | Metric::RequestsPerSecond
                | Metric::BytesPerSecond
                | Metric::ResponseTime
        )
    }

    /// Whether a cache with less of it is the better one; none where neither is.
    #[must_use]
    pub const fn is_less_better(self) -> Option<bool> {
        match self {
            Metric::WritesPerSecond
            | Metric::OperationsPerSecond
            | Metric::RequestsPerSecond
            | Metric::BytesPerSecond
            | Metric::HitRatio
            | Metric::WriteHitRatio => Some(false),
            Metric::BlocksPerTransaction => None,
            _ => Some(true),
        }
    }

    /// The number; none where the measurement has no such thing.
    #[must_use]
    pub fn of(self, outcome: &Outcome) -> Option<f64> {
        let value = match outcome {
            Outcome::Work(work) => self.of_work(&work.measurement, work.media)?,
            Outcome::Blocks(blocks) => match self {
                Metric::RequestsPerSecond => blocks.requests_per_s,
                Metric::BytesPerSecond => blocks.bytes_per_s,
                Metric::ResponseTime => blocks.response_ns,
                _ => return None,
            },
        };
        value.is_finite().then_some(value)
    }

    fn of_work(self, work: &Measurement, media: EmulatedMedia) -> Option<f64> {
        let each_write = |count: u64| count as f64 / work.asked.writes as f64;
        Some(match self {
            Metric::WritesPerSecond => work.writes_per_s(),
            Metric::OperationsPerSecond => work.ops_per_s(),
            Metric::TimePerWrite => 1e6 / work.writes_per_s(),
            Metric::LinesPerWrite => work.lines_per_write(),
            Metric::LinesPerOperation => work.lines_per_operation(),
            Metric::FencesPerWrite => work.fences_per_write(),
            Metric::NvmBytesPerPayloadByte => work.nvm_bytes_per_payload_byte(),
            Metric::NvmBytesPerOperation => {
                work.done.memory.bytes as f64 / work.operations.max(1) as f64
            }
            Metric::DiskBlocksPerWrite => work.disk_blocks_per_write(),
            Metric::DiskBlocksPerOperation => work.disk_blocks_per_operation(),
            Metric::HitRatio => work.hit_ratio(),
            Metric::WriteHitRatio => work.write_hit_ratio(),
            Metric::BlocksPerTransaction => work.blocks_per_transaction(),
            Metric::LineDelayPerWrite => {
                let delay_ns = work.done.memory.lines() * media.write_ns_per_line();
                each_write(delay_ns) / 1e3
            }
            Metric::DiskRequestsPerWrite => each_write(work.done.backing.writes),
            Metric::DiskReadsPerWrite => each_write(work.done.backing.reads),
            Metric::RequestsPerSecond | Metric::BytesPerSecond | Metric::ResponseTime => {
                return None;
            }
        })
    }
}
