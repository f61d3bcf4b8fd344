//! Small measurements, over real files.

use std::sync::atomic::AtomicBool;

use super::{MapLoad, NoRows, TransactionsRow, TransactionsScope, Workload, measure_transactions};
use crate::txb::design::Design;
use crate::txb::maps::MapKind;

fn scope(workloads: &[Workload]) -> TransactionsScope {
    TransactionsScope {
        workloads: workloads.to_vec(),
        size_bytes: 12 << 20,
        keys: 60,
        operations: 30,
        rounds: 2,
    }
}

fn rows(workload: Workload) -> Vec<TransactionsRow> {
    let memory = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let scope = scope(&[workload]);
    let rows = measure_transactions(memory.path(), &scope, workload, &AtomicBool::new(false));
    let left = std::fs::read_dir(memory.path()).expect("read").count();
    assert_eq!(left, 0, "nothing stays");
    rows.expect("rows")
}

/// What does not depend on the clock.
fn counts(row: &TransactionsRow) -> [Option<f64>; 6] {
    [
        Some(row.transactions as f64),
        row.lines_per_transaction,
        row.fences_per_transaction,
        row.checksum_bytes_per_transaction,
        row.parity_bytes_per_transaction,
        row.pages_covered_per_transaction,
    ]
}

#[test]
fn designs_differ_in_what_they_write_and_read_and_not_in_what_programs_do() {
    for load in [MapLoad::Insert, MapLoad::Balanced, MapLoad::Remove] {
        for kind in MapKind::ALL {
            compare(Workload::Map(kind, load));
        }
    }
    compare(Workload::TableSet);
}

fn compare(workload: Workload) {
    let rows = rows(workload);
    let designs: Vec<Design> = rows.iter().map(|row| row.design).collect();
    assert_eq!(designs, Design::ALL);
    let [none, passes, object, page] = &rows[..] else {
        panic!("{rows:?}");
    };
    for row in &rows {
        let asked = (none.operations, none.transactions);
        assert_eq!((row.operations, row.transactions), asked, "{workload}");
    }
    // Checksums and parity go under fences that are there without; two rounds have a pass each.
    for row in [object, page] {
        assert_eq!(
            row.fences_per_transaction, none.fences_per_transaction,
            "{workload}"
        );
    }
    assert!(passes.fences_per_transaction > none.fences_per_transaction);
    assert!(passes.pages_covered_per_transaction > Some(0.0));
    for row in [passes, object, page] {
        assert!(
            row.lines_per_transaction > none.lines_per_transaction,
            "{row:?}"
        );
    }
    assert!(page.checksum_bytes_per_transaction >= Some(4096.0));
    assert!(object.checksum_bytes_per_transaction < page.checksum_bytes_per_transaction);
    // The table of objects' parity has their headers' as well.
    assert!(object.parity_bytes_per_transaction >= page.parity_bytes_per_transaction);
    assert_eq!(none.checksum_bytes_per_transaction, Some(0.0));
    assert!(none.times_none.is_none() && page.times_none.is_some());
}

#[test]
fn counts_are_the_same_each_time() {
    for workload in [
        Workload::Map(MapKind::RbTree, MapLoad::Remove),
        Workload::TableSet,
    ] {
        let [first, again] = [rows(workload), rows(workload)];
        // A region that the library maps has passes of its own, by the clock.
        let is_counted = |row: &&TransactionsRow| row.design != Design::Async;
        let again = again.iter().filter(is_counted);
        for (first, again) in first.iter().filter(is_counted).zip(again) {
            assert_eq!(counts(first), counts(again), "{workload}, {}", first.design);
        }
    }
}

#[test]
fn what_only_reads_costs_nothing_under_any_design() {
    for workload in [
        Workload::Map(MapKind::BTree, MapLoad::Lookup),
        Workload::TableGet,
    ] {
        for row in rows(workload) {
            assert_eq!(
                counts(&row),
                [Some(0.0), None, None, None, None, None],
                "{row:?}"
            );
        }
    }
}

#[test]
fn a_measurement_that_is_called_off_or_has_no_room_leaves_nothing() {
    let memory = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let workload = Workload::TableSet;
    let scope = scope(&[workload]);
    let called_off = measure_transactions(memory.path(), &scope, workload, &AtomicBool::new(true));
    assert_eq!(called_off, Err(NoRows::CalledOff));
    let crowded = TransactionsScope {
        keys: 40_000,
        ..scope
    };
    let full = measure_transactions(memory.path(), &crowded, workload, &AtomicBool::new(false));
    assert!(
        matches!(&full, Err(NoRows::Failed(why)) if why.contains("make it larger")),
        "{full:?}"
    );
    assert_eq!(std::fs::read_dir(memory.path()).expect("read").count(), 0);
}
