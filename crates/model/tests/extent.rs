//! What mapped regions promise holds wherever the model looks, and no broken rule goes unseen.

mod hunt;

use forebay_model::explore::{Trace, exhaust, walk};
use forebay_model::extent::action::Extent;
use forebay_model::extent::config::Config;
use forebay_model::extent::rules::{Mutant, Rules};
use forebay_model::extent::worlds;
use hunt::{every_mutant_is_caught, hunt};

/// Walks before the small worlds are searched through, and after.
const FIRST_SEEDS: u64 = 500;
const SEEDS_MAX: u64 = 20_000;

fn extent(config: &Config, rules: Rules) -> Extent<'_> {
    Extent { config, rules }
}

/// Where a mutant was caught, and what gave it away.
fn catch(mutant: Mutant) -> Option<(String, Box<Trace>)> {
    let rules = Rules {
        broken: Some(mutant),
        ..Rules::default()
    };
    let (random, exhaustive) = (worlds::random(), worlds::exhaustive());
    let model = |config| extent(config, rules);
    hunt(
        random.iter().map(model),
        exhaustive.iter().map(model),
        (FIRST_SEEDS, SEEDS_MAX),
    )
}

#[test]
fn every_mutant_of_mapped_regions_is_caught() {
    every_mutant_is_caught(Mutant::ALL, Mutant::name, catch);
}

fn holds(rules: Rules, states_max: u64, seeds: u64) {
    for config in worlds::exhaustive() {
        let seen = exhaust(&extent(&config, rules), states_max)
            .unwrap_or_else(|trace| panic!("{}:\n{trace}", config.name));
        println!(
            "{}: {} states, {} power cuts, complete: {}",
            config.name, seen.states, seen.power_cuts, seen.complete
        );
    }
    for config in worlds::random() {
        for seed in 0..seeds {
            walk(&extent(&config, rules), seed)
                .unwrap_or_else(|trace| panic!("{}, seed {seed}:\n{trace}", config.name));
        }
    }
}

#[test]
fn mapped_regions_hold() {
    holds(Rules::default(), 300_000, 5_000);
}

/// No promise rests on the fence between parity and sums: a row is unprotected until its pass has ended, and a resync
/// recomputes the parity of every row.
#[test]
fn one_fence_of_a_pass_is_enough() {
    let rules = Rules {
        is_first_fence_left_out: true,
        ..Rules::default()
    };
    holds(rules, 50_000, 2_000);
}
