//! Breaking a pool on purpose, to test what a program does about it.
//!
//! Only a pool that was made for tests ([`PoolOptions::test_pool`]) can be broken: the superblock says
//! so, and nothing makes an ordinary pool one.

use crate::api::pool::Pool;
use crate::api::volume::Volume;
use crate::error::{ErrorKind, Result};
use crate::media::entry::Key;
use crate::media::layout::{FLAG_TEST, SUPERBLOCK_BYTES, Superblock};

#[cfg(doc)]
use crate::options::PoolOptions;

impl Pool {
    /// Whether this pool was made for tests.
    pub fn is_test(&self) -> bool {
        let mut raw = [0; SUPERBLOCK_BYTES];
        self.pipeline().media().main().read(0, &mut raw);
        Superblock::decode(&raw).is_some_and(|superblock| superblock.flags & FLAG_TEST != 0)
    }

    // Hidden: it is there for the command that shows people what a daemon does about a bad block.
    /// Flips one bit of the cached copy of a block, of two that which is read first, as failing memory would.
    ///
    /// # Errors
    /// No test pool; the block is not cached, or has fewer bits.
    #[doc(hidden)]
    pub fn flip_bit(&self, volume: &Volume, block: u64, bit: u64) -> Result<()> {
        if !self.is_test() {
            return Err(ErrorKind::Options(
                "bits are flipped in pools that were made for tests only".into(),
            )
            .into());
        }
        let pipeline = self.pipeline();
        let byte = (bit / 8) as usize;
        if block >= volume.blocks() || byte >= pipeline.engine().block_bytes() {
            return Err(ErrorKind::OutOfRange {
                volume: volume.id(),
                what: format!(
                    "bit {bit} of block {block}; the volume has {} blocks of {} bits",
                    volume.blocks(),
                    pipeline.engine().block_bytes() * 8
                ),
            }
            .into());
        }
        let key = Key::new(volume.id(), block);
        let bucket = pipeline.table().bucket(key);
        pipeline.table().index().lock(bucket.stripe);
        let slot = pipeline
            .table()
            .find(bucket, key)
            .and_then(|(_, raw)| pipeline.media().sound(raw)?.slot());
        if let Some(slot) = slot {
            let (region, base) = pipeline.media().slot(slot);
            let (at, mut content) = (base + byte as u64, [0]);
            region.read(at, &mut content);
            region.store(at, &[content[0] ^ 1 << (bit % 8)]);
            region.flush(at, 1);
        }
        pipeline.table().index().unlock(bucket.stripe);
        if slot.is_none() {
            return Err(ErrorKind::Volume(format!(
                "block {block} of {volume:?} is not in the pool; write or read it first"
            ))
            .into());
        }
        pipeline.engine().fence()
    }
}
