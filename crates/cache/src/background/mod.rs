//! The pipeline: the engine together with the volumes that its blocks belong to, and what keeps blocks
//! moving between them.
//!
//! Slots go free → dirty → clean → free (AutoBahn, section 4): writers take free ones, write-back makes dirty
//! ones clean, reclaim frees those. The threads that do so, how they share the work with callers, and how
//! long a caller waits for them, are settled here; what a commit or an eviction is, in `engine`.

mod ahead_windows;
pub(crate) mod health;
pub(crate) mod journal;
mod read_ahead;
pub(crate) mod reclaim;
mod stages;
mod threads;
mod throttle;
pub(crate) mod volume_state;
mod volumes;
pub(crate) mod writeback;
pub(crate) mod zeroings;

use std::sync::{Arc, RwLock};

use forebay_pmem::Region;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::media::Media;
use crate::options::RuntimeOptions;
use crate::policy::streams::Streams;
use crate::sync::{AtomicBool, Ordering};
use crate::table::Table;
use read_ahead::ReadAhead;
use volume_state::VolumeState;
use writeback::WriteBack;

pub(crate) use threads::Background;

/// See the module.
pub(crate) struct Pipeline {
    engine: Engine,
    /// By their places in the volume table.
    volumes: RwLock<Vec<Option<Arc<VolumeState>>>>,
    /// What write-back keeps between rounds.
    write_back: WriteBack,
    /// Reads that follow one another.
    streams: Streams,
    /// What will be wanted next of them.
    read_ahead: ReadAhead,
    /// Whether flusher, reclaimer and checkpointer run. Without, callers do their work.
    has_background: AtomicBool,
    options: RuntimeOptions,
}

impl Pipeline {
    /// The volumes of the engine's medium are known, still without their backings; no threads run.
    pub(crate) fn new(engine: Engine, options: RuntimeOptions) -> Pipeline {
        let places = engine.media().geometry.volumes as usize;
        let streams = Streams::new(engine.block_bytes(), options.sequential_cutoff_bytes);
        let pipeline = Pipeline {
            engine,
            volumes: RwLock::new(vec![None; places]),
            write_back: WriteBack::new(options.defer_journal),
            streams,
            read_ahead: ReadAhead::new(options.read_ahead_bytes),
            has_background: AtomicBool::new(false),
            options,
        };
        pipeline.apply_watermarks();
        pipeline.know_volumes();
        pipeline
    }

    #[inline]
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }
    #[inline]
    pub(crate) fn table(&self) -> &Table {
        self.engine.table()
    }
    #[inline]
    pub(crate) fn media(&self) -> &Media {
        self.engine.media()
    }
    #[inline]
    pub(crate) fn options(&self) -> &RuntimeOptions {
        &self.options
    }
    pub(crate) fn write_back(&self) -> &WriteBack {
        &self.write_back
    }
    pub(crate) fn streams(&self) -> &Streams {
        &self.streams
    }
    /// The engine alone, of a pool that is laid out anew.
    pub(crate) fn into_engine(self) -> Engine {
        self.engine
    }

    /// Whether background threads do the work that callers would otherwise have to do.
    #[inline]
    pub(crate) fn has_background(&self) -> bool {
        self.has_background.load(Ordering::Relaxed)
    }

    /// They do from now on.
    pub(crate) fn begin_background(&self) {
        self.has_background.store(true, Ordering::Relaxed);
        self.apply_watermarks();
    }

    /// Sets the dirty watermarks, per mille of the slots.
    pub(crate) fn set_watermarks(&self, low_per_mille: u32, high_per_mille: u32) {
        let wakeup = self.engine.wakeup();
        wakeup.watermarks.set(low_per_mille, high_per_mille);
        self.apply_watermarks();
        wakeup.notify_work();
    }

    /// Without background threads nothing would bring the level down, so no writer is delayed for it.
    fn apply_watermarks(&self) {
        if self.has_background() {
            let wakeup = self.engine.wakeup();
            wakeup.pace.set_marks(
                self.slots_of(wakeup.watermarks.low_per_mille()),
                self.slots_of(wakeup.watermarks.high_per_mille()),
            );
        }
    }

    /// So many per mille of the slots.
    fn slots_of(&self, per_mille: u32) -> u64 {
        u64::from(self.media().geometry.room()) * u64::from(per_mille) / 1000
    }

    /// Closes the pool to callers that still hold a volume: nothing changes it any more, in memory, on the
    /// medium or behind it, and it is unlocked. Background threads have ended. Before that, where nothing has
    /// failed, `end` has its turn.
    ///
    /// # Errors
    /// A fence failed, so that the next opening recovers; or the system's, and the pool stays locked.
    pub(crate) fn close(&self, end: impl FnOnce() -> Result<()>) -> Result<()> {
        // While volumes take changes.
        let left = self.engine.leave_bad_places();
        self.engine.begin_close();
        let checkpointed = left.and_then(|()| self.engine.checkpoint());
        self.engine.end_changes();
        // Another process may use the backings, too: no round writes to them after the one in progress.
        drop(self.begin_round());
        for volume in self.volumes() {
            volume.zeroings.wait(0..u64::MAX);
        }
        // While the pool is still ours alone.
        let ended = match checkpointed {
            Ok(()) => end(),
            Err(_) => Ok(()),
        };
        // Before the pool is unlocked: what is not found is asked of the backing, and refused.
        self.table().entries().forget(self.media().geometry.entries);
        let retired = self.media().members().map(Region::retire);
        let retired = retired.fold(Ok(()), Result::and);
        self.media().release_witness();
        checkpointed.and(ended).and(retired.map_err(Error::from))
    }
}
