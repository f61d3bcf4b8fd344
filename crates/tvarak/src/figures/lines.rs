//! What one read and one write-back of a line access, by design (§3.3, §3.4).

use crate::controller::state::Loss;
use crate::design::Design;
use crate::line::LINE_BYTES;
use crate::machine::build::Sizes;
use crate::machine::state::Machine;
use crate::parameters::Parameters;

/// The line; another page than the first.
const LINE: u32 = 100;

/// Lines of NVM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lines {
    /// Read for one that a core reads.
    pub read: u64,
    /// Read for one that is written back.
    pub read_to_write: u64,
    /// Written for one that is written back, itself and, at once or in the end, what follows from it.
    pub written: u64,
}

/// Counts them on a machine with empty caches.
///
/// # Errors
/// None: nothing is lost without bugs.
pub fn count(parameters: &Parameters, design: Design) -> Result<Lines, Loss> {
    let sizes = Sizes {
        data_pages: 600,
        dram_lines: 1,
        code_bytes: 64,
        seed: 1,
    };
    let mut machine = Machine::new(parameters, design, &sizes);
    machine.store(0, u64::from(LINE) * LINE_BYTES, &[1])?;
    let read = machine.nvm.counts.all_reads();
    machine.flush(&mut fastrand::Rng::with_seed(1));
    Ok(Lines {
        read,
        read_to_write: machine.nvm.counts.all_reads() - read,
        written: machine.nvm.counts.all_writes(),
    })
}
