//! An engine under a workload: the cell of the transactional papers.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay::{EmulatedMedia, PersistenceDomain, Result};
use forebay_pmem::pause_emulation;

use super::{Scope, loads};
use crate::disk::DiskKind;
use crate::engines::{EngineName, EngineOptions, JournalMode, Watermarks};
use crate::measure::{self, CellOptions, Measurement};
use crate::workload::{Action, BLOCK_BYTES, Operation, Workload, WorkloadSpec};

/// An engine, its options, its media and its work.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WorkCell {
    /// Which design.
    pub engine: EngineName,
    /// What it is given to do.
    pub workload: WorkloadSpec,
    /// What its memory imitates.
    pub media: EmulatedMedia,
    /// What its disk imitates.
    pub disk: DiskKind,
    /// Off for memory whose caches are battery-backed: nothing is flushed, nothing waits for lines.
    pub has_flushes: bool,
    /// What the journal above Classic holds.
    pub journal_mode: JournalMode,
    /// Off for Tinca's Figure 4 only.
    pub updates_metadata: bool,
    /// With the cleaner that all designs have in common. Forebay's own always works.
    pub has_cleaner: bool,
    /// How large and how long.
    pub extent: Extent,
}

/// How large a cell's cache is, and how long it runs; what is none is as the scope's scale says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Extent {
    /// Bytes of the region.
    pub cache_bytes: Option<u64>,
    /// Operations before the measured ones.
    pub warm_up: Option<u64>,
    /// Measured operations.
    pub operations: Option<u64>,
}

/// What a cell came to.
#[derive(Clone, Debug)]
pub struct WorkOutcome {
    /// The counts and times.
    pub measurement: Measurement,
    /// What the memory imitated.
    pub media: EmulatedMedia,
}

impl WorkCell {
    /// The papers' usual setting: phase-change memory before an SSD, data journaled (Tinca §5.1).
    #[must_use]
    pub fn new(engine: EngineName, workload: WorkloadSpec) -> WorkCell {
        WorkCell {
            engine,
            workload,
            media: EmulatedMedia::Pcm,
            disk: DiskKind::Ssd,
            has_flushes: true,
            journal_mode: JournalMode::Data,
            updates_metadata: true,
            has_cleaner: false,
            extent: Extent::default(),
        }
    }

    /// The same with the cleaner that all designs have in common: the comparison that conclusions rest on. Forebay's
    /// is the same cell.
    #[must_use]
    pub fn with_cleaner(self) -> WorkCell {
        WorkCell {
            has_cleaner: self.engine != EngineName::Forebay,
            ..self
        }
    }

    /// Whether the same work gives the same counts each time: not where threads choose when to write back.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.engine != EngineName::Forebay && !self.has_cleaner
    }

    /// For progress and for failures.
    #[must_use]
    pub fn name(&self) -> String {
        let cleaner = if self.has_cleaner {
            " with the cleaner"
        } else {
            ""
        };
        let load = loads::name(&self.workload);
        format!("{}{cleaner} under {load}", self.engine)
    }

    /// Measures it on a fresh region and a fresh disk.
    ///
    /// Called off, it ends soon, and what it returns says nothing.
    ///
    /// # Errors
    /// The region cannot be made; the engine's own.
    pub(super) fn measure(
        &self,
        scope: &Scope,
        folder: &Path,
        is_called_off: &Arc<AtomicBool>,
    ) -> Result<WorkOutcome> {
        let usual = CellOptions::new(self.engine, self.workload.clone(), scope.scale);
        let extent = self.extent;
        let mut options = CellOptions {
            cache_bytes: extent.cache_bytes.unwrap_or(usual.cache_bytes),
            warm_up: extent.warm_up,
            operations: extent
                .operations
                .unwrap_or_else(|| loads::operations(&self.workload, scope.is_quick)),
            engine_options: EngineOptions {
                journal_mode: self.journal_mode,
                updates_metadata: self.updates_metadata,
                cleaner: self.has_cleaner.then(Watermarks::default),
                flushes_content: scope.flushes_content,
                ..EngineOptions::default()
            },
            seed: scope.seed,
            media: match self.has_flushes {
                true => self.media,
                false => EmulatedMedia::None,
            },
            domain: Some(match self.has_flushes {
                true => PersistenceDomain::Adr,
                false => PersistenceDomain::Eadr,
            }),
            disk: self.disk,
            folder: folder.to_owned(),
            ..usual
        };
        let mut cell = measure::Cell::open(&options)?;
        cell.workload = Box::new(Stoppable {
            inner: cell.workload,
            is_called_off: Arc::clone(is_called_off),
        });
        if self.disk == DiskKind::Hdd {
            hurry(&mut cell, &mut options)?;
        }
        let measurement = cell.measure(&options, &mut |_, _| {})?;
        Ok(WorkOutcome {
            measurement,
            media: options.media,
        })
    }
}

/// An HDD is so slow that a cell would take minutes: all but a little of the warm-up goes without
/// waits, and fewer operations are measured.
fn hurry(cell: &mut measure::Cell, options: &mut CellOptions) -> Result<()> {
    const PACED: u64 = 64;
    const FEWER: u64 = 16;
    let cache_blocks = options.cache_bytes / BLOCK_BYTES as u64;
    let warm_up = options.warm_up;
    let warm_up = warm_up.unwrap_or_else(|| cell.workload.warm_up_operations(cache_blocks));
    cell.disk.set_waiting(false);
    let pause = pause_emulation();
    measure::run(&*cell.engine, &mut *cell.workload, warm_up, &mut |_| {})?;
    drop(pause);
    options.warm_up = Some(PACED);
    options.operations = (options.operations / FEWER).max(1);
    Ok(())
}

/// A workload that has nothing more to do once it is called off, so that its run ends at once.
struct Stoppable {
    inner: Box<dyn Workload>,
    is_called_off: Arc<AtomicBool>,
}

impl Workload for Stoppable {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn next(&mut self, actions: &mut Vec<Action>) -> Operation {
        match self.is_called_off() {
            true => Operation::default(),
            false => self.inner.next(actions),
        }
    }

    fn is_called_off(&self) -> bool {
        self.is_called_off.load(Ordering::Relaxed)
    }

    fn warm_up_operations(&self, cache_blocks: u64) -> u64 {
        self.inner.warm_up_operations(cache_blocks)
    }

    fn disk_bytes(&self) -> u64 {
        self.inner.disk_bytes()
    }

    fn take_image(&mut self) -> Vec<u8> {
        self.inner.take_image()
    }

    fn settle(&mut self, actions: &mut Vec<Action>) {
        self.inner.settle(actions);
    }

    fn live_blocks(&self) -> Vec<u64> {
        self.inner.live_blocks()
    }

    fn is_right(&self, block: u64, bytes: &[u8]) -> bool {
        self.inner.is_right(block, bytes)
    }
}
