//! Faults that the checker has found and that are not cured yet, each with seeds that show it. A
//! campaign counts them apart and goes on; a fix takes its fault off the list, and a test says when that
//! is due.

use crate::explore::Scenario;

/// What is wrong, and scenarios of the pool that show it. The aim is that there are none.
const FAILURES: &[(&str, &[u64])] = &[];

/// The known fault that a scenario of the pool shows.
pub fn fault_of(scenario: &Scenario) -> Option<&'static str> {
    let Scenario::Random(seed) = scenario else {
        return None;
    };
    let known = FAILURES.iter().find(|(_, seeds)| seeds.contains(seed));
    known.map(|(fault, _)| *fault)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::is_violated;
    use crate::subject::Subject;

    #[test]
    fn expected_failures_still_fail() {
        for (fault, seeds) in FAILURES {
            for seed in *seeds {
                let scenario = Scenario::Random(*seed);
                assert!(
                    is_violated(Subject::Pool, &scenario),
                    "seed {seed} does not show any more that {fault}: take it off the list"
                );
            }
        }
    }
}
