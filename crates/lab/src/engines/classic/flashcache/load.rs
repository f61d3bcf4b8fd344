//! Finding the cache again from its metadata blocks.
//!
//! After a crash only dirty blocks are in the cache; clean ones are read from the disk again. What
//! the media say is checked: a dirty entry names a block of the disk, in a slot of its set, and no
//! two name the same.
//!
//! What is found may not be durable: after a mere kill, stores are visible that no fence has covered.
//! A power cut would take them back after the journal has been replayed in part, or after a slot that
//! they had made clean was used again. So all that is believed is made durable before anything is
//! done about it.

use forebay::{Backing, Error, ErrorKind, Result};

use super::super::layout::{ENTRY_BYTES, Entry, Geometry, State};
use super::super::nvm_device::NvmDevice;
use super::Flashcache;
use crate::mutants::{Mutant, mutated};
use crate::shared::HEADER_BYTES;

impl Flashcache {
    /// The cache as its metadata blocks have it.
    ///
    /// # Errors
    /// `Damaged` where they contradict themselves; a fence failed.
    pub(in super::super) fn load(
        device: NvmDevice,
        backing: Backing,
        geometry: Geometry,
    ) -> Result<Flashcache> {
        let mut cache = Flashcache::new(device, backing, geometry);
        let mut bytes = vec![0; geometry.block_bytes];
        let mut slot = 0;
        for block in 0..geometry.metadata_blocks() {
            if !cache
                .device
                .read(geometry.metadata_offset(block), &mut bytes)
            {
                return Err(cache.damaged(slot, "is in a page where the medium failed"));
            }
            let left = (geometry.slots - u64::from(slot)) as usize;
            for bytes in bytes.chunks(ENTRY_BYTES).take(left) {
                cache.take_over(slot, bytes)?;
                slot += 1;
            }
        }
        cache.settle()?;
        Ok(cache)
    }

    /// **Differs from what is printed** (docs/inside/papers.md, Classic, finding 2), which believes what it
    /// sees.
    fn settle(&self) -> Result<()> {
        if self.geometry.as_printed || mutated(Mutant::ClassicBeliefNotDurable) {
            return Ok(());
        }
        self.device.flush(0, HEADER_BYTES);
        let metadata_bytes = self.geometry.metadata_blocks() * self.geometry.block_bytes as u64;
        let metadata_offset = self.geometry.metadata_offset(0);
        self.device.flush(metadata_offset, metadata_bytes);
        for slot in self.table.dirty_slots() {
            let offset = self.geometry.slot_offset(slot);
            self.device.flush(offset, self.geometry.block_bytes as u64);
        }
        // Before the first store of this incarnation: what that does rests on what was found.
        self.device.fence()
    }

    fn take_over(&mut self, slot: u32, bytes: &[u8]) -> Result<()> {
        let Some(entry) = Entry::from_bytes(bytes, self.geometry.as_printed) else {
            return Err(self.damaged(slot, "has an unknown state"));
        };
        if entry.state != State::Dirty {
            return Ok(());
        }
        if entry.number >= self.geometry.disk_blocks {
            return Err(self.damaged(slot, "names a block outside the disk"));
        }
        let set = self.geometry.set_of(entry.number);
        let first = self.geometry.first_slot(set);
        if !(first..first + self.geometry.slots_of(set)).contains(&slot) {
            return Err(self.damaged(slot, "names a block of another set"));
        }
        if self.is_cached(entry.number) {
            return Err(self.damaged(slot, "names a block that another slot has"));
        }
        self.table.set(slot, entry);
        Ok(())
    }

    fn damaged(&self, slot: u32, what: &str) -> Error {
        ErrorKind::Damaged {
            path: self.device.region().path().to_path_buf(),
            found: format!("the cache entry of slot {slot} {what}"),
        }
        .into()
    }
}
