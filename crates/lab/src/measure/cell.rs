//! One engine on a fresh region and a fresh disk, with one workload.

use std::path::PathBuf;
use std::sync::Arc;

use crate::Engine;
use forebay::{Backing, EmulatedMedia, MemoryStore, PersistenceDomain, RegionOptions, Result};
use forebay_pmem::pause_emulation;

use super::{Measurement, Progress, run};
use crate::disk::{DiskKind, EmulatedDisk};
use crate::engines::{EngineName, EngineOptions, create};
use crate::scratch;
use crate::workload::{BLOCK_BYTES, Scale, Workload, WorkloadSpec};

/// What is measured, on what.
#[derive(Clone, Debug)]
pub struct CellOptions {
    /// The design.
    pub engine: EngineName,
    /// What it is made with.
    pub engine_options: EngineOptions,
    /// What it is given to do.
    pub workload: WorkloadSpec,
    /// Of the workload.
    pub seed: u64,
    /// Bytes of the region.
    pub cache_bytes: u64,
    /// How slow the region is.
    pub media: EmulatedMedia,
    /// Forces the region's persistence domain.
    pub domain: Option<PersistenceDomain>,
    /// How slow the disk is.
    pub disk: DiskKind,
    /// Where the region's file is made, which is removed at once: a memory file system, or the disk's
    /// own time is measured.
    pub folder: PathBuf,
    /// Operations before the measured ones, most of them without the waits of medium and disk; none
    /// for as many as the workload needs.
    pub warm_up: Option<u64>,
    /// Measured operations.
    pub operations: u64,
}

impl CellOptions {
    /// The papers' setting (§5.1 of both) at this scale: emulated PCM before an SSD.
    #[must_use]
    pub fn new(engine: EngineName, workload: WorkloadSpec, scale: Scale) -> CellOptions {
        CellOptions {
            engine,
            engine_options: EngineOptions::default(),
            workload,
            seed: 1,
            cache_bytes: scale.cache_bytes(),
            media: EmulatedMedia::Pcm,
            domain: None,
            disk: DiskKind::Ssd,
            folder: PathBuf::from("/dev/shm"),
            warm_up: None,
            operations: 4096,
        }
    }
}

/// An engine that is ready, and what it is to be given.
pub struct Cell {
    /// The engine.
    pub engine: Box<dyn Engine>,
    /// The workload, at its beginning.
    pub workload: Box<dyn Workload>,
    /// The disk behind the engine.
    pub disk: Arc<EmulatedDisk>,
}

impl Cell {
    /// Prepares the disk, makes the region and the engine on it.
    ///
    /// # Errors
    /// The folder has no room or cannot be written; the engine refuses its options.
    pub fn open(options: &CellOptions) -> Result<Cell> {
        let mut workload = options.workload.build(options.seed);
        let mut image = workload.take_image();
        // Classic keeps its journal, 1/64 of the disk by default, behind what it offers.
        let journal_blocks = options
            .engine_options
            .journal_blocks
            .unwrap_or(image.len() as u64 / BLOCK_BYTES as u64 / 32 + 64);
        let room = (journal_blocks + 1) as usize * BLOCK_BYTES;
        image.resize(image.len() + room, 0);
        let store = Arc::new(MemoryStore::from_bytes(image));
        let disk = Arc::new(EmulatedDisk::new(store, options.disk));
        let region_options = RegionOptions::default()
            .domain(options.domain)
            .media(options.media);
        let region = scratch::region(&options.folder, options.cache_bytes, &region_options)?;
        let engine = create(
            options.engine,
            region,
            Backing::from_store(disk.clone()),
            &options.engine_options,
        )?;
        Ok(Cell {
            engine,
            workload,
            disk,
        })
    }

    /// Warms the cache up and measures.
    ///
    /// # Errors
    /// The engine's.
    pub fn measure(
        &mut self,
        options: &CellOptions,
        progress: Progress<'_>,
    ) -> Result<Measurement> {
        let warm_up = options.warm_up.unwrap_or_else(|| {
            let cache_blocks = options.cache_bytes / BLOCK_BYTES as u64;
            self.workload.warm_up_operations(cache_blocks)
        });
        let engine = &*self.engine;
        let workload = &mut *self.workload;
        let all = warm_up + options.operations;
        // The last quarter goes at the measured pace, so that the engine's own threads are, too.
        let hurried = warm_up - warm_up / 4;
        self.disk.set_waiting(false);
        let pause = pause_emulation();
        run(engine, workload, hurried, &mut |done| progress(done, all))?;
        drop(pause);
        self.disk.set_waiting(true);
        run(engine, workload, warm_up - hurried, &mut |done| {
            progress(hurried + done, all);
        })?;
        run(engine, workload, options.operations, &mut |done| {
            progress(warm_up + done, all);
        })
    }
}

/// Opens a cell and measures it.
///
/// # Errors
/// As [`Cell::open`] and [`Cell::measure`].
pub fn run_cell(options: &CellOptions, progress: Progress<'_>) -> Result<Measurement> {
    Cell::open(options)?.measure(options, progress)
}
