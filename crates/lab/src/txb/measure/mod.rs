//! What each design costs under each workload: counts first, times second.
//!
//! All designs of a workload have their regions side by side, are filled alike, and take turns: a round is the same operations
//! by each, another one first each time. The first round warms up. A round of `async` has a pass over what was stored
//! at its end, on the program's own thread. That is more passes than a period of a second makes, and dearer ones than those of
//! a thread of their own; but so what is counted does not depend on the clock.
//!
//! Times are the thread's own processor time, which other programs change little.

mod reported;
mod row;
mod stand;
#[cfg(test)]
mod tests;
mod workload;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_harness::{median, thread_time};
use forebay_pmem::Counters;

pub use reported::{REPORTED, Reported};
pub use row::TransactionsRow;
pub use workload::{MapLoad, Workload};

use super::design::Design;
use super::heap::Heap;
use super::protect::BytesRead;
use stand::Stand;
use workload::{Operation, Program, operations, preparation};

/// What is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct TransactionsScope {
    /// In this order.
    pub workloads: Vec<Workload>,
    /// Bytes of each region.
    pub size_bytes: u64,
    /// Keys that are there at first.
    pub keys: u64,
    /// Operations of a round.
    pub operations: u64,
    /// Rounds that count.
    pub rounds: u64,
}

impl TransactionsScope {
    /// 100,000 keys: some minutes.
    #[must_use]
    pub fn full() -> TransactionsScope {
        TransactionsScope {
            workloads: Workload::all(),
            size_bytes: 96 << 20,
            keys: 100_000,
            operations: 20_000,
            rounds: 9,
        }
    }

    /// 5,000 keys: some seconds.
    #[must_use]
    pub fn quick() -> TransactionsScope {
        TransactionsScope {
            workloads: Workload::all(),
            size_bytes: 24 << 20,
            keys: 5_000,
            operations: 2_000,
            rounds: 5,
        }
    }

    fn rounds_in_all(&self) -> u64 {
        self.rounds + 1
    }
}

/// Why there are no rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoRows {
    /// It was called off.
    CalledOff,
    /// Something failed.
    Failed(String),
}

impl From<super::Error> for NoRows {
    fn from(error: super::Error) -> NoRows {
        NoRows::Failed(error.to_string())
    }
}

/// One design's region and program.
struct Contender {
    design: Design,
    stand: Stand,
    program: Program,
    counted: Counted,
    /// Of each round that counts, in ns.
    rounds_ns: Vec<f64>,
}

/// What was counted so far.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    persisted: Counters,
    read: BytesRead,
    transactions: u64,
    pages_covered: u64,
}

impl Counted {
    fn of(heap: &Heap) -> Counted {
        let region = heap.media().region();
        Counted {
            persisted: heap.media().counters(),
            read: heap.read_for_redundancy(),
            transactions: heap.transactions(),
            pages_covered: region.map_or(0, |region| region.status().counts.covered_pages),
        }
    }

    fn since(self, before: Counted) -> Counted {
        Counted {
            persisted: self.persisted - before.persisted,
            read: self.read - before.read,
            transactions: self.transactions - before.transactions,
            pages_covered: self.pages_covered - before.pages_covered,
        }
    }
}

/// Measures all designs under a workload, over files in `directory`, of which nothing stays. Afterwards every
/// checksum and all of the parity of the inline designs are compared.
///
/// # Errors
/// It was called off; there is no room; what a design kept does not fit what the program stored.
pub fn measure_transactions(
    directory: &Path,
    scope: &TransactionsScope,
    workload: Workload,
    is_called_off: &AtomicBool,
) -> Result<Vec<TransactionsRow>, NoRows> {
    let mut contenders = Vec::new();
    for design in Design::ALL {
        check_called_off(is_called_off)?;
        contenders.push(Contender::new(directory, scope, workload, design)?);
    }
    for round in 0..scope.rounds_in_all() {
        let asked = operations(workload, (scope.keys, scope.operations), round);
        // Another design is first in each round.
        contenders.rotate_left(1);
        for contender in &mut contenders {
            check_called_off(is_called_off)?;
            contender.run(&asked, round > 0)?;
        }
    }
    contenders.sort_by_key(|contender| Design::ALL.iter().position(|one| *one == contender.design));
    for contender in &mut contenders {
        contender.verify()?;
    }
    let none: Vec<f64> = contenders[0].rounds_ns.clone();
    let rows = contenders.iter();
    Ok(rows
        .map(|contender| contender.row(scope, workload, &none))
        .collect())
}

