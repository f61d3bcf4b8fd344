//! The middle layer: a write-back block cache as Flashcache manages one, over the NVM block device.
//!
//! The cache is set-associative; neighbouring blocks of the disk share a set, and a set replaces its
//! least recently used clean block. A write goes to its slot, in place if the block is cached, and
//! then the metadata block with the slot's entry is written, at each cached write (Tinca §3.2), both
//! as whole blocks. A read that misses brings the block in clean, without a metadata write: only
//! dirty blocks are found again when the cache is opened (Flashcache's design document).
//!
//! What holds at every moment:
//!
//! * an entry that is dirty on the media names the block whose newest content its slot has, torn at
//!   worst if that block was being written: a slot is reused only when its entry on the media is not
//!   dirty, and its new content is durable before its new entry;
//! * what a slot that is not dirty has is also on the disk, written and synced before the entry was
//!   written clean;
//! * a block has at most one slot, in its set.

mod clean;
mod cleaning;
mod load;
mod room;
mod round;
mod table;

use std::collections::BTreeSet;

use forebay::{Backing, ErrorKind, Result};

use super::layout::{ENTRY_BYTES, Entry, Geometry, State};
use super::nvm_device::NvmDevice;
use crate::mutants::{Mutant, mutated};
use crate::shared::{Disk, InFlight};
pub(super) use cleaning::Cleaning;
use cleaning::Lacking;
use table::Table;

/// The cache and the disk behind it, as one block device.
pub(super) struct Flashcache {
    device: NvmDevice,
    disk: Disk,
    geometry: Geometry,
    table: Table,
    evictions: u64,
    cleaning: Cleaning,
    /// What a write found no room in.
    lacking: Option<Lacking>,
    /// Sets that have changed since the cleaner was last told.
    touched: BTreeSet<usize>,
    in_flight: InFlight,
}

impl Flashcache {
    /// An empty cache; the caller has seen to it that no entry on the media is dirty.
    pub(super) fn new(device: NvmDevice, backing: Backing, geometry: Geometry) -> Flashcache {
        Flashcache {
            table: Table::new(&geometry),
            disk: Disk::new(backing, geometry.block_bytes),
            device,
            geometry,
            evictions: 0,
            cleaning: Cleaning::AsPrinted,
            lacking: None,
            touched: BTreeSet::new(),
            in_flight: InFlight::default(),
        }
    }

    pub(super) fn device(&self) -> &NvmDevice {
        &self.device
    }

    pub(super) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub(super) fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Blocks in the cache, and of them dirty ones.
    pub(super) fn cached_and_dirty(&self) -> (u64, u64) {
        (self.table.cached(), self.table.dirty())
    }

    /// Blocks that gave way to others.
    pub(super) fn evictions(&self) -> u64 {
        self.evictions
    }

    pub(super) fn is_cached(&self, number: u64) -> bool {
        self.table.find(number).is_some()
    }

    /// Reads a block, cached or not, before any other thread uses the cache.
    pub(super) fn read(&mut self, number: u64, out: &mut [u8]) -> Result<()> {
        if self.is_cached(number) && self.read_cached(number, out)? {
            return Ok(());
        }
        self.disk.read(number, out)
    }

    /// Copies a cached block out; false where the medium lost it and the disk has it.
    ///
    /// # Errors
    /// `Corrupt`: the medium lost a dirty block, of which there is no other copy.
    pub(super) fn read_cached(&mut self, number: u64, out: &mut [u8]) -> Result<bool> {
        let slot = self.table.find(number).expect("it is cached");
        if !self.device.read(self.geometry.slot_offset(slot), out) {
            return match self.table.entry(slot).state {
                State::Dirty => Err(corrupt(number)),
                State::Invalid | State::Clean => Ok(false),
            };
        }
        self.table.touch(slot);
        Ok(true)
    }

    /// Copies a dirty block out.
    ///
    /// # Errors
    /// `Corrupt`: the medium lost it.
    pub(super) fn read_dirty(&self, number: u64, out: &mut [u8]) -> Result<()> {
        let slot = self.table.find(number).expect("a dirty block is cached");
        match self.device.read(self.geometry.slot_offset(slot), out) {
            true => Ok(()),
            false => Err(corrupt(number)),
        }
    }

