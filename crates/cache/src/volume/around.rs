//! Reading where writers leave no quiet moment, with no lock held while the backing is asked.
//!
//! The blocks are pinned first (`pins`): what is not cached at two looks under the locks was not cached in
//! between either, so the backing's answer is what the block is at the second look, unless the backing
//! was zeroed there meanwhile, which a pin tells.

use super::Volume;
use crate::error::Result;

impl Volume {
    /// Reads the blocks as they all are at one moment; misses are not brought in.
    pub(super) fn read_around(&self, block: u64, out: &mut [u8]) -> Result<()> {
        let core = &*self.core;
        let blocks = block..block + (out.len() / self.block_size()) as u64;
        let places = blocks
            .clone()
            .map(|number| core.place(self.key(number)).stripe);
        let mut stripes: Vec<u32> = places.collect();
        loop {
            let pinned = core.pins.pin(self.id(), blocks.clone());
            // Who zeroes some of them from here on says so to the pin.
            self.state.zeroings.wait(blocks.clone());
            core.lock_stripes(&mut stripes);
            let missing: Vec<u64> = blocks
                .clone()
                .filter(|number| {
                    let key = self.key(*number);
                    core.find(core.place(key), key).is_none()
                })
                .collect();
            core.unlock_stripes(&stripes);
            for (number, bytes) in blocks.clone().zip(out.chunks_exact_mut(self.block_size())) {
                if missing.contains(&number) {
                    core.table_is_whole()?;
                    self.read_backing(number, bytes)?;
                }
            }
            crate::sync::look_hint();
            core.lock_stripes(&mut stripes);
            let result = self.copy_locked(block, &missing, out);
            let is_disturbed = pinned.is_disturbed();
            core.unlock_stripes(&stripes);
            if !is_disturbed {
                return result;
            }
        }
    }

    /// Copies out what is cached, under the stripes' locks; the others the backing has given.
    fn copy_locked(&self, block: u64, missing: &[u64], out: &mut [u8]) -> Result<()> {
        let core = &*self.core;
        for (number, bytes) in (block..).zip(out.chunks_exact_mut(self.block_size())) {
            let key = self.key(number);
            match core.find(core.place(key), key) {
                Some((_, entry)) if core.copy_out(entry, true, bytes) => {}
                Some(_) => return Err(core.corrupt(key)),
                None => {
                    core.table_is_whole()?;
                    assert!(missing.contains(&number), "what is pinned stays");
                }
            }
        }
        Ok(())
    }
}
