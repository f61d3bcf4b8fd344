//! Each named fault is noticed by a test that holds without it.

use std::panic::catch_unwind;

use forebay_pmem::shadow::ShadowModel;

use super::{histories, scenarios, steps};
use crate::mutants::{Mutant, set};
use crate::{CreateOptions, DaxPool, DaxRegion, ErrorKind, OpenOptions};

fn holds(scenario: fn(u32, ShadowModel, usize) -> (Vec<String>, usize), width: u32) {
    let (wrong, _) = scenario(width, ShadowModel::Lines, 6);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A region that somebody else has open is not sealed.
fn seal_of_what_is_open_elsewhere() {
    let place = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool = DaxPool::new(&[place.path().join("pool")], [1; 16]);
    let created = DaxRegion::create(&pool, "r", &CreateOptions::new(8 * 4096)).unwrap();
    let region = DaxRegion::open(&pool, "r", &OpenOptions::default()).unwrap();
    let other = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&created.paths[0]);
    let closed = region.close();
    drop(other.unwrap());
    assert!(matches!(
        closed.unwrap_err().kind(),
        ErrorKind::Mapped { .. }
    ));
}

fn directed(mutant: Mutant) {
    match mutant {
        Mutant::OpenMarkAfterStore | Mutant::SealBelievedAfterUnorderlyEnd => {
            holds(scenarios::sealing, 1);
        }
        Mutant::SumsBeforeParity => steps::data_and_parity_are_durable_before_a_sum_is_stored(),
        Mutant::RescanSkipped => steps::a_store_after_the_scan_comes_with_the_next_pass(),
        Mutant::SealedWhileMapped => seal_of_what_is_open_elsewhere(),
        Mutant::PagesNotFlushed => holds(scenarios::passes, 2),
        Mutant::MateFromUnverifiedPage => {
            steps::a_damaged_mate_leaves_its_row_and_its_parity_alone();
        }
        Mutant::RebuiltCountsAsVerified => holds(scenarios::passes, 1),
        Mutant::StaleSidecarBelieved | Mutant::GenerationDrawnTwice => {
            histories::an_extent_that_was_left_out_is_not_believed_when_it_returns();
        }
        Mutant::PassNumberRepeated => {
            histories::a_sum_that_did_not_arrive_leaves_one_that_does_not_count();
        }
        Mutant::UnverifiedNotRemembered => {
            histories::what_is_unverified_stays_so_until_it_is_accepted();
        }
        Mutant::LineBeforeNotSettled => {
            histories::a_line_that_only_a_cache_has_is_durable_before_the_one_before_it_goes();
        }
        Mutant::FirstPassTakesDifferingOnly => {
            histories::a_first_pass_makes_durable_what_matches_and_only_a_cache_has();
        }
    }
}

#[test]
fn every_mutant_is_caught() {
    for mutant in Mutant::ALL {
        set(None);
        directed(mutant);
        set(Some(mutant));
        let caught = catch_unwind(|| directed(mutant)).is_err();
        set(None);
        assert!(caught, "{} was not noticed", mutant.name());
    }
    // In the same test: a fault is switched on for the whole process.
    crate::campaign::tests::what_a_file_does_wrong_is_put_right_or_named();
    for mutant in SEEN_BY_TRIALS {
        let name = mutant.name();
        assert!(is_seen_by_trials(mutant), "{name} showed to no trial");
    }
}

/// Trials of the campaign in which a fault of the protocol is to show.
const TRIALS: u64 = 740;

/// Faults that show to so few random trials. The others break what a trial has no part in (other openers), what needs one
/// moment out of many, or two faults at once.
const SEEN_BY_TRIALS: [Mutant; 4] = [
    Mutant::OpenMarkAfterStore,
    Mutant::SealBelievedAfterUnorderlyEnd,
    Mutant::PagesNotFlushed,
    Mutant::RebuiltCountsAsVerified,
];

fn is_seen_by_trials(mutant: Mutant) -> bool {
    set(Some(mutant));
    let report = crate::campaign::run(1, TRIALS, 2, &|| true);
    set(None);
    !report.violations.is_empty()
}