    /// Keeps a block that was read from the disk, clean.
    ///
    /// # Errors
    /// A fence failed. Where there is no room, or none can be made, it is not kept.
    pub(super) fn keep(&mut self, number: u64, bytes: &[u8]) -> Result<()> {
        let filled = self.fill(number, bytes);
        // No thread waits for that room.
        self.lacking = None;
        match filled {
            // Not to be cached is no reason not to be read.
            Err(error)
                if !matches!(
                    error.kind(),
                    ErrorKind::Backing { .. }
                        | ErrorKind::Poisoned { .. }
                        | ErrorKind::Corrupt { .. }
                        | ErrorKind::NoSpace { .. }
                ) =>
            {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    fn fill(&mut self, number: u64, bytes: &[u8]) -> Result<()> {
        let slot = self.claim(number)?;
        self.device.write(self.geometry.slot_offset(slot), bytes)?;
        self.set(slot, number, State::Clean);
        Ok(())
    }

    /// Writes a block of the disk into the cache; durable on return, but torn by a power cut before.
    /// After an error of the backing the block is as it was.
    pub(super) fn write(&mut self, number: u64, bytes: &[u8]) -> Result<()> {
        let slot = match self.table.find(number) {
            Some(slot) => slot,
            None => self.claim(number)?,
        };
        if mutated(Mutant::ClassicEntryBeforeContent) {
            self.set(slot, number, State::Dirty);
            self.write_metadata(self.geometry.metadata_block_of(slot))?;
        }
        self.in_flight.note_change(number);
        // The content is durable before its entry: the entry never names what is not there.
        self.device.write(self.geometry.slot_offset(slot), bytes)?;
        self.set(slot, number, State::Dirty);
        // The entry is durable before the writer is answered.
        self.write_metadata(self.geometry.metadata_block_of(slot))?;
        self.touched.insert(self.geometry.set_of(number));
        if self.cleaning != Cleaning::AsPrinted {
            return Ok(());
        }
        match self.clean_above_threshold(self.geometry.set_of(number)) {
            // Cleaning is not what the writer asked for; the next write of the set tries again.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::Backing { .. } | ErrorKind::Corrupt { .. }
                ) =>
            {
                Ok(())
            }
            cleaned => cleaned,
        }
    }

    /// An empty slot for a block that is not cached: a free one, or the set's least recently used
    /// clean one, or where a set is dirty throughout its oldest one, cleaned. With a cleaner that is not done here.
    fn claim(&mut self, number: u64) -> Result<u32> {
        let set = self.geometry.set_of(number);
        if let Some(slot) = self.table.free_slot(set) {
            return Ok(slot);
        }
        let victim = match self.table.oldest_clean(set) {
            Some(slot) => slot,
            None if self.cleaning == Cleaning::InBackground => {
                return Err(self.note_lacking(set, 1));
            }
            None => {
                self.clean_oldest(set, 1)?;
                let cleaned = self.table.oldest_clean(set);
                cleaned.expect("a set that was cleaned has a clean slot")
            }
        };
        // Nothing is written: the entry on the media is not dirty, so it counts for nothing.
        assert!(self.table.entry(victim).state == State::Clean);
        self.table.set(victim, Entry::default());
        self.evictions += 1;
        Ok(self.table.free_slot(set).expect("one was just freed"))
    }

    fn set(&mut self, slot: u32, number: u64, state: State) {
        self.table.set(slot, Entry { number, state });
        self.table.touch(slot);
    }

    /// Writes a metadata block as the table has it; durable on return.
    fn write_metadata(&self, block: u64) -> Result<()> {
        if !self.geometry.updates_metadata {
            return Ok(());
        }
        let first = block * self.geometry.entries_per_block();
        let mut bytes = vec![0; self.geometry.block_bytes];
        for (slot, bytes) in (first..self.geometry.slots).zip(bytes.chunks_mut(ENTRY_BYTES)) {
            let entry = self.table.entry(slot as u32);
            bytes.copy_from_slice(&entry.to_bytes(self.geometry.as_printed));
        }
        self.device
            .write(self.geometry.metadata_offset(block), &bytes)
    }

    /// Writes the metadata blocks of these slots, each once.
    fn write_metadata_of(&self, slots: &[u32]) -> Result<()> {
        let entries = self.geometry.entries_per_block();
        let blocks: BTreeSet<u64> = slots
            .iter()
            .map(|&slot| u64::from(slot) / entries)
            .collect();
        blocks
            .into_iter()
            .try_for_each(|block| self.write_metadata(block))
    }
}

/// The error of a block whose only copy the medium lost.
fn corrupt(block: u64) -> forebay::Error {
    ErrorKind::Corrupt { volume: 0, block }.into()
}
