//! What keeps redundancy behind a program, in passes: the asynchronous design, or Forebay's regions.

use crate::controller::state::Loss;
use crate::design::Design;
use crate::machine::state::Machine;
use crate::parameters::Parameters;
use crate::workload::passes::Passes;
use crate::workload::regions::Regions;

/// A thread's part in it.
#[derive(Clone, Debug)]
pub enum Behind {
    /// After Vilamb.
    Passes(Passes),
    /// As `forebay-dax`.
    Regions(Regions),
}

impl Behind {
    /// That of a design, if it has any, for a file of so many pages.
    pub fn of(design: Design, parameters: &Parameters, pages: u32) -> Option<Behind> {
        let passes = Passes::of(design, parameters, pages).map(Behind::Passes);
        passes.or_else(|| Regions::of(design, parameters, pages).map(Behind::Regions))
    }

    /// A line of the file is about to be stored to.
    #[inline]
    pub fn before_store(&self, machine: &mut Machine, core: usize, line: u64) {
        match self {
            Behind::Passes(passes) => passes.before_store(machine, core, line),
            Behind::Regions(regions) => regions.before_store(machine, core, line),
        }
    }

    /// A transaction, or a write outside of one, is complete.
    ///
    /// # Errors
    /// Data that it reads is lost.
    pub fn after(&self, machine: &mut Machine, core: usize) -> Result<(), Loss> {
        match self {
            Behind::Passes(_) => Ok(()),
            Behind::Regions(regions) => regions.after(machine, core),
        }
    }

    /// Its turn, between two steps of the program. Whether the core was away for long, so that others go first.
    ///
    /// # Errors
    /// Data that it reads is lost.
    pub fn step(&self, machine: &mut Machine, core: usize) -> Result<bool, Loss> {
        match self {
            Behind::Passes(passes) => passes.step(machine, core),
            Behind::Regions(regions) => regions.step(machine, core),
        }
    }

    /// Covers all that is left, once all threads are done.
    ///
    /// # Errors
    /// Data that it reads is lost.
    pub fn settle(&self, machine: &mut Machine) -> Result<(), Loss> {
        match self {
            Behind::Passes(passes) => passes.settle(machine),
            Behind::Regions(regions) => regions.settle(machine),
        }
    }
}
