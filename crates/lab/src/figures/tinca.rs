//! The figures of Wei et al., Transactional NVM Cache with High Performance and Crash Consistency
//! (SC 2017), over Classic, the other engines and Forebay.

use forebay::EmulatedMedia;
use forebay_harness::Shape;

use super::losses::WRITES_BACK_BESIDE;
use super::{Figure, Paper, Plan, PlannedSeries, figure};
use crate::disk::DiskKind;
use crate::engines::{EngineName, JournalMode};
use crate::experiments::{Cell, Metric, Scope, WorkCell, loads};
use crate::workload::Personality;

const MIXES: [(&str, u32); 3] = [("3/7", 30), ("5/5", 50), ("7/3", 70)];
const PERSONALITIES: [(&str, Personality); 3] = [
    ("fileserver", Personality::Fileserver),
    ("webproxy", Personality::Webproxy),
    ("varmail", Personality::Varmail),
];

/// Users of the TPC-C runs that vary something else (Tinca §5.4).
const USERS: u64 = 20;

const NO_KERNEL: &str = "What is left of a write's time beside lines and the disk is the engine's own work in \
     user space, and on a machine of few cores its background threads'; the paper's has a kernel in it.";
const USERS_TAKE_TURNS: &str = "Users take turns here and spread the work over more warehouses; nothing is \
     contended, as it is in MySQL, so that more users cost little.";
const CLASSIC_CLEANS: &str = "Nearly all writes of this model hit (Figure 12c), so that Tinca hardly writes to the \
     disk, while Classic cleans every set with more than 20 % of dirty blocks, Flashcache's default: hot \
     pages reach the disk again and again.";

/// All of them.
pub(super) fn figures() -> Vec<Figure> {
    let mut figures = motivation();
    figures.extend(local());
    figures.extend(cluster());
    figures.extend(discussion());
    figures
}

fn figure(
    number: &'static str,
    name: &'static str,
    metric: Metric,
    plan: fn(&Scope) -> Plan,
) -> Figure {
    Figure {
        name,
        paper: Paper::Tinca,
        number,
        title: "",
        about: "",
        places_are: "",
        metric,
        baseline: "classic",
        shape: Shape::Bars,
        caveat: "",
        loses: if metric.is_timed() {
            WRITES_BACK_BESIDE
        } else {
            ""
        },
        plan,
    }
}

fn motivation() -> Vec<Figure> {
    vec![
        Figure {
            title: "NVM traffic with and without a journal",
            about: "Bytes persisted in the medium for an operation of three Filebench personalities: Classic \
                    without a journal, Classic with data and metadata journaled, and Forebay, which gives the \
                    same consistency.",
            places_are: "workload",
            baseline: "no-journal",
            caveat: "How much the journal adds depends on how many updates of one block the running \
                     transaction merges before it commits, which the file-system model decides.",
            ..figure("3a", "tinca-3a", Metric::NvmBytesPerOperation, plan_3a)
        },
        Figure {
            title: "what the journal and the flushes cost",
            about: "The same random writes on Classic without a journal and without flushes, with a journal, and with \
                    both. Without flushes the region is declared battery-backed, so that nothing is flushed \
                    and no line is delayed.",
            places_are: "workload",
            baseline: "no-journal-no-flush",
            caveat: "Without lines to wait for, the journal adds copies in memory and blocks that go to the disk in \
                     long runs, and an emulated SSD serves several runs at once.",
            ..figure("3b", "tinca-3b", Metric::WritesPerSecond, plan_3b)
        },
        Figure {
            title: "what updating cache metadata costs",
            about: "Random writes on Classic with its metadata block written for every cached write, and with \
                    that waived, under a file system with and without a journal. Waived, nothing survives a \
                    crash: it is there to be measured only.",
            places_are: "file system",
            caveat: NO_KERNEL,
            ..figure("4", "tinca-4", Metric::WritesPerSecond, plan_4)
        },
    ]
}

fn local() -> Vec<Figure> {
    let fio = "Random reads and writes of 4 KiB over a data set 2.5 times the cache, by how many of ten \
               operations read and write.";
    let tpcc = "TPC-C-like transactions by the number of users.";
    vec![
        Figure {
            title: "write throughput of random mixes",
            about: fio,
            places_are: "reads / writes",
            caveat: NO_KERNEL,
            ..figure("7a", "tinca-7a", Metric::WritesPerSecond, plan_7)
        },
        Figure {
            title: "lines flushed in random mixes",
            about: fio,
            places_are: "reads / writes",
            ..figure("7b", "tinca-7b", Metric::LinesPerWrite, plan_7)
        },
        Figure {
            title: "disk blocks written in random mixes",
            about: fio,
            places_are: "reads / writes",
            ..figure("7c", "tinca-7c", Metric::DiskBlocksPerWrite, plan_7)
        },
        Figure {
            title: "TPC-C throughput",
            about: tpcc,
            places_are: "users",
            shape: Shape::Lines,
            caveat: USERS_TAKE_TURNS,
            ..figure("8a", "tinca-8a", Metric::OperationsPerSecond, plan_8)
        },
        Figure {
            title: "lines flushed for a TPC-C transaction",
            about: tpcc,
            places_are: "users",
            shape: Shape::Lines,
            ..figure("8b", "tinca-8b", Metric::LinesPerOperation, plan_8)
        },
        Figure {
            title: "disk blocks written for a TPC-C transaction",
            about: tpcc,
            places_are: "users",
            shape: Shape::Lines,
            caveat: CLASSIC_CLEANS,
            ..figure("8c", "tinca-8c", Metric::DiskBlocksPerOperation, plan_8)
        },
    ]
}

