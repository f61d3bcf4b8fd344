//! Everything that scenarios store, flush and fence, as one number for each hundred of them: a change
//! that is to leave the protocol as it is leaves the numbers as they are.

use crate::campaign::{NoTally, default_threads, hush_panics};
use crate::digest::{Fold, Tracing};
use crate::explore::Explorer;
use crate::named::Scenario;
use crate::subject::{Subject, Templates};
use forebay_harness::{Result, check_interrupt, progress_bar};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::hash::Hasher;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Scenarios that one number stands for.
const SEEDS_PER_LINE: u64 = 100;

/// The number of the scenarios from `first` on that stand on one line.
fn line(templates: &mut Templates, first: u64) -> std::result::Result<u64, String> {
    let mut fold = Fold::default();
    for seed in first..first + SEEDS_PER_LINE {
        let mut explorer = Explorer::new(Subject::Pool, templates, NoTally, Tracing::Digest);
        let scenario = Scenario::Random(seed);
        let run = explorer.run(&scenario);
        run.map_err(|violation| format!("{scenario}: {}", violation.text))?;
        fold.write_u64(explorer.digest);
    }
    Ok(fold.finish())
}

/// The numbers of the first `seeds` scenarios, a line for each hundred.
fn lines(seeds: u64) -> Result<Vec<u64>> {
    let count = seeds.div_ceil(SEEDS_PER_LINE) as usize;
    let bar = progress_bar(count as u64 * SEEDS_PER_LINE).with_message("scenarios");
    let next = AtomicUsize::new(0);
    let all = Mutex::new(vec![Ok(0); count]);
    let work = || {
        let mut templates = Templates::default();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count || check_interrupt().is_err() {
                return;
            }
            let line = line(&mut templates, number as u64 * SEEDS_PER_LINE);
            all.lock()[number] = line;
            bar.inc(SEEDS_PER_LINE);
        }
    };
    std::thread::scope(|scope| {
        (0..default_threads()).for_each(|_| drop(scope.spawn(work)));
    });
    bar.finish_and_clear();
    check_interrupt()?;
    Ok(all
        .into_inner()
        .into_iter()
        .collect::<std::result::Result<_, _>>()?)
}

/// Compares with the numbers in `baseline`, or writes them there.
pub fn command(seeds: u64, baseline: &Path, writes: bool) -> Result<bool> {
    hush_panics();
    let found = lines(seeds)?;
    let failed = |error| format!("{}: {error}", baseline.display());
    if writes {
        let mut text = String::new();
        for (number, line) in found.iter().enumerate() {
            let first = number as u64 * SEEDS_PER_LINE;
            writeln!(text, "{first} {line:016x}").expect("text takes everything");
        }
        std::fs::write(baseline, text).map_err(failed)?;
        println!("{} lines written to {}", found.len(), baseline.display());
        return Ok(true);
    }
    let text = std::fs::read_to_string(baseline).map_err(failed)?;
    let known: HashMap<&str, &str> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .collect();
    let mut differing = 0;
    for (number, line) in found.iter().enumerate() {
        let first = (number as u64 * SEEDS_PER_LINE).to_string();
        if known.get(first.as_str()) != Some(&format!("{line:016x}").as_str()) {
            differing += 1;
            println!("scenarios from {first} on do not do what they did");
        }
    }
    println!(
        "{} scenarios, {differing} of {} hundreds differ from {}",
        found.len() as u64 * SEEDS_PER_LINE,
        found.len(),
        baseline.display()
    );
    Ok(differing == 0)
}
