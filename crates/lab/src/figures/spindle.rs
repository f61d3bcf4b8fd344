//! The figures of Yan et al., Spindle: A Write-Optimized NVM Cache for Journaling File System
//! (NPC 2019), over Tinca, the other engines and Forebay.

use forebay_harness::Shape;

use super::figure::by_engine;
use super::losses::WRITES_BACK_BESIDE;
use super::{Figure, Paper, Plan};
use crate::disk::DiskKind;
use crate::engines::EngineName;
use crate::experiments::{Cell, Metric, Scope, WorkCell, loads};
use crate::workload::{Personality, WorkloadSpec};

/// How many of ten operations read and write, and the share that reads.
const MIXES: [(&str, u32); 5] = [
    ("0/10", 0),
    ("3/7", 30),
    ("5/5", 50),
    ("7/3", 70),
    ("10/0", 100),
];

/// All of them.
pub(super) fn figures() -> Vec<Figure> {
    let fio = "Random reads and writes of 4 KiB by how many of ten operations read and write. Reads change \
               their file's access time, so they commit metadata too.";
    vec![
        Figure {
            number: "5a",
            title: "throughput of random mixes",
            about: fio,
            places_are: "reads / writes",
            caveat: "The paper's machine has DRAM for the whole data set, so reads do not come to the cache here \
                     either. Its times have a kernel in them, ours only the engine: where nearly all operations \
                     read, nothing but inodes is left of ours.",
            ..figure("spindle-5a", Metric::OperationsPerSecond, plan_5)
        },
        Figure {
            number: "5b",
            title: "lines flushed in random mixes",
            about: fio,
            places_are: "reads / writes",
            ..figure("spindle-5b", Metric::LinesPerOperation, plan_5)
        },
        by_file_size("fileserver", "spindle-6-fileserver", |scope| {
            plan_6(scope, Personality::Fileserver)
        }),
        by_file_size("webproxy", "spindle-6-webproxy", |scope| {
            plan_6(scope, Personality::Webproxy)
        }),
        by_file_size("varmail", "spindle-6-varmail", |scope| {
            plan_6(scope, Personality::Varmail)
        }),
    ]
}

fn by_file_size(title: &'static str, name: &'static str, plan: fn(&Scope) -> Plan) -> Figure {
    Figure {
        number: "6",
        title,
        about: "Throughput of a Filebench personality by the mean size of its files. The paper names no sizes.",
        places_are: "mean file size",
        caveat: "The paper's machine has DRAM for the whole data set, so reads do not come to the cache. Its \
                 file sizes are in its plot only, so ours need not be the same.",
        ..figure(name, Metric::OperationsPerSecond, plan)
    }
}

fn figure(name: &'static str, metric: Metric, plan: fn(&Scope) -> Plan) -> Figure {
    Figure {
        name,
        paper: Paper::Spindle,
        number: "",
        title: "",
        about: "",
        places_are: "",
        metric,
        baseline: "tinca",
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

fn plan_5(scope: &Scope) -> Plan {
    by_engine(scope, &MIXES, |engine, read_percent| {
        on_its_machine(engine, loads::fio_of_spindle(scope.scale, read_percent))
    })
}

fn plan_6(scope: &Scope, personality: Personality) -> Plan {
    let sizes: &[(&str, u64)] = match scope.is_quick {
        true => &[("16 KiB", 16), ("128 KiB", 128)],
        false => &[
            ("16 KiB", 16),
            ("32 KiB", 32),
            ("64 KiB", 64),
            ("128 KiB", 128),
            ("256 KiB", 256),
        ],
    };
    by_engine(scope, sizes, |engine, kib| {
        let load = loads::filebench_of_size(scope.scale, personality, kib << 10);
        on_its_machine(engine, load)
    })
}

fn on_its_machine(engine: EngineName, load: WorkloadSpec) -> Cell {
    Cell::Work(WorkCell {
        disk: DiskKind::PagedHdd,
        ..WorkCell::new(engine, load)
    })
}