fn cluster() -> Vec<Figure> {
    let teragen = "TeraGen-like sequential writes by the number of replicas, all on one node.";
    let filebench = "Three Filebench personalities on one node; the paper ran them on four under GlusterFS \
                     with two replicas.";
    let one_node = "One node has all the work here, and one disk bounds every design; the paper's four nodes \
                    shared it, and its times have the network in them.";
    vec![
        Figure {
            title: "time to write TeraGen's rows",
            about: teragen,
            places_are: "replicas",
            caveat: one_node,
            ..figure("10a", "tinca-10a", Metric::TimePerWrite, plan_10)
        },
        Figure {
            title: "lines flushed for TeraGen's rows",
            about: teragen,
            places_are: "replicas",
            caveat: one_node,
            ..figure("10b", "tinca-10b", Metric::LinesPerWrite, plan_10)
        },
        Figure {
            title: "disk blocks written for TeraGen's rows",
            about: teragen,
            places_are: "replicas",
            caveat: one_node,
            ..figure("10c", "tinca-10c", Metric::DiskBlocksPerWrite, plan_10)
        },
        Figure {
            title: "Filebench throughput",
            about: filebench,
            places_are: "workload",
            caveat: one_node,
            ..figure("11a", "tinca-11a", Metric::OperationsPerSecond, plan_11)
        },
        Figure {
            title: "lines flushed for a file operation",
            about: filebench,
            places_are: "workload",
            ..figure("11b", "tinca-11b", Metric::LinesPerOperation, plan_11)
        },
        Figure {
            title: "disk blocks written for a file operation",
            about: filebench,
            places_are: "workload",
            ..figure("11c", "tinca-11c", Metric::DiskBlocksPerOperation, plan_11)
        },
    ]
}

fn discussion() -> Vec<Figure> {
    vec![
        Figure {
            title: "TPC-C throughput by the kind of disk",
            about: "20 users, emulated PCM, in front of an emulated SSD and an emulated HDD.",
            places_are: "disk",
            ..figure("12a", "tinca-12a", Metric::OperationsPerSecond, plan_12a)
        },
        Figure {
            title: "TPC-C throughput by the kind of memory",
            about: "20 users, in front of an emulated SSD, with the delays of PCM, of STT-RAM and none.",
            places_are: "medium",
            caveat: CLASSIC_CLEANS,
            ..figure("12b", "tinca-12b", Metric::OperationsPerSecond, plan_12b)
        },
        Figure {
            title: "write hit ratio under TPC-C",
            about: "20 users: how many of the blocks that a transaction writes were cached already.",
            places_are: "medium, disk",
            caveat: "The hit ratio is that of this model's page choice, not of MySQL's.",
            ..figure("12c", "tinca-12c", Metric::WriteHitRatio, plan_12c)
        },
        Figure {
            title: "blocks of a transaction",
            about: "Blocks that a transaction changes, on average, after those written twice are merged.",
            places_are: "workload",
            baseline: "tinca",
            caveat: "Not judged, as it is put in and not found out: nothing syncs, the model's transactions end where the journal is \
                     full (fileserver) or at half of that (webproxy, in the place of a timer). The paper's fileserver has about 8,000 \
                     blocks a transaction (§5.4.3); here transactions are scaled down with everything else.",
            ..figure("13", "tinca-13", Metric::BlocksPerTransaction, plan_13)
        },
    ]
}

/// A series for each engine of the scope; at each place the cell that `cell` gives.
fn by_engine<Place: Copy>(
    scope: &Scope,
    places: &[(&str, Place)],
    cell: impl Fn(EngineName, Place) -> WorkCell,
) -> Plan {
    figure::by_engine(scope, places, |engine, place| {
        Cell::Work(cell(engine, place))
    })
}

/// A series of Classic's, or of another engine's under a name of its own.
fn variant<const PLACES: usize>(
    key: &'static str,
    name: &str,
    cells: [WorkCell; PLACES],
) -> PlannedSeries {
    PlannedSeries {
        key,
        name: name.to_owned(),
        cells: cells.map(|cell| Some(Cell::Work(cell))).into(),
    }
}

