//! What keeps redundancy under a program where that is software: a library at the end of each write, or passes behind it.

use crate::controller::state::Loss;
use crate::design::Design;
use crate::line::Words;
use crate::machine::state::Machine;
use crate::parameters::Parameters;
use crate::workload::behind::Behind;
use crate::workload::library::Library;

/// A thread's part in it. Of the other designs, and of threads that only read, it does nothing.
#[derive(Clone, Debug, Default)]
pub struct Keeping {
    library: Option<Library>,
    behind: Option<Behind>,
}

impl Keeping {
    /// That of a design, for a file of so many pages. The threads of a program share it by clones.
    pub fn of(design: Design, parameters: &Parameters, pages: u32) -> Keeping {
        Keeping {
            library: Library::of(design, parameters),
            behind: Behind::of(design, parameters, pages),
        }
    }

    /// The passes' turn, between two steps of the program. Whether one began, as of [`Behind::step`].
    ///
    /// # Errors
    /// Data that it reads is lost.
    pub fn turn(&self, machine: &mut Machine, core: usize) -> Result<bool, Loss> {
        (self.behind.as_ref()).map_or(Ok(false), |behind| behind.step(machine, core))
    }

    /// A line of the file is about to be written: what it holds, for [`Keeping::after`].
    ///
    /// # Errors
    /// It is lost.
    pub fn before(
        &self,
        machine: &mut Machine,
        core: usize,
        line: u64,
    ) -> Result<Option<Words>, Loss> {
        if let Some(behind) = &self.behind {
            behind.before_store(machine, core, line);
        }
        let library = self.library.as_ref();
        library
            .map(|library| library.before(machine, core, line))
            .transpose()
    }

    /// The line that held `old` was written.
    ///
    /// # Errors
    /// Data or redundancy that it reads is lost.
    pub fn after(
        &self,
        machine: &mut Machine,
        core: usize,
        line: u64,
        old: Option<Words>,
    ) -> Result<(), Loss> {
        if let (Some(library), Some(old)) = (&self.library, old) {
            library.after(machine, core, line, &old)?;
        }
        (self.behind.iter()).try_for_each(|behind| behind.after(machine, core))
    }

    /// All threads are done: what is left is covered.
    ///
    /// # Errors
    /// Data that it reads is lost.
    pub fn settle(&self, machine: &mut Machine) -> Result<(), Loss> {
        (self.behind.iter()).try_for_each(|behind| behind.settle(machine))
    }
}
