//! Breaking a pool on purpose, to test what a program does about it.
//!
//! Only a pool that was made for tests ([`PoolOptions::test_pool`]) can be broken: the superblock says
//! so, and nothing makes an ordinary pool one.

use std::ops::ControlFlow;
use std::time::Duration;

use crate::api::pool::MemoryPool;
use crate::api::volume::MemoryVolume;
use crate::engine::{Drill, DrillBegun, DrillStrike};
use crate::error::{ErrorKind, Result};
use crate::media::areas::test_member;
use crate::media::entry::Key;

#[cfg(doc)]
use crate::options::PoolOptions;

/// How often a drill looks whether there was a write.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

impl MemoryPool {
    /// Whether this pool was made for tests.
    pub fn is_test(&self) -> bool {
        // That of one member may have been broken in a drill.
        let mut metadata = self.pipeline().media().metadata();
        metadata.any(|region| test_member(region).is_some())
    }

    // Hidden: for drills of the command.
    /// Has a member do something wrong. Where a drill waits for a write, `go_on` is asked now and then, at once for the
    /// first time: from then on a write is struck. `None` if it said no before there was one.
    ///
    /// # Errors
    /// No test pool; there is no such member, or nothing there to break; the member's fence fails.
    #[doc(hidden)]
    pub fn inject(
        &self,
        drill: &Drill,
        go_on: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<Option<DrillStrike>> {
        if !self.is_test() {
            return Err(ErrorKind::Options(
                "drills are for pools that were made for tests only".into(),
            )
            .into());
        }
        let engine = self.pipeline().engine();
        let mut armed = match engine.begin_drill(drill)? {
            DrillBegun::Struck(struck) => return Ok(Some(struck)),
            DrillBegun::Armed(armed) => armed,
        };
        while go_on().is_continue() {
            if let Some(struck) = engine.strike_write(&mut armed)? {
                return Ok(Some(struck));
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        Ok(None)
    }

    // Hidden: it is there for the command that shows people what a daemon does about a bad block.
    /// Flips one bit of the cached copy of a block, of two that which is read first, as failing memory would.
    ///
    /// # Errors
    /// No test pool; the block is not cached, or has fewer bits.
    #[doc(hidden)]
    pub fn flip_bit(&self, volume: &MemoryVolume, block: u64, bit: u64) -> Result<()> {
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
