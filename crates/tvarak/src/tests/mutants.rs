//! Each named fault of the controllers is noticed by a trial that holds without it.

use std::panic::catch_unwind;

use crate::campaign::{bugs, dimm, power};
use crate::design::Design;
use crate::mutants::{Mutant, set};
use crate::nvm::fault::FaultKind;
use crate::tests::directed;

/// Trials of each kind in which a fault has to show.
const TRIALS: u64 = 40;
/// The same where ways have to be divided anew in a trial for it.
const TRIALS_OF_DIVISIONS: u64 = 600;
/// The same where the bug has to be in a line that is written back before it is read.
const TRIALS_OF_RARE_BUGS: u64 = 400;

fn bugs_are_found(design: Design, trials: u64) {
    for kind in FaultKind::ALL {
        let report = bugs::campaign(design, kind, (1, trials), &mut |_| true);
        assert!(report.is_clean(), "{kind:?}: {report:#?}");
    }
}

fn dimms_may_die(design: Design) {
    for seed in 0..TRIALS {
        assert_eq!(dimm::trial(design, seed), Vec::<String>::new());
    }
}

fn power_may_fail(design: Design, trials: u64) {
    for seed in 0..trials {
        assert_eq!(power::trial(design, seed), Vec::<String>::new());
    }
}

/// Trials that hold, and do not with this fault.
fn trials(mutant: Mutant) {
    match mutant {
        Mutant::OldDataUnverified => bugs_are_found(Design::LineSums, TRIALS_OF_RARE_BUGS),
        Mutant::VerificationSkipped | Mutant::RepairNotWritten => {
            bugs_are_found(Design::Tvarak, TRIALS);
        }
        Mutant::LineSumsNotScrubbed => directed::a_wrong_line_sum_is_found_by_a_scrub(),
        Mutant::UseNotNoted => directed::the_line_used_longest_ago_leaves(),
        Mutant::MatesUnverified => directed::two_wrong_pages_of_a_stripe_are_both_named(),
        Mutant::LastLineNotMatched => directed::the_last_line_of_a_mapping_is_protected(),
        Mutant::SumNotUpdated
        | Mutant::ParityNotUpdated
        | Mutant::DiffReplaced
        | Mutant::EvictedDiffDropped
        | Mutant::DiffKeptAfterEviction
        | Mutant::SharersNotInvalidated
        | Mutant::OwnerNotAsked
        | Mutant::OwnCopyDropped
        | Mutant::DirtyRedundancyDropped
        | Mutant::RedundancyNotFlushed
        | Mutant::OtherCoresNotAsked
        | Mutant::FirstCopyNotForgotten
        | Mutant::CleanedLineLeftDirty
        | Mutant::NewestCopyNotInDiff => power_may_fail(Design::Tvarak, TRIALS),
        Mutant::CleanedByDivisionUnwritten | Mutant::DiffOfDirtyLine => {
            power_may_fail(Design::Adaptive, TRIALS_OF_DIVISIONS);
        }
        Mutant::LineSumNotUpdated => dimms_may_die(Design::Tvarak),
    }
}

#[test]
fn every_mutant_is_caught() {
    for mutant in Mutant::ALL {
        set(None);
        trials(mutant);
        set(Some(mutant));
        let caught = catch_unwind(|| trials(mutant)).is_err();
        set(None);
        assert!(caught, "{} was not noticed", mutant.name());
    }
}
