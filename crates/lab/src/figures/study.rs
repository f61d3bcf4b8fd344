//! The figures of Lee et al., An Empirical Study on NVM-based Block I/O Caches (APSys 2018), over
//! the engines and the memory beneath them. The study's own contenders, bcache and dm-cache, are in
//! `make rig-grid`; here only their reported numbers stand beside the engines.

use forebay_harness::Shape;

use super::losses::CHECKS_READS;
use super::{Figure, Paper, Plan, PlannedSeries};
use crate::experiments::{BlockCell, BlockJob, Cell, Contender, Metric, Pattern, Scope};

const SMALL: usize = 4 << 10;
const LARGE: usize = 4 << 20;

/// So much of the cache every engine holds with room to spare, its own areas and Classic's journal
/// included.
const FITTING_HALF: u64 = 2;

const IN_USER_SPACE: &str = "The study's requests go through the kernel, which costs raw memory as much as \
     the caches; here raw memory is a copy and nothing else, so what finding a block costs shows in full.";
const FEW_CORES: &str = "The study's machine has 20 hardware threads. Beyond the cores of this one, more \
     threads only wait for each other.";

/// All of them.
pub(super) fn figures() -> Vec<Figure> {
    let mut figures = reads();
    figures.extend(writes());
    figures
}

fn reads() -> Vec<Figure> {
    let lookup = "Response time of one thread's random reads by their size, divided by raw memory's. All is \
                  cached.";
    vec![
        Figure {
            number: "5",
            title: "lookup, working set an eighth of the cache",
            about: lookup,
            places_are: "bytes of a read",
            caveat: IN_USER_SPACE,
            ..figure("study-5-eighth", Metric::ResponseTime, |scope| {
                plan_5(scope, 8)
            })
        },
        Figure {
            number: "5",
            title: "lookup, working set half of the cache",
            about: lookup,
            places_are: "bytes of a read",
            caveat: IN_USER_SPACE,
            ..figure("study-5-half", Metric::ResponseTime, |scope| {
                plan_5(scope, FITTING_HALF)
            })
        },
        Figure {
            number: "7a",
            title: "concurrency, small random reads",
            about: "Random reads of 4 KiB by the number of threads. All is cached.",
            places_are: "threads",
            shape: Shape::Lines,
            caveat: FEW_CORES,
            ..figure("study-7a", Metric::RequestsPerSecond, |scope| {
                by_threads(scope, 0, SMALL, Pattern::Random)
            })
        },
        Figure {
            number: "7b",
            title: "concurrency, large sequential reads",
            about: "Sequential reads of 4 MiB by the number of threads. All is cached.",
            places_are: "threads",
            shape: Shape::Lines,
            caveat: FEW_CORES,
            ..figure("study-7b", Metric::BytesPerSecond, |scope| {
                by_threads(scope, 0, LARGE, Pattern::Sequential)
            })
        },
        Figure {
            number: "11",
            title: "working sets beyond the cache",
            about: "Random reads of 4 KiB of 16 threads by the size of the working set, in front of an \
                    emulated SSD. Each working set is read once before; raw memory has no beyond. In the time of one processor that \
                    skips waits: what the threads compute counts, one after the other, and when all wait the clock goes on to the end of \
                    the first wait. So it depends neither on the host's cores nor on how exactly they sleep.",
            places_are: "working set ÷ cache",
            shape: Shape::Lines,
            baseline: "classic",
            ..figure("study-11", Metric::RequestsPerSecond, plan_11)
        },
    ]
}

fn writes() -> Vec<Figure> {
    vec![
        Figure {
            number: "8a",
            title: "read/write ratio, small random requests",
            about: "One thread's random requests of 4 KiB by how many of a hundred write. Every write is \
                    durable when it returns, on raw memory too.",
            places_are: "writes",
            shape: Shape::Lines,
            caveat: IN_USER_SPACE,
            ..figure("study-8a", Metric::RequestsPerSecond, |scope| {
                by_writes(scope, SMALL, Pattern::Random)
            })
        },
        Figure {
            number: "8b",
            title: "read/write ratio, large sequential requests",
            about: "One thread's sequential requests of 4 MiB by how many of a hundred write. A request \
                    larger than an engine's transactions takes several.",
            places_are: "writes",
            shape: Shape::Lines,
            caveat: IN_USER_SPACE,
            ..figure("study-8b", Metric::BytesPerSecond, |scope| {
                by_writes(scope, LARGE, Pattern::Sequential)
            })
        },
        Figure {
            number: "9",
            title: "concurrency, reads and writes",
            about: "Random requests of 4 KiB, half of them writes, by the number of threads.",
            places_are: "threads",
            shape: Shape::Lines,
            caveat: FEW_CORES,
            ..figure("study-9", Metric::RequestsPerSecond, |scope| {
                by_threads(scope, 50, SMALL, Pattern::Random)
            })
        },
    ]
}

