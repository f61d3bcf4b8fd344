//! Nothing that was promised is lost, whatever a crash leaves.

use forebay_pmem::shadow::ShadowModel;

use super::scenarios::{creation, hot, openings, passes, repairs, sealing};

type Scenario = fn(u32, ShadowModel, usize) -> (Vec<String>, usize);

fn holds(scenario: Scenario, samples: usize) {
    for width in [1, 2, 3] {
        for model in [ShadowModel::Lines, ShadowModel::Pages] {
            let (wrong, looked_at) = scenario(width, model, samples);
            assert!(wrong.is_empty(), "width {width}, {model:?}: {wrong:#?}");
            assert!(
                looked_at > 20,
                "width {width}, {model:?}: only {looked_at} looks"
            );
        }
    }
}

#[test]
fn passes_and_syncs_hold_through_crashes() {
    holds(passes, 6);
}

#[test]
fn pages_that_never_rest_are_covered_through_crashes() {
    holds(hot, 6);
}

#[test]
fn seals_hold_through_crashes() {
    holds(sealing, 8);
}

#[test]
fn openings_hold_through_crashes() {
    holds(openings, 3);
}

#[test]
fn creations_are_whole_or_none() {
    holds(creation, 3);
}

#[test]
fn flips_are_put_right_for_good() {
    for width in [1, 2, 3] {
        let (wrong, _) = repairs(width, ShadowModel::Lines, 4);
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
