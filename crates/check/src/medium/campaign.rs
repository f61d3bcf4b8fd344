//! Many trials on all processors, and what came of each kind in each part of a member.

use super::draw::Pools;
use super::regions;
use super::told;
use super::trial::{self, Outcome};
use crate::campaign::{default_threads, hush_panics, merge, stay_on_one_processor};
use crate::harm::{Combination, Kind, area_name};
use crate::subject::Templates;
use clap::{Args, ValueEnum};
use forebay_harness::{Result, Row, RunOptions, check_interrupt, progress_bar, rows};
use indicatif::ProgressBar;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Enough for ten thousand of each kind, though not every one strikes.
const TRIALS: u64 = 230_000;
const QUICK_TRIALS: u64 = 1_500;
/// The same of regions: of a write that is torn half strike.
const REGION_TRIALS: u64 = 190_000;

/// What a campaign is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Over {
    /// Pools of two members or three, which hold the same
    Mirror,
    /// Pools of three members and four, where large transactions fill rows with parity
    Parity,
    /// Pools of one copy that is checked
    Checksum,
    /// Mapped regions
    Regions,
}

/// What members do wrong, and how much of it
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    run: RunOptions,
    /// The number of the first trial
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What lies over the media
    #[arg(long, value_enum, default_value_t = Over::Mirror)]
    pools: Over,
    /// Trials; each has at most one fault [default: 230000, quick: 1500]
    #[arg(long, value_name = "N")]
    trials: Option<u64>,
    /// Threads; one for each processor if not given
    #[arg(long)]
    threads: Option<usize>,
    /// Run only the trial of this number, and say in words what happens
    #[arg(long, value_name = "NUMBER")]
    replay: Vec<u64>,
}

/// What came of a kind in a part.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    injected: u64,
    unfelt: u64,
    found: u64,
    repaired: u64,
    refused: u64,
    left: u64,
}

struct Campaign<'a> {
    pools: Pools,
    end: u64,
    next: AtomicU64,
    images: AtomicU64,
    bar: &'a ProgressBar,
    counts: Mutex<Vec<(Combination, Count)>>,
    /// By number of the trial.
    violations: Mutex<Vec<(u64, String)>>,
}

/// Why a trial fails; none if it does not. What has no copy may be an error.
fn verdict(pools: Pools, outcome: &Outcome) -> Option<String> {
    let error = outcome.errors.first().filter(|_| pools != Pools::Checksum);
    outcome
        .violation
        .clone()
        .or_else(|| error.map(|error| format!("an error, and one member was right: {error}")))
}

impl Campaign<'_> {
    fn work(&self, worker: usize) {
        stay_on_one_processor(worker);
        let mut templates = Templates::default();
        while check_interrupt().is_ok() {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.end {
                return;
            }
            let outcome = trial::run(&mut templates, self.pools, number, false);
            self.note(number, &outcome);
            self.bar.inc(1);
        }
    }

    fn note(&self, number: u64, outcome: &Outcome) {
        self.images.fetch_add(outcome.images, Ordering::Relaxed);
        let what = self.pools.combination(number);
        let mut counts = self.counts.lock();
        let at = counts.iter().position(|(one, _)| *one == what);
        let count = &mut counts[at.expect("every combination is counted")].1;
        count.injected += u64::from(outcome.is_struck);
        count.unfelt += u64::from(outcome.is_struck && !outcome.is_felt && !outcome.is_found);
        count.found += u64::from(outcome.is_found);
        count.repaired += u64::from(outcome.is_repaired);
        count.left += u64::from(outcome.is_left);
        count.refused += u64::from(!outcome.refusals.is_empty());
        if let Some(text) = verdict(self.pools, outcome) {
            self.violations.lock().push((number, text));
        }
    }
}

/// Has members do wrong and reads everything; true if nothing was wrong because of it.
///
/// # Errors
/// The report cannot be written; it was called off.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let threads = arguments.threads.unwrap_or_else(default_threads);
    let pools = match arguments.pools {
        Over::Mirror => Pools::Mirror,
        Over::Parity => Pools::Parity,
        Over::Checksum => Pools::Checksum,
        Over::Regions if !arguments.replay.is_empty() => {
            return Ok(regions::replay(&arguments.replay));
        }
        Over::Regions => {
            let usual = arguments.run.pick(QUICK_TRIALS, REGION_TRIALS);
            let trials = arguments.trials.unwrap_or(usual);
            return regions::run(&arguments.run, arguments.seed, trials, threads);
        }
    };
    if !arguments.replay.is_empty() {
        return Ok(replay(pools, &arguments.replay));
    }
    run_pools(arguments, pools, threads)
}

