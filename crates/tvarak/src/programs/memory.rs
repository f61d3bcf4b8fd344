//! The narrow interface between a program and what it runs on: words, counted instructions, ends of transactions.
//!
//! Addresses are bytes from the start of the program's own region of NVM. Words are aligned.

use std::ops::Range;

use crate::controller::state::Loss;

/// Words that one instruction moves: 16 bytes.
pub const MOVE_WORDS: usize = 2;
/// Bytes that one instruction moves.
pub const MOVE_BYTES: u64 = 16;

/// Why a program stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    /// Data that it accessed is lost.
    #[error(transparent)]
    Lost(#[from] Loss),
    /// Power failed, where a test has it fail.
    #[error("power failed")]
    PowerFailed,
    /// The region has no room for an object.
    #[error(
        "the region of {region_bytes} bytes has no room for an object of {object_bytes} bytes; make it larger"
    )]
    Full {
        /// Bytes of the region.
        region_bytes: u64,
        /// Bytes of the object, with its header.
        object_bytes: u64,
    },
    /// A transaction changes more than the log holds.
    #[error(
        "a transaction changes more than the {log_bytes} bytes of its log hold; change less in one"
    )]
    LogFull {
        /// Bytes of the log.
        log_bytes: u64,
    },
    /// What the region holds is no heap.
    #[error(
        "the region holds {found:#x} where a heap of {region_bytes} bytes begins; format it first"
    )]
    NotAHeap {
        /// The first word.
        found: u64,
        /// Bytes of the region.
        region_bytes: u64,
    },
}

/// Instructions between accesses, and how many of them access state that stays next to the core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Instructions.
    pub instructions: u64,
    /// Of these, loads and stores that are counted and not simulated.
    pub own_accesses: u64,
}

impl Work {
    /// Without accesses that are simulated one by one: each is an instruction that was counted, too.
    pub fn without(self, simulated: u64) -> Work {
        Work {
            instructions: self.instructions.saturating_sub(simulated),
            own_accesses: self.own_accesses.saturating_sub(simulated),
        }
    }

    /// So many times this.
    pub fn times(self, times: u64) -> Work {
        Work {
            instructions: self.instructions * times,
            own_accesses: self.own_accesses * times,
        }
    }

    /// Both.
    pub fn and(self, other: Work) -> Work {
        Work {
            instructions: self.instructions + other.instructions,
            own_accesses: self.own_accesses + other.own_accesses,
        }
    }
}

/// A part of an object that a transaction changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// All of the object, with its header: what a checksum of objects goes over.
    pub object: Range<u64>,
    /// The bytes that were changed.
    pub changed: Range<u64>,
    /// Where the log has what they were before; none of an object that the transaction allocated.
    pub before: Option<u64>,
}

/// What a program runs on.
pub trait Memory {
    /// Loads words of one line.
    ///
    /// # Errors
    /// They are lost.
    fn load(&mut self, address: u64, words: &mut [u64]) -> Result<(), Halt>;

    /// Stores words of one line.
    ///
    /// # Errors
    /// The line is lost, or power failed; nothing, or of several words some, was stored.
    fn store(&mut self, address: u64, words: &[u64]) -> Result<(), Halt>;

    /// The next access needs the value of the last load.
    fn wait_for_last_load(&mut self);

    /// Executes instructions.
    fn work(&mut self, work: Work);

    /// A transaction is complete: what a library that keeps checksums in software is told (§4).
    ///
    /// # Errors
    /// What it accesses for them is lost.
    fn end_transaction(&mut self, changes: &[Change]) -> Result<(), Halt>;

    /// Loads a word.
    ///
    /// # Errors
    /// It is lost.
    #[inline]
    fn word(&mut self, address: u64) -> Result<u64, Halt> {
        let mut word = [0];
        self.load(address, &mut word)?;
        Ok(word[0])
    }

    /// Loads a word that says where the next access goes, or whether there is one.
    ///
    /// # Errors
    /// It is lost.
    #[inline]
    fn pointer(&mut self, address: u64) -> Result<u64, Halt> {
        let word = self.word(address)?;
        self.wait_for_last_load();
        Ok(word)
    }

    /// Stores a word.
    ///
    /// # Errors
    /// As of [`Memory::store`].
    #[inline]
    fn set(&mut self, address: u64, word: u64) -> Result<(), Halt> {
        self.store(address, &[word])
    }

    /// Loads any number of words, 16 bytes at a time.
    ///
    /// # Errors
    /// One is lost.
    fn load_all(&mut self, address: u64, words: &mut [u64]) -> Result<(), Halt> {
        let mut at = 0;
        while at < words.len() {
            let next = address + 8 * at as u64;
            // Of a known length each, so that none is a call to move bytes.
            if is_pair(next) && at + 1 < words.len() {
                let mut pair = [0; MOVE_WORDS];
                self.load(next, &mut pair)?;
                words[at..at + 2].copy_from_slice(&pair);
                at += 2;
            } else {
                words[at] = self.word(next)?;
                at += 1;
            }
        }
        Ok(())
    }

    /// Stores any number of words, 16 bytes at a time, in order.
    ///
    /// # Errors
    /// As of [`Memory::store`].
    fn store_all(&mut self, address: u64, words: &[u64]) -> Result<(), Halt> {
        let mut at = 0;
        while at < words.len() {
            let next = address + 8 * at as u64;
            if is_pair(next) && at + 1 < words.len() {
                self.store(next, &[words[at], words[at + 1]])?;
                at += 2;
            } else {
                self.set(next, words[at])?;
                at += 1;
            }
        }
        Ok(())
    }
}

/// Whether one instruction moves two words from an address on: none crosses a line.
fn is_pair(address: u64) -> bool {
    address.is_multiple_of(MOVE_BYTES)
}
