//! Reading where writers leave no quiet moment, with no lock held while the backing is asked.
//!
//! The blocks are pinned first (`pins`): what is not cached at two looks under the locks was not cached in
//! between either, so the backing's answer is what the block is at the second look, unless the backing
//! was zeroed there meanwhile, which a pin tells.

use super::MemoryVolume;
use crate::error::Result;
use crate::media::entry::RawEntry;
use crate::table::CopiedFrom;

/// How one look at all blocks ended.
enum Look {
    Done,
    /// The backing was zeroed there meanwhile.
    Disturbed,
    /// The copy that this entry stands for is bad, or the entry.
    Bad(u32, RawEntry),
}

impl MemoryVolume {
    /// Reads the blocks as they all are at one moment; misses are not brought in.
    pub(super) fn read_around(&self, block: u64, out: &mut [u8]) -> Result<()> {
        let mut given_up = Vec::new();
        loop {
            match self.look_around(block, out, &given_up)? {
                Look::Done => return Ok(()),
                Look::Disturbed => {}
                // With no lock held, and no pin: that would keep the copy.
                Look::Bad(index, bad) => {
                    if !self.let_go_bad(index, bad)? {
                        given_up.push((index, bad));
                    }
                }
            }
        }
    }

    /// A copy was found bad: it goes if the backing has the block. False if it cannot go any more because
    /// the pool takes no more records: then it stays what it is, and so does the backing's.
    fn let_go_bad(&self, index: u32, bad: RawEntry) -> Result<bool> {
        let pipeline = &*self.pipeline;
        let is_same = || pipeline.table().entries().load(index) == bad;
        if !is_same() {
            // Another thread has written it anew, or it has become clean.
            return Ok(true);
        }
        match pipeline.engine().heal(index, bad) {
            Ok(()) => Ok(true),
            Err(_) if !is_same() => Ok(true),
            Err(_)
                if pipeline.engine().is_replaceable(index, bad)
                    && pipeline.engine().check_writable().is_err() =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Looks at all blocks once; of those that are cached, `given_up` count as not cached.
    fn look_around(
        &self,
        block: u64,
        out: &mut [u8],
        given_up: &[(u32, RawEntry)],
    ) -> Result<Look> {
        let pipeline = &*self.pipeline;
        let blocks = block..block + (out.len() / self.block_size()) as u64;
        let places = blocks
            .clone()
            .map(|number| pipeline.table().bucket(self.key(number)).stripe);
        let mut stripes: Vec<u32> = places.collect();
        let pinned = pipeline.table().pins().pin(self.id(), blocks.clone());
        // A thread that zeroes some of them from here on says so to the pin.
        self.state.zeroings.wait(blocks.clone());
        pipeline.table().lock_stripes(&mut stripes);
        let missing: Vec<u64> = blocks
            .clone()
            .filter(|number| {
                let key = self.key(*number);
                let found = pipeline.table().find(pipeline.table().bucket(key), key);
                found.is_none_or(|found| given_up.contains(&found))
            })
            .collect();
        pipeline.table().unlock_stripes(&stripes);
        for (number, bytes) in blocks.clone().zip(out.chunks_exact_mut(self.block_size())) {
            if missing.contains(&number) {
                pipeline.engine().check_table_whole()?;
                self.read_backing(number, bytes)?;
            }
        }
        crate::sync::look_hint();
        pipeline.table().lock_stripes(&mut stripes);
        let look = self.copy_locked(block, &missing, given_up, out);
        let is_disturbed = pinned.is_disturbed();
        pipeline.table().unlock_stripes(&stripes);
        match is_disturbed {
            true => Ok(Look::Disturbed),
            false => look,
        }
    }

    /// Copies out what is cached, under the stripes' locks; the others the backing has given.
    fn copy_locked(
        &self,
        block: u64,
        missing: &[u64],
        given_up: &[(u32, RawEntry)],
        out: &mut [u8],
    ) -> Result<Look> {
        let pipeline = &*self.pipeline;
        for (number, bytes) in (block..).zip(out.chunks_exact_mut(self.block_size())) {
            let key = self.key(number);
            match pipeline.table().find(pipeline.table().bucket(key), key) {
                Some(found) if missing.contains(&number) && given_up.contains(&found) => {}
                Some((index, raw)) => {
                    let entry = pipeline.media().sound(raw);
                    let copy = |entry| pipeline.table().copy_out(entry, true, bytes);
                    match entry.map_or(CopiedFrom::Nowhere, copy) {
                        CopiedFrom::First => {}
                        CopiedFrom::Other => pipeline.engine().repair_later(raw),
                        CopiedFrom::Nowhere => return Ok(Look::Bad(index, raw)),
                    }
                }
                None => {
                    pipeline.engine().check_table_whole()?;
                    assert!(missing.contains(&number), "what is pinned stays");
                }
            }
        }
        Ok(Look::Done)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forebay_pmem::Region;
    use forebay_pmem::shadow::{FenceFailure, Shadow, ShadowModel};

    use super::*;
    use crate::api::pool::MemoryPool;
    use crate::error::ErrorKind;
    use crate::{Backing, MemoryStore, PoolOptions, testing};

    const BLOCK: usize = 128;

    /// Blocks 0 and 1 clean, 2 dirty, and a bit of the middle one flipped.
    fn with_a_bad_copy_of(block: u64) -> (Arc<Shadow>, MemoryPool, MemoryVolume) {
        let mut options = PoolOptions::default();
        options.format.block_bytes = BLOCK as u32;
        options.format.unit_bytes = 256;
        options.format.volumes = 2;
        options.runtime.background = false;
        let shadow = Arc::new(Shadow::new(1 << 20, ShadowModel::Lines));
        let region = Region::on_shadow(Arc::clone(&shadow));
        let pool = MemoryPool::create_on(vec![region], &options).expect("create");
        let store = Arc::new(MemoryStore::new(1 << 20));
        let volume = pool.attach(Backing::from_store(store)).expect("attach");
        for number in 0..2 {
            volume.write(number, &bytes(number)).expect("write");
        }
        volume.flush().expect("flush");
        volume.write(2, &bytes(2)).expect("write");
        let place = testing::locate_block(&crate::Volume::of_memory(volume.clone()), block)
            .expect("cached");
        let at = place.bytes[0].1.start + 77;
        let region = Region::on_shadow(Arc::clone(&shadow));
        let mut byte = [0];
        region.read(at, &mut byte);
        region.store(at, &[byte[0] ^ 8]);
        (shadow, pool, volume)
    }

    fn bytes(number: u64) -> Vec<u8> {
        vec![number as u8 + 1; BLOCK]
    }

    fn read(volume: &MemoryVolume) -> Result<Vec<u8>> {
        let mut out = vec![0; 3 * BLOCK];
        volume.read_around(0, &mut out)?;
        Ok(out)
    }

    fn all() -> Vec<u8> {
        (0..3).flat_map(bytes).collect()
    }

    #[test]
    fn a_clean_block_whose_copy_is_bad_was_an_error_to_a_read_that_waits_for_writers() {
        let (_, pool, volume) = with_a_bad_copy_of(1);
        assert_eq!(read(&volume).expect("the backing has it"), all());
        let totals = pool.stats().totals;
        assert_eq!((totals.healed, totals.corrupt), (1, 0));
        assert!(
            testing::locate_block(&crate::Volume::of_memory(volume.clone()), 1).is_none(),
            "the copy went"
        );
    }

    #[test]
    fn a_bad_copy_that_cannot_be_evicted_any_more_was_an_error_to_a_read_that_waits_for_writers() {
        let (shadow, pool, volume) = with_a_bad_copy_of(1);
        shadow.set_fence_failure(FenceFailure::After(0));
        volume.write(5, &bytes(5)).expect_err("the fence failed");
        assert_eq!(read(&volume).expect("the backing has it"), all());
        assert_eq!(pool.stats().totals.corrupt, 0);
    }

    #[test]
    fn a_bad_copy_of_a_dirty_block_is_an_error_to_a_read_that_waits_for_writers() {
        let (_, pool, volume) = with_a_bad_copy_of(2);
        let error = read(&volume).expect_err("it is the only copy");
        assert!(
            matches!(error.kind(), ErrorKind::Corrupt { block: 2, .. }),
            "{error}"
        );
        assert_eq!(pool.stats().totals.corrupt, 1);
    }
}
