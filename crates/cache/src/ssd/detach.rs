//! Detach: a volume is drained, emptied, and only then taken out of the table. A crash on the way leaves the volume attached with
//! whatever it still has in the pool, or, once its row is free, everything on its backing.

use super::pool::SsdPool;
use super::volume::SsdVolume;
use crate::api::pool::{Drain, DrainWatcher};
use crate::error::{Error, ErrorKind, Result};
use crate::marks::Stage;

/// Drains while the volume is still in use, at most.
const PASSES_MAX: usize = 4;
/// With no more dirty blocks than this its callers are stopped, and wait for the last of them.
const DIRTY_BLOCKS_LEFT: u64 = 256;

impl SsdPool {
    pub(crate) fn detach_watched(
        &self,
        volume: &SsdVolume,
        watcher: &mut DrainWatcher<'_>,
    ) -> Result<()> {
        self.check_known(volume)?;
        let mut drain = Drain::new(watcher);
        // While it is still in use, so that little is left for later.
        for _ in 0..PASSES_MAX {
            let log = volume.look_in()?;
            volume.drain_pass(&log, &mut drain)?;
            if log.usage(volume.number()).1 <= DIRTY_BLOCKS_LEFT {
                break;
            }
        }
        self.detach_drained(volume, &mut drain)?;
        // It is gone, so it is not asked whether to go on.
        volume.tell_drain(&mut drain, 0);
        Ok(())
    }

    /// Writes the last of it back and takes it out of the table.
    fn detach_drained(&self, volume: &SsdVolume, drain: &mut Drain<'_, '_>) -> Result<()> {
        let _one_at_a_time = self.lock_table();
        self.check_known(volume)?;
        let shared = self.shared();
        let log = shared.log()?;
        // From here on no thread reads or changes the volume.
        let _alone = volume.known().shut(&log);
        volume.drain_last(&log, drain)?;
        let number = volume.number();
        let failed = |error| shared.error(error);
        // The thread may have paused for longer than a caller waits: one segment that it recycles may be all that is wanted.
        shared.work.note_change();
        shared.with_room(&log, || log.empty_volume(number))?;
        let mut row = volume.known().row();
        if let Ok(backing) = volume.state().backing() {
            log.sync_backing(number).map_err(failed)?;
            // Before the mark says that any pool may have it.
            volume.state().set_gone(true);
            let ended = self.end_mark(&log, (backing, &mut row));
            volume.known().set_row(row.clone());
            if let Err(error) = ended {
                // It may be used again, unless its mark may say that the backing is whole.
                let is_open = row.stage != Stage::Clean.number();
                volume.state().set_gone(!is_open);
                return Err(error);
            }
        }
        log.free_volume(&row).map_err(failed)?;
        volume.state().set_gone(true);
        shared.set_known(number, None);
        // Nobody is in, so no more come. They would keep the backing, and what locks it.
        shared.fills.forget(volume.known());
        Ok(())
    }

    /// Forgets a volume that has no backing attached, with what was never written back; how many blocks that were.
    pub(crate) fn discard_volume(&self, volume: &SsdVolume) -> Result<u64> {
        let _one_at_a_time = self.lock_table();
        self.check_known(volume)?;
        let shared = self.shared();
        let log = shared.log()?;
        if volume.state().backing.get().is_some() {
            return Err(ErrorKind::Volume(format!(
                "{}: it is in use; detach it, which loses nothing",
                volume.path().display()
            ))
            .into());
        }
        let failed = |error| -> Error { shared.error(error) };
        let mut row = volume.known().row();
        if row.stage != Stage::None.number() {
            // More than the backing's mark says: should it come back to what is left, it is refused as an old copy. Durable
            // before the first block goes.
            row.generation += 1;
            row.stage = Stage::Open.number();
            log.write_volume(&row).map_err(failed)?;
            volume.known().set_row(row.clone());
        }
        let _alone = volume.known().shut(&log);
        let (_, unwritten) = log.usage(volume.number());
        shared.with_room(&log, || log.discard_volume(volume.number()))?;
        // The thread may have given up for a while, for want of this very backing.
        shared.work.note_change();
        log.free_volume(&row).map_err(failed)?;
        volume.state().set_gone(true);
        shared.set_known(volume.number(), None);
        Ok(unwritten)
    }
}
