//! Explores the protocol model for as long as asked and prints any violation as a story.

use std::process::ExitCode;

use forebay_model::action::Single;
use forebay_model::config::Config;
use forebay_model::explore::{exhaust, walk};
use forebay_model::rules::{Mutant, Rules};
use forebay_model::worlds;

const USAGE: &str = "usage: forebay-model [--seeds N] [--first-seed N] [--states N] [--operations N] [--world NAME] [--mutant NAME] [--no-invariants]";

struct Options {
    seeds: u64,
    first_seed: u64,
    states_max: u64,
    operations: Option<u8>,
    world: Option<String>,
    rules: Rules,
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
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        if name == "--no-invariants" {
            options.rules.invariants = false;
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
            "--mutant" => {
                let found = Mutant::ALL.iter().find(|mutant| mutant.name() == value);
                options.rules.broken =
                    Some(*found.ok_or_else(|| format!("no mutant is named {value}"))?);
            }
            _ => return Err(format!("unknown option {name}\n{USAGE}")),
        }
    }
    Ok(options)
}

fn single(config: &Config, rules: Rules) -> Single<'_> {
    Single { config, rules }
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    let chosen = |config: &Config| {
        options
            .world
            .as_deref()
            .is_none_or(|name| name == config.name)
    };
    for mut config in worlds::exhaustive().into_iter().filter(chosen) {
        config.operations = options.operations.unwrap_or(config.operations);
        match exhaust(&single(&config, options.rules), options.states_max) {
            Ok(seen) => {
                let extent = if seen.complete { "all" } else { "the first" };
                println!(
                    "{}: {extent} {} states, {} power cuts",
                    config.name, seen.states, seen.power_cuts
                );
            }
            Err(trace) => {
                println!("{}: VIOLATION\n{trace}", config.name);
                return ExitCode::FAILURE;
            }
        }
    }
    for mut config in worlds::random().into_iter().filter(chosen) {
        config.operations = options.operations.unwrap_or(config.operations);
        let mut steps = 0;
        for seed in options.first_seed..options.first_seed + options.seeds {
            match walk(&single(&config, options.rules), seed) {
                Ok(taken) => steps += taken,
                Err(trace) => {
                    println!("{}: VIOLATION\n{trace}", config.name);
                    return ExitCode::FAILURE;
                }
            }
        }
        println!("{}: {} walks, {steps} steps", config.name, options.seeds);
    }
    ExitCode::SUCCESS
}
