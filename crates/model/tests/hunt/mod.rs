//! The search for a mutant, in any model.

use forebay_model::explore::{Model, Trace, exhaust, walk};

/// States of a small world that are searched through.
const STATES_MAX: u64 = 200_000;

/// Where a mutant shows, and what gives it away: along `seeds.0` walks through each of the large worlds, then through the
/// small ones, then along walks up to seed `seeds.1`.
pub fn hunt<M: Model>(
    random: impl Iterator<Item = M>,
    mut exhaustive: impl Iterator<Item = M>,
    seeds: (u64, u64),
) -> Option<(String, Box<Trace>)> {
    let random: Vec<M> = random.collect();
    let attempt = |seed| {
        random.iter().find_map(|model| {
            let trace = walk(model, seed).err()?;
            Some((format!("{}, seed {seed}", model.name()), trace))
        })
    };
    let search = |model: M| {
        let trace = exhaust(&model, STATES_MAX).err()?;
        Some((format!("{}, exhaustively", model.name()), trace))
    };
    (0..seeds.0)
        .find_map(attempt)
        .or_else(|| exhaustive.find_map(search))
        .or_else(|| (seeds.0..seeds.1).find_map(attempt))
}

/// Hunts each of the mutants, by name.
///
/// # Panics
/// One is not caught.
pub fn every_mutant_is_caught<T: Copy>(
    mutants: &[T],
    name: impl Fn(T) -> &'static str,
    catch: impl Fn(T) -> Option<(String, Box<Trace>)>,
) {
    let mut missed = Vec::new();
    for &mutant in mutants {
        match catch(mutant) {
            Some((place, trace)) => println!(
                "model mutant {}: caught ({place}: {})",
                name(mutant),
                trace.violation
            ),
            None => missed.push(name(mutant)),
        }
    }
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