fn plan_3a(scope: &Scope) -> Plan {
    let cells = |engine, journal_mode| {
        PERSONALITIES.map(|(_, personality)| WorkCell {
            journal_mode,
            ..WorkCell::new(engine, loads::filebench(scope.scale, personality))
        })
    };
    let mut series = vec![
        variant(
            "no-journal",
            "no journal",
            cells(EngineName::Classic, JournalMode::None),
        ),
        variant(
            "journal",
            "data journal",
            cells(EngineName::Classic, JournalMode::Data),
        ),
    ];
    series.extend(forebay(
        scope,
        cells(EngineName::Forebay, JournalMode::Data),
    ));
    Plan {
        places: PERSONALITIES.map(|(name, _)| name.to_owned()).into(),
        series,
    }
}

/// Forebay beside Classic's variants, where it is asked for.
fn forebay<const PLACES: usize>(scope: &Scope, cells: [WorkCell; PLACES]) -> Option<PlannedSeries> {
    let is_asked = scope.engines.contains(&EngineName::Forebay);
    is_asked.then(|| variant("forebay", "forebay", cells))
}

fn plan_3b(scope: &Scope) -> Plan {
    let cell = |engine, journal_mode, has_flushes| WorkCell {
        journal_mode,
        has_flushes,
        ..WorkCell::new(engine, loads::fio(scope.scale, 0))
    };
    let classic = |mode, has_flushes| [cell(EngineName::Classic, mode, has_flushes)];
    let mut series = vec![
        variant(
            "no-journal-no-flush",
            "no journal, no flush",
            classic(JournalMode::None, false),
        ),
        variant(
            "journal-no-flush",
            "journal, no flush",
            classic(JournalMode::Data, false),
        ),
        variant(
            "journal",
            "journal, flush",
            classic(JournalMode::Data, true),
        ),
    ];
    series.extend(forebay(
        scope,
        [cell(EngineName::Forebay, JournalMode::Data, true)],
    ));
    Plan {
        places: vec!["fio".into()],
        series,
    }
}

fn plan_4(scope: &Scope) -> Plan {
    let cells = |engine, updates_metadata| {
        [JournalMode::Data, JournalMode::None].map(|mode| WorkCell {
            // Only Classic has a journal to leave out.
            journal_mode: match engine {
                EngineName::Classic => mode,
                _ => JournalMode::Data,
            },
            updates_metadata,
            ..WorkCell::new(engine, loads::fio(scope.scale, 0))
        })
    };
    let mut series = vec![
        variant("classic", "classic", cells(EngineName::Classic, true)),
        variant(
            "no-metadata",
            "no metadata updates",
            cells(EngineName::Classic, false),
        ),
    ];
    series.extend(forebay(scope, cells(EngineName::Forebay, true)));
    Plan {
        places: vec!["journal".into(), "no journal".into()],
        series,
    }
}

fn plan_7(scope: &Scope) -> Plan {
    by_engine(scope, &MIXES, |engine, read_percent| {
        WorkCell::new(engine, loads::fio(scope.scale, read_percent))
    })
}

fn plan_8(scope: &Scope) -> Plan {
    let users: &[(&str, u64)] = match scope.is_quick {
        true => &[("5", 5), ("20", 20), ("60", 60)],
        false => &[
            ("5", 5),
            ("10", 10),
            ("15", 15),
            ("20", 20),
            ("40", 40),
            ("60", 60),
        ],
    };
    by_engine(scope, users, |engine, users| {
        WorkCell::new(engine, loads::tpcc(scope.scale, users))
    })
}

fn plan_10(scope: &Scope) -> Plan {
    by_engine(
        scope,
        &[("1", 1), ("2", 2), ("3", 3)],
        |engine, replicas| WorkCell::new(engine, loads::teragen(scope.scale, replicas)),
    )
}

fn plan_11(scope: &Scope) -> Plan {
    by_engine(scope, &PERSONALITIES, |engine, personality| {
        WorkCell::new(engine, loads::filebench(scope.scale, personality))
    })
}

fn plan_12a(scope: &Scope) -> Plan {
    let disks = [("SSD", DiskKind::Ssd), ("HDD", DiskKind::Hdd)];
    by_engine(scope, &disks, |engine, disk| WorkCell {
        disk,
        ..WorkCell::new(engine, loads::tpcc(scope.scale, USERS))
    })
}

fn plan_12b(scope: &Scope) -> Plan {
    let media = [
        ("PCM", EmulatedMedia::Pcm),
        ("STT-RAM", EmulatedMedia::SttRam),
        ("NVDIMM", EmulatedMedia::Nvdimm),
    ];
    by_engine(scope, &media, |engine, media| WorkCell {
        media,
        ..WorkCell::new(engine, loads::tpcc(scope.scale, USERS))
    })
}

fn plan_12c(scope: &Scope) -> Plan {
    by_engine(scope, &[("PCM, SSD", USERS)], |engine, users| {
        WorkCell::new(engine, loads::tpcc(scope.scale, users))
    })
}

fn plan_13(scope: &Scope) -> Plan {
    by_engine(scope, &PERSONALITIES[..2], |engine, personality| {
        WorkCell::new(engine, loads::filebench(scope.scale, personality))
    })
}
