//! A core of the simulated machine, as a program's memory.

use crate::controller::state::Loss;
use crate::line::{LINE_BYTES, Words};
use crate::machine::state::Machine;
use crate::programs::heap::OBJECTS_AT;
use crate::programs::memory::{Change, Halt, Memory, Work};
use crate::workload::behind::Behind;
use crate::workload::library::Library;

/// A library that keeps redundancy in software, and the lines that the transaction has written, with what they held.
#[derive(Debug)]
pub struct Software {
    library: Library,
    written: Vec<(u64, Words)>,
}

impl Software {
    /// The library.
    pub fn new(library: Library) -> Software {
        Software {
            library,
            written: Vec::new(),
        }
    }

    /// A line is to be written: unless it was already, the library copies it.
    fn before(&mut self, machine: &mut Machine, core: usize, line: u64) -> Result<(), Loss> {
        if self
            .written
            .iter()
            .rev()
            .all(|(written, _)| *written != line)
        {
            let old = self.library.before(machine, core, line)?;
            self.written.push((line, old));
        }
        Ok(())
    }

    fn after(&mut self, machine: &mut Machine, core: usize, objects: u64) -> Result<(), Loss> {
        self.written.sort_unstable_by_key(|(line, _)| *line);
        let done = self
            .library
            .after_all(machine, core, objects, &self.written);
        self.written.clear();
        done
    }
}

/// A core, and where the region of its program begins.
#[derive(Debug)]
pub struct CoreMemory<'a> {
    /// The machine.
    pub machine: &'a mut Machine,
    /// The core.
    pub core: usize,
    /// The address of the region's first byte in the file.
    pub region: u64,
    /// What keeps redundancy at the end of transactions, in a design that does.
    pub software: Option<&'a mut Software>,
    /// What keeps it behind the program, in the design that does.
    pub behind: Option<&'a Behind>,
}

impl Memory for CoreMemory<'_> {
    #[inline]
    fn load(&mut self, address: u64, words: &mut [u64]) -> Result<(), Halt> {
        Ok(self.machine.load(self.core, self.region + address, words)?)
    }

    #[inline]
    fn store(&mut self, address: u64, words: &[u64]) -> Result<(), Halt> {
        let address = self.region + address;
        if let Some(software) = &mut self.software {
            software.before(self.machine, self.core, address / LINE_BYTES)?;
        }
        if let Some(behind) = self.behind {
            behind.before_store(self.machine, self.core, address / LINE_BYTES);
        }
        Ok(self.machine.store(self.core, address, words)?)
    }

    #[inline]
    fn wait_for_last_load(&mut self) {
        self.machine.wait_for_last_load(self.core);
    }

    #[inline]
    fn work(&mut self, work: Work) {
        let Work {
            instructions,
            own_accesses,
        } = work;
        self.machine.compute(self.core, instructions, own_accesses);
    }

    /// Software makes checksums and parity of the lines that were written: of each object by the difference, as
    /// Pangolin, or of each page. A controller knows of no transactions, and the baseline of no redundancy.
    fn end_transaction(&mut self, changes: &[Change]) -> Result<(), Halt> {
        if let Some(behind) = self.behind {
            behind.after(self.machine, self.core)?;
        }
        let Some(software) = &mut self.software else {
            return Ok(());
        };
        // What the heap keeps of itself, its log and its free lists, is covered like all else and is no object of the program's:
        // what it takes is in what the transaction does.
        let starts = changes.iter().map(|change| change.object.start);
        let mut objects: Vec<u64> = starts.filter(|start| *start >= OBJECTS_AT).collect();
        objects.sort_unstable();
        objects.dedup();
        Ok(software.after(self.machine, self.core, objects.len() as u64)?)
    }
}
