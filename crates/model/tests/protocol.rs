//! The protocol holds wherever the model looks, and no broken rule goes unseen.

use forebay_model::action::Single;
use forebay_model::config::Config;
use forebay_model::explore::{Trace, exhaust, walk};
use forebay_model::rules::{Mutant, Rules};
use forebay_model::worlds;

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
    let worlds = worlds::random();
    let attempt = |seed| {
        let found = worlds.iter().find_map(|config| {
            walk(&single(config, rules), seed)
                .err()
                .map(|trace| (config.name, trace))
        })?;
        Some((format!("{}, seed {seed}", found.0), found.1))
    };
    let search = |config: &Config| {
        let trace = exhaust(&single(config, rules), 200_000).err()?;
        Some((format!("{}, exhaustively", config.name), trace))
    };
    (0..FIRST_SEEDS)
        .find_map(attempt)
        .or_else(|| worlds::exhaustive().iter().find_map(search))
        .or_else(|| (FIRST_SEEDS..SEEDS_MAX).find_map(attempt))
}

#[test]
fn every_mutant_is_caught() {
    let mut missed = Vec::new();
    for &mutant in Mutant::ALL {
        match catch(mutant) {
            Some((place, trace)) => {
                println!(
                    "model mutant {}: caught ({place}: {})",
                    mutant.name(),
                    trace.violation
                )
            }
            None => missed.push(mutant.name()),
        }
    }
    assert!(missed.is_empty(), "not caught: {missed:?}");
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
