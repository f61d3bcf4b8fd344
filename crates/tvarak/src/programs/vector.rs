//! A region in plain memory: for filling one before it is simulated, and for tests, which stop it at any store.

use crate::programs::memory::{Change, Halt, Memory, Work};

/// The region.
#[derive(Clone, Debug)]
pub struct VectorMemory {
    /// Its words.
    pub words: Vec<u64>,
    /// Words that can still be stored before power fails; without end if there are none.
    pub stores_left: Option<u64>,
    /// Words that were stored.
    pub stored: u64,
    /// Instructions that were executed, accesses among them.
    pub instructions: u64,
    /// What transactions changed, if it is kept.
    pub changes: Option<Vec<Vec<Change>>>,
}

impl VectorMemory {
    /// Of so many bytes, zeroed.
    pub fn new(bytes: u64) -> VectorMemory {
        VectorMemory {
            words: vec![0; bytes as usize / 8],
            stores_left: None,
            stored: 0,
            instructions: 0,
            changes: None,
        }
    }
}

impl Memory for VectorMemory {
    #[inline]
    fn load(&mut self, address: u64, words: &mut [u64]) -> Result<(), Halt> {
        let first = address as usize / 8;
        words.copy_from_slice(&self.words[first..first + words.len()]);
        self.instructions += 1;
        Ok(())
    }

    #[inline]
    fn store(&mut self, address: u64, words: &[u64]) -> Result<(), Halt> {
        let first = address as usize / 8;
        for (at, word) in words.iter().enumerate() {
            if let Some(left) = &mut self.stores_left {
                *left = left.checked_sub(1).ok_or(Halt::PowerFailed)?;
            }
            self.words[first + at] = *word;
        }
        self.stored += words.len() as u64;
        self.instructions += 1;
        Ok(())
    }

    fn wait_for_last_load(&mut self) {}

    fn work(&mut self, work: Work) {
        self.instructions += work.instructions;
    }

    fn end_transaction(&mut self, changes: &[Change]) -> Result<(), Halt> {
        if let Some(kept) = &mut self.changes {
            kept.push(changes.to_vec());
        }
        Ok(())
    }
}
