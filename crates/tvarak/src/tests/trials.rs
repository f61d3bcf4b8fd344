//! A few trials of each kind; the command runs thousands.

use crate::campaign::bugs::{self, BugReport};
use crate::campaign::{dimm, power};
use crate::design::Design;
use crate::nvm::fault::FaultKind;

fn report(kind: FaultKind, design: Design, bugs: u64) -> BugReport {
    bugs::campaign(design, kind, (1, bugs), &mut |_| true)
}

#[cfg_attr(not(feature = "mutants"), test)]
pub(crate) fn bugs_are_detected_and_repaired() {
    for kind in FaultKind::ALL {
        let report = report(kind, Design::Tvarak, 120);
        assert!(report.is_clean(), "{kind:?}: {report:#?}");
        assert!(report.injected >= 120, "{kind:?}: {report:#?}");
        assert!(report.detected_by_controllers > 40, "{kind:?}: {report:#?}");
    }
}

#[cfg_attr(not(feature = "mutants"), test)]
pub(crate) fn bugs_are_detected_by_the_designs_on_the_way_to_it() {
    for design in [Design::LineSums, Design::Cached, Design::Adaptive] {
        for kind in FaultKind::ALL {
            let report = report(kind, design, 24);
            assert!(report.is_clean(), "{design:?}, {kind:?}: {report:#?}");
        }
    }
}

#[cfg_attr(not(feature = "mutants"), test)]
pub(crate) fn power_cuts_leave_all_checksums_and_parity_right() {
    for design in Design::ALL
        .into_iter()
        .filter(|design| design.has_controller())
    {
        for seed in 0..if design.has_diffs() { 60 } else { 12 } {
            let violations = power::trial(design, seed);
            assert!(violations.is_empty(), "{design:?}, {seed}: {violations:?}");
        }
    }
}

#[cfg_attr(not(feature = "mutants"), test)]
pub(crate) fn power_cuts_within_a_repair_lose_nothing() {
    for design in Design::ALL
        .into_iter()
        .filter(|design| design.has_controller())
    {
        for seed in 0..30 {
            let violations = power::repair_trial(design, seed);
            assert!(violations.is_empty(), "{design:?}, {seed}: {violations:?}");
        }
    }
}

#[cfg_attr(not(feature = "mutants"), test)]
pub(crate) fn a_dimm_may_die() {
    for design in Design::ALL
        .into_iter()
        .filter(|design| design.has_controller())
    {
        for seed in 0..12 {
            let violations = dimm::trial(design, seed);
            assert!(violations.is_empty(), "{design:?}, {seed}: {violations:?}");
        }
    }
}