fn check_called_off(is_called_off: &AtomicBool) -> Result<(), NoRows> {
    match is_called_off.load(Ordering::Relaxed) {
        true => Err(NoRows::CalledOff),
        false => Ok(()),
    }
}

impl Contender {
    fn new(
        directory: &Path,
        scope: &TransactionsScope,
        workload: Workload,
        design: Design,
    ) -> Result<Contender, NoRows> {
        let mut stand = Stand::new(directory, design, scope.size_bytes).map_err(NoRows::Failed)?;
        let rounds = (scope.rounds_in_all(), scope.operations);
        let keys = workload.keys_before(scope.keys, rounds);
        let program = Program::create(&mut stand.heap, workload, keys)?;
        for operation in preparation(keys) {
            program.run(&mut stand.heap, operation)?;
        }
        cover(&stand.heap)?;
        Ok(Contender {
            design,
            stand,
            program,
            counted: Counted::default(),
            rounds_ns: Vec::new(),
        })
    }

    fn run(&mut self, asked: &[Operation], does_count: bool) -> Result<(), NoRows> {
        let heap = &mut self.stand.heap;
        let (before, start) = (Counted::of(heap), thread_time());
        let mut read = 0;
        for &operation in asked {
            read ^= self.program.run(heap, operation)?;
        }
        std::hint::black_box(read);
        cover(heap)?;
        let elapsed = thread_time().saturating_sub(start);
        if does_count {
            let counted = Counted::of(heap).since(before);
            self.counted = Counted {
                persisted: self.counted.persisted + counted.persisted,
                read: self.counted.read + counted.read,
                transactions: self.counted.transactions + counted.transactions,
                pages_covered: self.counted.pages_covered + counted.pages_covered,
            };
            self.rounds_ns.push(elapsed.as_nanos() as f64);
        }
        Ok(())
    }

    fn verify(&mut self) -> Result<(), NoRows> {
        if !self.design.is_inline() {
            return Ok(());
        }
        let found = self.stand.heap.verify()?;
        let put_right = found.repaired + found.repaired_sums + found.repaired_parity;
        if put_right == 0 && found.damaged.is_empty() {
            return Ok(());
        }
        Err(NoRows::Failed(format!(
            "{}: what was kept does not fit what was stored: {found:?}",
            self.design
        )))
    }

    fn row(&self, scope: &TransactionsScope, workload: Workload, none: &[f64]) -> TransactionsRow {
        let Counted {
            persisted,
            read,
            transactions,
            pages_covered,
        } = self.counted;
        let each = |count: u64| (transactions > 0).then(|| count as f64 / transactions as f64);
        let is_own = self.design != Design::Async;
        let ratios = self.rounds_ns.iter().zip(none);
        let ratios = ratios.map(|(ours, none)| ours / none).collect();
        let per_operation = median(self.rounds_ns.clone()).unwrap_or(0.0);
        TransactionsRow {
            workload,
            design: self.design,
            operations: scope.rounds * scope.operations,
            transactions,
            lines_per_transaction: each(persisted.lines()),
            fences_per_transaction: each(persisted.fences),
            checksum_bytes_per_transaction: each(read.checksums).filter(|_| is_own),
            parity_bytes_per_transaction: each(read.parity).filter(|_| is_own),
            pages_covered_per_transaction: each(pages_covered).filter(|_| !is_own),
            ns_per_operation: per_operation / scope.operations as f64,
            times_none: median(ratios).filter(|_| self.design != Design::None),
        }
    }
}

/// With passes: one over everything that was stored.
fn cover(heap: &Heap) -> Result<(), NoRows> {
    match heap.media().region() {
        Some(region) => {
            let covered = region.sync(0..region.len());
            covered.map_err(|error| NoRows::Failed(error.to_string()))
        }
        None => Ok(()),
    }
}
