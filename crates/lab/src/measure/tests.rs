//! The same cell twice has the same counts.

use super::*;
use crate::disk::DiskKind;
use crate::engines::{EngineName, Watermarks};
use crate::workload::{Scale, WorkloadSpec};
use forebay::EmulatedMedia;

const ENGINES: [EngineName; 5] = EngineName::ALL;

fn options(engine: EngineName, workload: &str) -> CellOptions {
    let scale = Scale::one_over(2048);
    let spec = WorkloadSpec::named(workload, scale).unwrap();
    CellOptions {
        media: EmulatedMedia::None,
        disk: DiskKind::None,
        operations: 600,
        ..CellOptions::new(engine, spec, scale)
    }
}

#[test]
fn every_engine_serves_every_workload_with_the_right_bytes() {
    for name in WorkloadSpec::NAMES {
        let forms = ENGINES.map(|engine| [(engine, None), (engine, Some(Watermarks::default()))]);
        for (engine, cleaner) in forms.into_iter().flatten() {
            let mut options = options(engine, name);
            options.engine_options.cleaner = cleaner;
            let mut cell = Cell::open(&options).unwrap();
            let measured = cell.measure(&options, &mut |_, _| {}).unwrap();
            assert_eq!(measured.operations, 600);
            assert!(measured.lines_per_write() > 0.0, "{engine} {name}");
            let wrong = wrong_blocks(&*cell.engine, &mut *cell.workload).unwrap();
            assert!(wrong.is_empty(), "{engine} {name}: {wrong:?}");
        }
    }
}

#[test]
fn counts_are_the_same_in_every_run() {
    for engine in ENGINES {
        let mut options = options(engine, "fio-rw50");
        options.engine_options.background = false;
        let counts = || {
            let measured = run_cell(&options, &mut |_, _| {}).unwrap();
            (measured.asked, measured.done)
        };
        assert_eq!(counts(), counts(), "{engine}");
    }
}