/// The campaign of pools.
fn run_pools(arguments: &Arguments, pools: Pools, threads: usize) -> Result<bool> {
    hush_panics();
    let usual = arguments.run.pick(QUICK_TRIALS, TRIALS);
    let trials = arguments.trials.unwrap_or(usual);
    let bar = progress_bar(trials).with_message("trials");
    let started = Instant::now();
    let mut counts: Vec<(Combination, Count)> = Vec::new();
    for what in pools.round() {
        if !counts.iter().any(|(one, _)| *one == what) {
            counts.push((what, Count::default()));
        }
    }
    let campaign = Campaign {
        pools,
        end: arguments.seed + trials,
        next: AtomicU64::new(arguments.seed),
        images: AtomicU64::new(0),
        bar: &bar,
        counts: Mutex::new(counts),
        violations: Mutex::default(),
    };
    std::thread::scope(|scope| {
        for worker in 0..threads {
            let campaign = &campaign;
            std::thread::Builder::new()
                .name(format!("worker {worker}"))
                .spawn_scoped(scope, move || campaign.work(worker))
                .expect("a thread can be started");
        }
    });
    bar.finish_and_clear();
    check_interrupt()?;
    let mut violations = campaign.violations.into_inner();
    violations.sort();
    let of = match pools {
        Pools::Mirror => "",
        Pools::Parity => " --pools parity",
        Pools::Checksum => " --pools checksum",
    };
    told::violations(of, &violations);
    let counts = campaign.counts.into_inner();
    let injected: u64 = counts.iter().map(|(_, count)| count.injected).sum();
    println!(
        "{injected} faults in {trials} trials ({} images) in {:.1} s, {} violations",
        campaign.images.into_inner(),
        started.elapsed().as_secs_f64(),
        violations.len()
    );
    let report = report(pools, &counts, violations.len());
    merge(Some(&arguments.run.report("faults")), &report)?;
    if arguments.run.json {
        rows::print(&report, true)?;
    } else {
        tell(&counts);
    }
    Ok(violations.is_empty())
}

fn tell(counts: &[(Combination, Count)]) {
    println!(
        "{:32} injected  unfelt   found  repaired refused    left",
        ""
    );
    for ((kind, area), count) in counts {
        let name = format!("{}_{}", kind.name(), area_name(*area));
        let Count {
            injected,
            unfelt,
            found,
            repaired,
            refused,
            left,
        } = count;
        println!("{name:32} {injected:8} {unfelt:7} {found:7} {repaired:9} {refused:7} {left:7}");
    }
}

fn report(pools: Pools, counts: &[(Combination, Count)], violations: usize) -> Vec<Row> {
    let of = match pools {
        Pools::Mirror => "",
        Pools::Parity => "parity_",
        Pools::Checksum => "checksum_",
    };
    let mut all = vec![Row::new(
        format!("{of}wrong_bytes"),
        violations as f64,
        "trials",
    )];
    for kind in Kind::ALL {
        let of_kind = counts.iter().filter(|((one, _), _)| *one == kind);
        let injected: u64 = of_kind.map(|(_, count)| count.injected).sum();
        let name = format!("{of}{}_injected", kind.name());
        all.push(Row::new(name, injected as f64, "faults"));
    }
    for ((kind, area), count) in counts {
        let row = |what: &str, value: u64| {
            let name = format!("{of}{}_{}_{what}", kind.name(), area_name(*area));
            Row::new(name, value as f64, "faults")
        };
        all.extend([
            row("injected", count.injected),
            row("unfelt", count.unfelt),
            row("found", count.found),
            row("repaired", count.repaired),
            row("refused", count.refused),
            row("left", count.left),
        ]);
    }
    all
}

/// Runs trials again, in words; true if nothing was wrong.
fn replay(pools: Pools, numbers: &[u64]) -> bool {
    let mut templates = Templates::default();
    let mut all_right = true;
    for number in numbers {
        let outcome = trial::run(&mut templates, pools, *number, true);
        println!("{outcome:#?}");
        all_right &= told::verdict(*number, verdict(pools, &outcome));
    }
    all_right
}
