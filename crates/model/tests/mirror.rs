//! Redundancy holds wherever the model looks, and no broken rule goes unseen.

mod hunt;

use forebay_model::explore::{Trace, exhaust, walk};
use forebay_model::mirror::action::Mirror;
use forebay_model::mirror::config::Config;
use forebay_model::mirror::rules::{Mutant, Rules};
use forebay_model::mirror::worlds;
use hunt::{every_mutant_is_caught, hunt};

/// Walks before the small worlds are searched through, and after.
const FIRST_SEEDS: u64 = 3_000;
const SEEDS_MAX: u64 = 60_000;

fn mirror(config: &Config, rules: Rules) -> Mirror<'_> {
    Mirror { config, rules }
}

/// Where a mutant was caught, and what gave it away.
fn catch(mutant: Mutant) -> Option<(String, Box<Trace>)> {
    let rules = Rules {
        broken: Some(mutant),
    };
    let (random, exhaustive) = (worlds::random(), worlds::exhaustive());
    let model = |config| mirror(config, rules);
    hunt(
        random.iter().map(model),
        exhaustive.iter().map(model),
        (FIRST_SEEDS, SEEDS_MAX),
    )
}

#[test]
fn every_mutant_of_redundancy_is_caught() {
    every_mutant_is_caught(Mutant::ALL, Mutant::name, catch);
}

#[test]
fn redundancy_holds() {
    let rules = Rules::default();
    for config in worlds::exhaustive() {
        let seen = exhaust(&mirror(&config, rules), 1_000_000)
            .unwrap_or_else(|trace| panic!("{}:\n{trace}", config.name));
        println!(
            "{}: {} states, {} power cuts, complete: {}",
            config.name, seen.states, seen.power_cuts, seen.complete
        );
    }
    for config in worlds::random() {
        for seed in 0..10_000 {
            walk(&mirror(&config, rules), seed)
                .unwrap_or_else(|trace| panic!("{}:\n{trace}", config.name));
        }
    }
}
