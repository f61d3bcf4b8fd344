//! A volume grows to the size that its backing has now. The new size is in the volume's row, durably, before any thread may write
//! beyond the old end; a crash leaves the old size or the new one.

use forebay_log::PAGE_BYTES;

use super::known::identity_of;
use super::pool::SsdPool;
use super::volume::SsdVolume;
use crate::api::pool::check_size;
use crate::error::Result;
use crate::sync::Ordering;

impl SsdPool {
    pub(crate) fn grow_volume(&self, volume: &SsdVolume) -> Result<u64> {
        let _one_at_a_time = self.lock_table();
        self.check_known(volume)?;
        let shared = self.shared();
        let log = shared.log()?;
        let state = volume.state();
        let backing = state.backing()?;
        let mut row = volume.known().row();
        let old_bytes = row.size_bytes;
        let size_bytes = state.size_to_grow_to(backing, old_bytes)?;
        if size_bytes == old_bytes {
            return Ok(size_bytes);
        }
        row.size_bytes = size_bytes;
        check_size(&identity_of(&row), PAGE_BYTES)?;
        let failed = |error| shared.error(error);
        // That it grew must be durable before what is written there can be clean.
        log.sync_backing(row.number).map_err(failed)?;
        let limited = state.limited.get().expect("it has a backing");
        if old_bytes.is_multiple_of(PAGE_BYTES as u64) {
            limited.raise(size_bytes);
        } else {
            // The backing may hold something behind the old end that a cached copy of that block lacks: nobody has the block when
            // the limit rises. While it waits for room callers use the volume, so each attempt begins anew.
            let last = old_bytes / PAGE_BYTES as u64;
            shared.with_room(&log, || {
                let _alone = volume.known().shut(&log);
                log.write_back_blocks(row.number, &[last])?;
                log.forget(row.number, &[(last, 1)])?;
                limited.raise(size_bytes);
                Ok(())
            })?;
        }
        log.write_volume(&row).map_err(failed)?;
        volume.known().set_row(row);
        state.size_bytes.store(size_bytes, Ordering::Relaxed);
        Ok(size_bytes)
    }
}
