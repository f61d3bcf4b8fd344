//! Explores the protocol model for as long as asked and prints any violation as a story.

use std::process::ExitCode;

use forebay_model::action::Single;
use forebay_model::config::Config;
use forebay_model::explore::{Model, exhaust, walk};
use forebay_model::extent::{self, action::Extent};
use forebay_model::mirror::{self, action::Mirror};
use forebay_model::ring::{self, action::Ring};
use forebay_model::rules::{Mutant, Rules};
use forebay_model::worlds;

const USAGE: &str = "usage: forebay-model [--seeds N] [--first-seed N] [--states N] [--operations N] [--world NAME] [--mutant NAME] [--no-invariants] [--mirror | --extent | --ring]";

struct Options {
    seeds: u64,
    first_seed: u64,
    states_max: u64,
    operations: Option<u8>,
    world: Option<String>,
    rules: Rules,
    family: Family,
    mirror_mutant: Option<mirror::rules::Mutant>,
    extent_rules: extent::rules::Rules,
    ring_rules: ring::rules::Rules,
}

/// Which worlds.
enum Family {
    Single,
    Mirror,
    Extent,
    Ring,
}

fn options() -> Result<Options, String> {
    let rules = Rules {
        broken: None,
        invariants: true,
    };
    let mut options = Options {
        seeds: 100_000,
        first_seed: 0,
        states_max: 2_000_000,
        operations: None,
        world: None,
        rules,
        family: Family::Single,
        mirror_mutant: None,
        extent_rules: extent::rules::Rules::default(),
        ring_rules: ring::rules::Rules::default(),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        if name == "--no-invariants" {
            options.rules.invariants = false;
            continue;
        }
        if let Some(family) = Family::of_option(&name) {
            options.family = family;
            continue;
        }
        let value = arguments
            .next()
            .ok_or_else(|| format!("{name} needs a value\n{USAGE}"))?;
        let number = || {
            value
                .parse::<u64>()
                .map_err(|e| format!("{name} {value}: {e}"))
        };
        match name.as_str() {
            "--seeds" => options.seeds = number()?,
            "--first-seed" => options.first_seed = number()?,
            "--states" => options.states_max = number()?,
            "--operations" => {
                options.operations =
                    Some(u8::try_from(number()?).map_err(|e| format!("{name} {value}: {e}"))?)
            }
            "--world" => options.world = Some(value),
            "--mutant" => options.break_rule(&value)?,
            _ => return Err(format!("unknown option {name}\n{USAGE}")),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    let outcome = match options.family {
        Family::Single => explore_single(&options),
        Family::Mirror => explore_mirror(&options),
        Family::Extent => explore_extent(&options),
        Family::Ring => explore_ring(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(story) => {
            println!("{story}");
            ExitCode::FAILURE
        }
    }
}

impl Family {
    fn of_option(name: &str) -> Option<Family> {
        match name {
            "--mirror" => Some(Family::Mirror),
            "--extent" => Some(Family::Extent),
            "--ring" => Some(Family::Ring),
            _ => None,
        }
    }
}

impl Options {
    /// Breaks the rule of this name, in the model that has it.
    fn break_rule(&mut self, name: &str) -> Result<(), String> {
        let mut single = Mutant::ALL.iter();
        let mut mirror = mirror::rules::Mutant::ALL.iter();
        let mut extent = extent::rules::Mutant::ALL.iter();
        let mut ring = ring::rules::Mutant::ALL.iter();
        self.rules.broken = single.find(|mutant| mutant.name() == name).copied();
        self.mirror_mutant = mirror.find(|mutant| mutant.name() == name).copied();
        self.extent_rules.broken = extent.find(|mutant| mutant.name() == name).copied();
        self.ring_rules.broken = ring.find(|mutant| mutant.name() == name).copied();
        let is_known = self.rules.broken.is_some()
            || self.mirror_mutant.is_some()
            || self.extent_rules.broken.is_some()
            || self.ring_rules.broken.is_some();
        if !is_known {
            return Err(format!("no mutant is named {name}"));
        }
        Ok(())
    }

    fn chooses(&self, name: &str) -> bool {
        self.world.as_deref().is_none_or(|world| world == name)
    }
}

/// Explores the worlds of one member; how a violation comes about, if one does.
fn explore_single(options: &Options) -> Result<(), String> {
    let chosen = |config: &Config| options.chooses(config.name);
    let adjusted = |mut config: Config| {
        config.operations = options.operations.unwrap_or(config.operations);
        config
    };
    let rules = options.rules;
    for config in worlds::exhaustive()
        .into_iter()
        .filter(chosen)
        .map(adjusted)
    {
        let config = &config;
        exhausted(&Single { config, rules }, options)?;
    }
    for config in worlds::random().into_iter().filter(chosen).map(adjusted) {
        let config = &config;
        walked(&Single { config, rules }, options)?;
    }
    Ok(())
}

/// The same of the worlds of two members.
fn explore_mirror(options: &Options) -> Result<(), String> {
    let chosen = |config: &mirror::config::Config| options.chooses(config.name);
    let rules = mirror::rules::Rules {
        broken: options.mirror_mutant,
    };
    for config in mirror::worlds::exhaustive().into_iter().filter(chosen) {
        let config = &config;
        exhausted(&Mirror { config, rules }, options)?;
    }
    for config in mirror::worlds::random().into_iter().filter(chosen) {
        let config = &config;
        walked(&Mirror { config, rules }, options)?;
    }
    Ok(())
}

/// The same of the worlds of mapped regions.
fn explore_extent(options: &Options) -> Result<(), String> {
    let chosen = |config: &extent::config::Config| options.chooses(config.name);
    let rules = options.extent_rules;
    for config in extent::worlds::exhaustive().into_iter().filter(chosen) {
        let config = &config;
        exhausted(&Extent { config, rules }, options)?;
    }
    for config in extent::worlds::random().into_iter().filter(chosen) {
        let config = &config;
        walked(&Extent { config, rules }, options)?;
    }
    Ok(())
}

/// The same of the worlds of pools on an SSD.
fn explore_ring(options: &Options) -> Result<(), String> {
    let chosen = |config: &ring::config::Config| options.chooses(config.name);
    let rules = options.ring_rules;
    for config in ring::worlds::exhaustive().into_iter().filter(chosen) {
        let config = &config;
        exhausted(&Ring { config, rules }, options)?;
    }
    for config in ring::worlds::random().into_iter().filter(chosen) {
        let config = &config;
        walked(&Ring { config, rules }, options)?;
    }
    Ok(())
}

fn exhausted<M: Model>(model: &M, options: &Options) -> Result<(), String> {
    let name = model.name();
    let seen = exhaust(model, options.states_max)
        .map_err(|trace| format!("{name}: VIOLATION\n{trace}"))?;
    let extent = if seen.complete { "all" } else { "the first" };
    println!(
        "{name}: {extent} {} states, {} power cuts",
        seen.states, seen.power_cuts
    );
    Ok(())
}

fn walked<M: Model>(model: &M, options: &Options) -> Result<(), String> {
    let name = model.name();
    let mut steps = 0;
    for seed in options.first_seed..options.first_seed + options.seeds {
        steps += walk(model, seed).map_err(|trace| format!("{name}: VIOLATION\n{trace}"))?;
    }
    println!("{name}: {} walks, {steps} steps", options.seeds);
    Ok(())
}
