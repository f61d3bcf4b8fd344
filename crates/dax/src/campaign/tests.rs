//! A share of the campaign.

use super::{replay, run};

/// Trials in which nothing may be wrong.
const TRIALS: u64 = 740;

#[cfg_attr(not(feature = "mutants"), test)]
pub fn what_a_file_does_wrong_is_put_right_or_named() {
    let report = run(1, TRIALS, 2, &|| true);
    if let Some((number, wrong)) = report.violations.first() {
        let (story, _) = replay(*number);
        panic!("{number}: {wrong}\n{}", story.join("\n"));
    }
    let struck: u64 = report.counted.iter().map(|counted| counted.struck).sum();
    assert!(struck > TRIALS / 3, "{struck} of {TRIALS} struck");
}

#[cfg(not(feature = "mutants"))]
#[test]
fn a_trial_is_the_same_each_time() {
    for number in 1..20 {
        let (story, wrong) = replay(number);
        assert_eq!((story, wrong), replay(number), "{number}");
    }
}
