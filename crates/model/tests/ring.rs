//! The ring of a pool on an SSD holds wherever the model looks, and no broken rule goes unseen.

mod hunt;

use forebay_model::explore::{Trace, exhaust, walk};
use forebay_model::ring::action::Ring;
use forebay_model::ring::config::Config;
use forebay_model::ring::rules::{Mutant, Rules};
use forebay_model::ring::worlds;
use hunt::{every_mutant_is_caught, hunt};

/// Walks before the small worlds are searched through, and after.
const FIRST_SEEDS: u64 = 3_000;
const SEEDS_MAX: u64 = 60_000;

fn ring(config: &Config, rules: Rules) -> Ring<'_> {
    Ring { config, rules }
}

/// Where a mutant was caught, and what gave it away.
fn catch(mutant: Mutant) -> Option<(String, Box<Trace>)> {
    let rules = Rules {
        broken: Some(mutant),
    };
    let (random, exhaustive) = (worlds::random(), worlds::exhaustive());
    let model = |config| ring(config, rules);
    hunt(
        random.iter().map(model),
        exhaustive.iter().map(model),
        (FIRST_SEEDS, SEEDS_MAX),
    )
}

#[test]
fn every_mutant_of_the_ring_is_caught() {
    every_mutant_is_caught(Mutant::ALL, Mutant::name, catch);
}

#[test]
fn the_ring_holds() {
    let rules = Rules::default();
    for config in worlds::exhaustive() {
        let seen = exhaust(&ring(&config, rules), 450_000)
            .unwrap_or_else(|trace| panic!("{}:\n{trace}", config.name));
        println!(
            "{}: {} states, {} power cuts, complete: {}",
            config.name, seen.states, seen.power_cuts, seen.complete
        );
    }
    for config in worlds::random() {
        for seed in 0..5_000 {
            walk(&ring(&config, rules), seed)
                .unwrap_or_else(|trace| panic!("{}, seed {seed}:\n{trace}", config.name));
        }
    }
}
