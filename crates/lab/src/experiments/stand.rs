//! What the study's jobs run on: raw memory, or an engine filled with the working set.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use forebay::{Backing, MemoryStore, PersistenceDomain, RegionOptions, Result};

use super::blocks::{BlockJob, BlockOutcome, EngineTarget, RawTarget, Target, fill, read_all};
use super::scope::{Contender, STUDY_MEDIA, Scope};
use crate::disk::{DiskKind, EmulatedDisk};
use crate::engines::{self, EngineOptions, Watermarks};
use crate::scratch;

/// Memory or an engine that holds a working set.
pub(super) struct Stand {
    contender: Contender,
    span_bytes: u64,
    target: Box<dyn Target>,
    /// Below an engine.
    disk: Option<Arc<EmulatedDisk>>,
}

impl Stand {
    /// Makes the contender and writes the working set through it, without the disk's waits. An
    /// engine's is then written back, so that no background thread has work left, and read once; what
    /// fits is cached all the same.
    pub(super) fn new(
        scope: &Scope,
        folder: &Path,
        contender: Contender,
        span_bytes: u64,
    ) -> Result<Stand> {
        let cache_bytes = scope.study_cache_bytes();
        let region_options = RegionOptions::default()
            .domain(PersistenceDomain::Adr)
            .media(STUDY_MEDIA);
        let region = scratch::region(folder, cache_bytes, &region_options)?;
        let (target, disk): (Box<dyn Target>, _) = match contender.engine() {
            None => {
                let target = RawTarget(region);
                fill(&target, span_bytes, scope.seed)?;
                (Box::new(target), None)
            }
            Some(name) => {
                let disk_bytes = (2 * span_bytes).max(cache_bytes);
                let store = Arc::new(MemoryStore::new(disk_bytes));
                let disk = Arc::new(EmulatedDisk::new(store, DiskKind::Ssd));
                let backing = Backing::from_store(disk.clone());
                disk.set_waiting(false);
                let options = EngineOptions {
                    flushes_content: scope.flushes_content,
                    cleaner: matches!(contender, Contender::Cleaned(_)).then(Watermarks::default),
                    ..EngineOptions::default()
                };
                let engine = engines::create(name, region, backing, &options)?;
                let target = EngineTarget(engine);
                fill(&target, span_bytes, scope.seed)?;
                target.0.flush()?;
                // What was written last may lie in a journal, and not where it is read.
                read_all(&target, span_bytes)?;
                disk.set_waiting(true);
                (Box::new(target), Some(disk))
            }
        };
        Ok(Stand {
            contender,
            span_bytes,
            target,
            disk,
        })
    }

    pub(super) fn serves(&self, contender: Contender, span_bytes: u64) -> bool {
        self.contender == contender && self.span_bytes == span_bytes
    }

    /// Runs a job as often as the scope says.
    pub(super) fn run(
        &self,
        job: &BlockJob,
        scope: &Scope,
        is_called_off: &AtomicBool,
    ) -> Result<Vec<BlockOutcome>> {
        job.run(&*self.target, self.disk.as_deref(), scope, is_called_off)
    }
}
