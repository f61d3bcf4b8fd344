//! Redundancy holds wherever the model looks, and no broken rule goes unseen.

use forebay_model::explore::{Trace, exhaust, walk};
use forebay_model::mirror::action::Mirror;
use forebay_model::mirror::config::Config;
use forebay_model::mirror::rules::{Mutant, Rules};
use forebay_model::mirror::worlds;

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
    let worlds = worlds::random();
    let attempt = |seed| {
        worlds.iter().find_map(|config| {
            let trace = walk(&mirror(config, rules), seed).err()?;
            Some((format!("{}, seed {seed}", config.name), trace))
        })
    };
    let search = |config: &Config| {
        let trace = exhaust(&mirror(config, rules), 200_000).err()?;
        Some((format!("{}, exhaustively", config.name), trace))
    };
    (0..FIRST_SEEDS)
        .find_map(attempt)
        .or_else(|| worlds::exhaustive().iter().find_map(search))
        .or_else(|| (FIRST_SEEDS..SEEDS_MAX).find_map(attempt))
}

#[test]
fn every_mutant_of_redundancy_is_caught() {
    let mut missed = Vec::new();
    for &mutant in Mutant::ALL {
        match catch(mutant) {
            Some((place, trace)) => println!(
                "model mutant {}: caught ({place}: {})",
                mutant.name(),
                trace.violation
            ),
            None => missed.push(mutant.name()),
        }
    }
    assert!(missed.is_empty(), "not caught: {missed:?}");
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
