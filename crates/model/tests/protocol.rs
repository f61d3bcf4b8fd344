//! The protocol holds wherever the model looks, and no broken rule goes unseen.

mod hunt;

use forebay_model::action::Single;
use forebay_model::config::Config;
use forebay_model::explore::{Trace, exhaust, walk};
use forebay_model::rules::{Mutant, Rules};
use forebay_model::worlds;
use hunt::hunt;

/// Walks before the small worlds are searched through, and after.
const FIRST_SEEDS: u64 = 2_000;
const SEEDS_MAX: u64 = 40_000;

/// Where a mutant was caught, and what gave it away.
fn catch(mutant: Mutant) -> Option<(String, Box<Trace>)> {
    // What a user would see must give the mutant away, not the model's own assertions.
    let rules = Rules {
        broken: Some(mutant),
        invariants: false,
    };
    let (random, exhaustive) = (worlds::random(), worlds::exhaustive());
    let model = |config| single(config, rules);
    hunt(
        random.iter().map(model),
        exhaustive.iter().map(model),
        (FIRST_SEEDS, SEEDS_MAX),
    )
}

#[test]
fn every_mutant_is_caught() {
    hunt::every_mutant_is_caught(Mutant::ALL, Mutant::name, catch);
}

fn single(config: &Config, rules: Rules) -> Single<'_> {
    Single { config, rules }
}

#[test]
fn protocol_holds() {
    let rules = Rules {
        broken: None,
        invariants: true,
    };
    let mut states = 0;
    for config in worlds::exhaustive() {
        let seen = exhaust(&single(&config, rules), 2_000_000)
            .unwrap_or_else(|trace| panic!("{}:\n{trace}", config.name));
        println!(
            "{}: {} states, {} power cuts, complete: {}",
            config.name, seen.states, seen.power_cuts, seen.complete
        );
        states += seen.states;
    }
    assert!(states > 100_000, "only {states} states");
    for config in worlds::random() {
        for seed in 0..5_000 {
            walk(&single(&config, rules), seed)
                .unwrap_or_else(|trace| panic!("{}:\n{trace}", config.name));
        }
    }
}
