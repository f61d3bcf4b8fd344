//! Reading: where the block is, without the lock its bytes, and then whether it is still there.

use super::core::{Log, State};
use crate::error::{LogError, Result};
use crate::media::Key;
use crate::mutants::{Mutant, mutated};
use crate::page::PAGE_BYTES;
use crate::state::{Entry, Held, RecentBlock};

/// Where a block was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// In the pool.
    Cached,
    /// In a range of zeroes.
    Zeroes,
    /// On its backing.
    Backing,
}

enum Place {
    Page(Held),
    /// The same, its page in memory still.
    Recent(RecentBlock, Held),
    Zeroes,
    Backing,
}

/// A read under way.
pub struct Reading {
    key: Key,
    /// The version of the block's stripe when it was looked for.
    pub(crate) version: u32,
    place: Place,
}

impl Reading {
    /// Looks where a block is.
    pub(crate) fn begin(state: &mut State, key: Key) -> Reading {
        let version = state.versions.of(key);
        let place = match state.table.get(key) {
            Some(entry) => {
                state.table.mark_used(key);
                let held = state.held_now(entry);
                match state.recent.get(entry.page) {
                    Some(block) => Place::Recent(block, held),
                    None => Place::Page(held),
                }
            }
            None if state.zeroed.get(key).is_some() => Place::Zeroes,
            None => Place::Backing,
        };
        Reading {
            key,
            version,
            place,
        }
    }

    /// Whether the block has not changed since.
    pub(crate) fn is_current(&self, state: &State) -> bool {
        state.versions.of(self.key) == self.version
    }

    /// What was loaded counts if the block has not changed since: only then nothing else was written to the page meanwhile. That is
    /// asked after the load, also of one that failed.
    pub(super) fn finished(&self, state: &State, loaded: Result<()>) -> Result<Option<Found>> {
        if !self.is_current(state) && !mutated(Mutant::SsdReadWithoutVersion) {
            return Ok(None);
        }
        loaded.map(|()| Some(self.found()))
    }

    /// The page that it is to be read from, if there is one that has all of it.
    pub(super) fn entry(&self) -> Option<Entry> {
        match &self.place {
            Place::Page(held) => held.as_page(),
            Place::Recent(..) | Place::Zeroes | Place::Backing => None,
        }
    }

    /// Which block it is.
    #[must_use]
    pub fn block(&self) -> u64 {
        self.key.block
    }

    /// Whether the backing has the same, as far as is known.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        match &self.place {
            Place::Page(held) | Place::Recent(_, held) => held.entry.is_clean(),
            Place::Zeroes => false,
            Place::Backing => true,
        }
    }

    /// What [`Log::stage_fill`] asks for.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The page of the device that has it, if one has.
    #[must_use]
    pub fn page(&self) -> Option<u64> {
        self.entry().map(|entry| u64::from(entry.page))
    }

    /// Where the block was when it was looked for.
    #[must_use]
    pub fn found(&self) -> Found {
        match self.place {
            Place::Page(_) | Place::Recent(..) => Found::Cached,
            Place::Zeroes => Found::Zeroes,
            Place::Backing => Found::Backing,
        }
    }
}

impl Log {
    /// Reads a block as the last published transaction left it.
    ///
    /// # Errors
    /// The device or the backing fails, or the block does not match its check.
    pub fn read(&self, volume: u32, block: u64, out: &mut [u8]) -> Result<Found> {
        loop {
            let reading = self.begin_read(volume, block);
            if let Some(found) = self.finish_read(&reading, out)? {
                return Ok(found);
            }
        }
    }

    /// Looks where a block is.
    pub fn begin_read(&self, volume: u32, block: u64) -> Reading {
        Reading::begin(&mut self.lock(), Key { volume, block })
    }

    /// Reads it from there. None if it may have changed meanwhile: then it is to be looked for again.
    ///
    /// # Errors
    /// As those of [`Log::read`].
    ///
    /// # Panics
    /// `out` has not the length of a block.
    pub fn finish_read(&self, reading: &Reading, out: &mut [u8]) -> Result<Option<Found>> {
        assert_eq!(out.len(), PAGE_BYTES, "a whole block");
        let loaded = self.load(reading, out);
        reading.finished(&self.lock(), loaded)
    }

    /// The bytes that are there now, checked.
    pub(crate) fn load(&self, reading: &Reading, out: &mut [u8]) -> Result<()> {
        let Key { volume, block } = reading.key;
        match &reading.place {
            Place::Zeroes => {
                out.fill(0);
                Ok(())
            }
            Place::Page(held) => self.load_held(held, out),
            Place::Recent(recent, held) => {
                out.copy_from_slice(recent.bytes());
                match held.entry.has_bytes(out) {
                    true if mutated(Mutant::SsdRecentWithoutPatch) => Ok(()),
                    true => self.lay_patches(held, out),
                    // The device has it as it was written.
                    false => self.load_held(held, out),
                }
            }
            Place::Backing => {
                let Some(backing) = self.backing(volume) else {
                    return Err(LogError::Transaction(format!(
                        "volume {volume} has no backing, and block {block} of it is not in the pool; attach its backing"
                    )));
                };
                let read = backing.read(block, out);
                read.map_err(|source| LogError::Backing {
                    volume,
                    action: "read a block",
                    source,
                })
            }
        }
    }

    /// The bytes of a block at its page, checked.
    pub(crate) fn load_entry(&self, entry: Entry, out: &mut [u8]) -> Result<()> {
        let page = u64::from(entry.page);
        let read = self.device.read(page, out);
        if read.is_ok() && entry.has_bytes(out) || self.load_other(entry, out) {
            return Ok(());
        }
        read.map_err(self.failed("read a block"))?;
        Err(self.corrupt(entry))
    }

    fn corrupt(&self, entry: Entry) -> LogError {
        let Key { volume, block } = entry.key();
        LogError::Corrupt {
            path: self.device.path().to_owned(),
            volume,
            block,
            page: u64::from(entry.page),
        }
    }

    /// The bytes of a block as it was at a moment.
    pub(crate) fn load_held(&self, held: &Held, out: &mut [u8]) -> Result<()> {
        let is_whole = held.patched.as_ref().is_some_and(|one| one.is_whole());
        if !is_whole {
            self.load_entry(held.entry, out)?;
        }
        self.lay_patches(held, out)
    }

    /// Lays what is to be laid over a block's page over the bytes of that.
    fn lay_patches(&self, held: &Held, out: &mut [u8]) -> Result<()> {
        match held.patched.as_ref().is_none_or(|one| one.put_over(out)) {
            true => Ok(()),
            false => Err(self.corrupt(held.entry)),
        }
    }

    /// Whether a block is in the pool, and whether its backing has the same; none if it is not.
    pub fn is_clean(&self, volume: u32, block: u64) -> Option<bool> {
        let key = Key { volume, block };
        let state = self.lock();
        match state.table.get(key) {
            Some(entry) => Some(entry.is_clean()),
            None => state.zeroed.get(key).map(|_| false),
        }
    }
}