fn figure(name: &'static str, metric: Metric, plan: fn(&Scope) -> Plan) -> Figure {
    Figure {
        name,
        paper: Paper::Study,
        number: "",
        title: "",
        about: "",
        places_are: "",
        metric,
        baseline: "raw",
        shape: Shape::Bars,
        caveat: "",
        loses: CHECKS_READS,
        plan,
    }
}

/// A series for raw memory, if `has_raw`, and for each engine; at each place the job that `job`
/// gives.
fn by_contender<Place: Copy>(
    scope: &Scope,
    places: &[(&str, Place)],
    has_raw: bool,
    job: impl Fn(Place) -> BlockJob,
) -> Plan {
    let raw = has_raw.then_some(("raw", Contender::Raw));
    let engines = scope.engines.iter();
    let engines = engines.map(|engine| (engine.as_str(), Contender::Engine(*engine)));
    let series = raw.into_iter().chain(engines).map(|(key, contender)| {
        let cells = places.iter().map(|(_, place)| {
            Some(Cell::Blocks(BlockCell {
                contender,
                job: job(*place),
            }))
        });
        PlannedSeries {
            key,
            name: contender.to_string(),
            cells: cells.collect(),
        }
    });
    Plan {
        series: series.collect(),
        places: places.iter().map(|(name, _)| (*name).to_owned()).collect(),
    }
}

fn plan_5(scope: &Scope, part: u64) -> Plan {
    let sizes = [
        ("4 KiB", 4_usize << 10),
        ("16 KiB", 16 << 10),
        ("64 KiB", 64 << 10),
        ("256 KiB", 256 << 10),
    ];
    by_contender(scope, &sizes, true, |request_bytes| BlockJob {
        threads: 1,
        request_bytes,
        span_bytes: scope.study_cache_bytes() / part,
        write_percent: 0,
        pattern: Pattern::Random,
        skips_waits: false,
    })
}

fn by_threads(scope: &Scope, write_percent: u8, request_bytes: usize, pattern: Pattern) -> Plan {
    let threads = [("1", 1_usize), ("2", 2), ("4", 4), ("8", 8), ("16", 16)];
    by_contender(scope, &threads, true, |threads| BlockJob {
        threads,
        request_bytes,
        span_bytes: scope.study_cache_bytes() / FITTING_HALF,
        write_percent,
        pattern,
        skips_waits: false,
    })
}

fn by_writes(scope: &Scope, request_bytes: usize, pattern: Pattern) -> Plan {
    let shares: &[(&str, u8)] = match scope.is_quick {
        true => &[("0 %", 0), ("1 %", 1), ("50 %", 50), ("100 %", 100)],
        false => &[
            ("0 %", 0),
            ("1 %", 1),
            ("10 %", 10),
            ("25 %", 25),
            ("50 %", 50),
            ("75 %", 75),
            ("100 %", 100),
        ],
    };
    by_contender(scope, shares, true, |write_percent| BlockJob {
        threads: 1,
        request_bytes,
        span_bytes: scope.study_cache_bytes() / FITTING_HALF,
        write_percent,
        pattern,
        skips_waits: false,
    })
}

fn plan_11(scope: &Scope) -> Plan {
    let quarters = [("0.5", 2_u64), ("1", 4), ("2", 8), ("4", 16)];
    by_contender(scope, &quarters, false, |quarters| BlockJob {
        threads: 16,
        request_bytes: SMALL,
        span_bytes: scope.study_cache_bytes() * quarters / 4,
        write_percent: 0,
        pattern: Pattern::Random,
        skips_waits: true,
    })
}
