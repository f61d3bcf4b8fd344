//! The papers' workloads at a scale, with what their figures vary.

use crate::workload::{
    FilebenchOptions, FioOptions, Personality, Scale, TINCA_PAGES_BYTES, TeraGenOptions,
    TpccOptions, WorkloadSpec,
};

/// Random reads and writes of 4 KiB, so many of a hundred reads (Tinca Table 2).
pub(crate) fn fio(scale: Scale, read_percent: u32) -> WorkloadSpec {
    WorkloadSpec::Fio(FioOptions::of_tinca(scale, read_percent))
}

/// The same as Spindle's paper has it (Table 1).
pub(crate) fn fio_of_spindle(scale: Scale, read_percent: u32) -> WorkloadSpec {
    WorkloadSpec::Fio(FioOptions::of_spindle(scale, read_percent))
}

/// TPC-C by so many users (Tinca §5.2.2).
pub(crate) fn tpcc(scale: Scale, users: u64) -> WorkloadSpec {
    WorkloadSpec::Tpcc(TpccOptions::new(scale, users))
}

/// TeraGen's rows, each written so many times (Tinca §5.3.1).
pub(crate) fn teragen(scale: Scale, replicas: u32) -> WorkloadSpec {
    WorkloadSpec::TeraGen(TeraGenOptions::new(scale, replicas))
}

/// A personality of Filebench on Tinca's machines (Tinca §5.3.2).
pub(crate) fn filebench(scale: Scale, personality: Personality) -> WorkloadSpec {
    WorkloadSpec::Filebench(FilebenchOptions {
        page_cache_bytes: scale.bytes(TINCA_PAGES_BYTES),
        ..FilebenchOptions::new(scale, personality)
    })
}

/// The same with files of so many bytes on average (Spindle §5.3).
pub(crate) fn filebench_of_size(
    scale: Scale,
    personality: Personality,
    file_bytes: u64,
) -> WorkloadSpec {
    WorkloadSpec::Filebench(FilebenchOptions {
        file_bytes,
        ..FilebenchOptions::new(scale, personality)
    })
}

/// Operations to measure: fewer of those that are large, so that cells take about as long.
pub(crate) fn operations(workload: &WorkloadSpec, is_quick: bool) -> u64 {
    let quick = match workload {
        WorkloadSpec::Fio(_) | WorkloadSpec::Metadata(_) => 8192,
        WorkloadSpec::Filebench(options) => match options.personality {
            Personality::Fileserver => 1024,
            Personality::Webproxy | Personality::Varmail => 4096,
        },
        WorkloadSpec::Tpcc(_) => 1024,
        // A packet of 16 blocks for each replica.
        WorkloadSpec::TeraGen(options) => 256 / u64::from(options.replicas.max(1)),
        WorkloadSpec::Trace { trace, .. } => return trace.requests(),
    };
    match is_quick {
        true => quick,
        false => 8 * quick,
    }
}

/// Operations for a row of every engine on every workload: those on which conclusions rest, so that the fastest engine takes some
/// tenths of a second, in which the cache is replaced several times.
pub(crate) fn counted_operations(workload: &WorkloadSpec, is_quick: bool) -> u64 {
    let times = match workload {
        WorkloadSpec::TeraGen(_) | WorkloadSpec::Tpcc(_) => 2,
        WorkloadSpec::Filebench(options) if options.personality == Personality::Fileserver => 2,
        WorkloadSpec::Trace { .. } => 1,
        _ => 4,
    };
    times * operations(workload, is_quick)
}

/// What a workload is called in progress and failures.
pub(crate) fn name(workload: &WorkloadSpec) -> String {
    match workload {
        WorkloadSpec::Fio(options) => format!("fio, {} % reads", options.read_percent),
        WorkloadSpec::Filebench(options) => format!(
            "{}, files of {} KiB",
            options.personality.as_str(),
            options.file_bytes >> 10
        ),
        WorkloadSpec::TeraGen(options) => format!("teragen, {} replicas", options.replicas),
        WorkloadSpec::Tpcc(options) => format!("tpcc, {} users", options.users),
        WorkloadSpec::Metadata(_) => "metadata".to_owned(),
        WorkloadSpec::Trace { trace, .. } => format!("the trace {}", trace.name()),
    }
}
