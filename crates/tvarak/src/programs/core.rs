//! A core of the simulated machine, as a program's memory.

use crate::machine::state::Machine;
use crate::programs::memory::{Change, Halt, Memory, Work};

/// A core, and where the region of its program begins.
#[derive(Debug)]
pub struct CoreMemory<'a> {
    /// The machine.
    pub machine: &'a mut Machine,
    /// The core.
    pub core: usize,
    /// The address of the region's first byte in the file.
    pub region: u64,
}

impl Memory for CoreMemory<'_> {
    #[inline]
    fn load(&mut self, address: u64, words: &mut [u64]) -> Result<(), Halt> {
        Ok(self.machine.load(self.core, self.region + address, words)?)
    }

    #[inline]
    fn store(&mut self, address: u64, words: &[u64]) -> Result<(), Halt> {
        Ok(self
            .machine
            .store(self.core, self.region + address, words)?)
    }

    #[inline]
    fn wait_for_last_load(&mut self) {
        self.machine.wait_for_last_load(self.core);
    }

    #[inline]
    fn work(&mut self, work: Work) {
        self.machine
            .compute(self.core, work.instructions, work.own_accesses);
    }

    /// Nothing: a controller knows of no transactions, and the baseline of no redundancy.
    fn end_transaction(&mut self, _: &[Change]) -> Result<(), Halt> {
        Ok(())
    }
}
