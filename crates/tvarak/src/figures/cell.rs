//! One run that a figure needs.

use crate::change::{Change, Vary};
use crate::design::Design;
use crate::digest::{EMPTY, digest};
use crate::name::Workload;
use crate::parameters::{Parameters, ParametersError};

/// A digest of the simulator's sources: the same version makes the same of the same cell, but for those of the adaptive design.
pub const VERSION: &str = env!("FOREBAY_TVARAK_VERSION");
/// A digest of what only the adaptive design runs.
const ADAPTIVE_VERSION: &str = env!("FOREBAY_TVARAK_ADAPTIVE_VERSION");

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

    /// Everything that its outcome depends on: digests of what its design runs of the simulator, and of the parameters that this reads,
    /// its scale and its name.
    ///
    /// # Errors
    /// As [`Cell::parameters`].
    pub fn key(&self, common: &Parameters, scale_divisor: u64) -> Result<String, ParametersError> {
        let parameters = self.parameters(common, scale_divisor)?;
        let (version, parameters) = match self.design.is_adaptive() {
            true => (
                format!("{VERSION} {ADAPTIVE_VERSION}"),
                digest_of(&parameters),
            ),
            false => (VERSION.to_owned(), digest_of_fixed(&parameters)),
        };
        Ok(format!(
            "{version} {parameters} 1/{scale_divisor} {}",
            self.name()
        ))
    }
}

/// A digest of all parameters, in hexadecimal digits.
pub fn digest_of(parameters: &Parameters) -> String {
    // Whatever a parameter says shows in its debugging text.
    digest_of_text(&format!("{parameters:?}"))
}

/// The same without those of the adaptive design.
fn digest_of_fixed(parameters: &Parameters) -> String {
    let adaptive = format!("{:?}", parameters.adaptive);
    digest_of_text(&format!("{parameters:?}").replace(&adaptive, ""))
}

fn digest_of_text(text: &str) -> String {
    format!("{:016x}", digest(EMPTY, text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(design: Design, common: &Parameters) -> String {
        let cell = Cell {
            workload: Workload::named("stream-copy").expect("a workload")[0],
            design,
            change: Change::Nothing,
            vary: None,
            seed: 1,
        };
        cell.key(common, 32).expect("there is such a machine")
    }

    #[test]
    fn what_only_the_adaptive_design_reads_is_in_no_other_key() {
        let paper = Parameters::paper();
        let mut other = paper.clone();
        other.adaptive.better_by.value += 1;
        for design in Design::ALL {
            let is_same = key(design, &paper) == key(design, &other);
            assert_eq!(is_same, !design.is_adaptive(), "{}", design.as_str());
            let has_version = key(design, &paper).contains(ADAPTIVE_VERSION);
            assert_eq!(has_version, design.is_adaptive());
        }
        let mut other = paper.clone();
        other.nvm.banks.value += 1;
        for design in Design::ALL {
            assert_ne!(key(design, &paper), key(design, &other));
        }
    }
}
