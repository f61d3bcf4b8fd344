//! One run that a figure needs.

use crate::change::{Change, Vary};
use crate::design::Design;
use crate::digest::{EMPTY, digest};
use crate::name::Workload;
use crate::parameters::{Parameters, ParametersError};

/// A digest of the simulator's sources: the same version makes the same of the same cell.
pub const VERSION: &str = env!("FOREBAY_TVARAK_VERSION");

/// A workload on a design, with what is changed of the parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The workload.
    pub workload: Workload,
    /// The design.
    pub design: Design,
    /// What the figure changes.
    pub change: Change,
    /// What the sweep changes.
    pub vary: Option<Vary>,
    /// The seed.
    pub seed: u64,
}

impl Cell {
    /// What is different between any two cells.
    pub fn name(&self) -> String {
        let mut name = format!("{} on {}", self.workload.as_str(), self.design.as_str());
        if self.change != Change::Nothing {
            name += &format!(" {}", self.change);
        }
        if let Some(vary) = &self.vary {
            name += &format!(", {vary}");
        }
        name + &format!(", seed {}", self.seed)
    }

    /// Its parameters, of those that all cells have in common; `scale_divisor` as in [`Parameters::scaled_down`].
    ///
    /// # Errors
    /// There is no such parameter to vary, or no such machine.
    pub fn parameters(
        &self,
        common: &Parameters,
        scale_divisor: u64,
    ) -> Result<Parameters, ParametersError> {
        let mut parameters = match &self.vary {
            None => common.clone(),
            Some(vary) => Parameters::paper_with(&vary.name, vary.factor)?,
        };
        self.change.apply(&mut parameters);
        parameters.scaled_down(scale_divisor)
    }
}

/// A digest of all parameters, in hexadecimal digits.
pub fn digest_of(parameters: &Parameters) -> String {
    // Whatever a parameter says shows in its debugging text.
    format!(
        "{:016x}",
        digest(EMPTY, format!("{parameters:?}").as_bytes())
    )
}
