//! What a figure of §4.8, or the sweep, changes of the parameters.

use std::fmt;

use crate::parameters::Parameters;

/// What a figure of §4.8 changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    Nothing,
    /// The ways of the LLC that hold redundancy.
    RedundancyWays(u64),
    /// The ways of the LLC that hold diffs.
    DiffWays(u64),
    /// The DIMMs of NVM.
    Dimms(u64),
    /// NVM has the latencies and the energies of DRAM, as one that a battery backs.
    AsDram,
}

impl Change {
    /// Makes the change.
    pub fn apply(self, parameters: &mut Parameters) {
        match self {
            Change::Nothing => {}
            Change::RedundancyWays(ways) => parameters.controller.redundancy_ways.value = ways,
            Change::DiffWays(ways) => parameters.controller.diff_ways.value = ways,
            Change::Dimms(dimms) => parameters.nvm.dimms.value = dimms,
            Change::AsDram => {
                let (nvm, dram) = (&mut parameters.nvm, &parameters.dram);
                nvm.read_ns.value = dram.read_ns.value;
                nvm.write_ns.value = dram.write_ns.value;
                nvm.read_pj.value = dram.read_pj.value;
                nvm.write_pj.value = dram.write_pj.value;
            }
        }
    }

    /// Whether a design without a controller notices it.
    pub fn is_of_nvm(self) -> bool {
        matches!(self, Change::Dimms(_) | Change::AsDram)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Nothing => to.write_str("as it is"),
            Change::RedundancyWays(ways) => write!(to, "with {ways} ways of redundancy"),
            Change::DiffWays(ways) => write!(to, "with {ways} ways of diffs"),
            Change::Dimms(dimms) => write!(to, "with {dimms} DIMMs"),
            Change::AsDram => to.write_str("with NVM as fast as DRAM"),
        }
    }
}

/// One of the parameters that the paper does not give, multiplied.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Vary {
    /// Its name, like `nvm.banks`.
    pub name: String,
    /// Times this, over this.
    pub factor: [u64; 2],
}

impl fmt::Display for Vary {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.factor {
            [times, 1] => write!(to, "{} × {times}", self.name),
            [times, over] => write!(to, "{} × {times}/{over}", self.name),
        }
    }
}
