//! Faults that the checker has found and that are not cured yet, each with seeds that show it. A
//! campaign counts them apart and goes on; whoever cures one takes it off the list, which a test says
//! when it is due.

use crate::explore::Scenario;

/// A fault that is known.
struct Expected {
    /// What is wrong.
    fault: &'static str,
    /// Scenarios of the pool that show it.
    seeds: &'static [u64],
}

/// All of them.
const FAILURES: &[Expected] = &[Expected {
    fault: "what a killed process wrote into the volume table is believed and not made durable",
    seeds: &[
        193, 295, 410, 432, 434, 498, 722, 965, 1143, 1194, 1230, 1266, 1421,
    ],
}];

/// The known fault that a scenario of the pool shows.
pub fn fault_of(scenario: &Scenario) -> Option<&'static str> {
    let Scenario::Random(seed) = scenario else {
        return None;
    };
    let shows = |known: &&Expected| known.seeds.contains(seed);
    FAILURES.iter().find(shows).map(|known| known.fault)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::is_violated;
    use crate::subject::Subject;

    #[test]
    fn expected_failures_still_fail() {
        for Expected { fault, seeds } in FAILURES {
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
