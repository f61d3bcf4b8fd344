//! Where and when a report was measured, and what else the machine did meanwhile.

use forebay_harness::{Machine, OthersWatch, digits};
use serde_json::{Value, json};

use crate::experiments::{LOADED_FROM, is_disturbed};

/// What a report's times depend on, besides what is measured.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The machine, the tree and the day.
    pub machine: Machine,
    /// The instructions that copy to persistent memory, like `avx512`.
    pub copies: String,
    /// Processors that others took while all was measured, on average; none where the kernel does not tell.
    pub others: Option<f64>,
}

impl Setting {
    /// This machine, now, with what others took since `watch` began.
    #[must_use]
    pub fn since(watch: &OthersWatch, before: Machine) -> Setting {
        Setting {
            machine: before,
            copies: forebay_pmem::Kernel::current().to_string(),
            others: watch.processors(),
        }
    }

    /// Whether others used the processors, so that times say little.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        is_disturbed(self.others)
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut all = self.machine.to_json();
        all["copies"] = json!(self.copies);
        all["others_processors"] = json!(self.others);
        all["is_loaded"] = json!(self.is_loaded());
        all
    }

    /// For people, the load first.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let Machine {
            processor,
            cores,
            system,
            commit,
            date,
            load_average,
        } = &self.machine;
        let mut sentences = Vec::new();
        if self.is_loaded() {
            sentences.push(format!(
                "LOADED. Others took {} of this machine's {cores} processors while this was measured. Counts hold; times do not say \
                 much, and each figure of times says again how loaded it was.",
                digits(self.others.unwrap_or(0.0))
            ));
        }
        let others = self.others.map_or("an unknown part".into(), digits);
        let load = load_average.map_or("unknown".into(), digits);
        sentences.push(format!(
            "Measured {date} UTC on {processor}, {cores} cores, {system}, commit {commit}. Copies to persistent memory by {}. Load \
             average before the first measurement: {load}; others than this program took {others} of the processors meanwhile (up to \
             {} counts as idle).",
            self.copies,
            digits(LOADED_FROM)
        ));
        sentences
    }
}
