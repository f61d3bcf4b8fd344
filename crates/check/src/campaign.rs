//! Many scenarios on all processors, until there are enough images or a violation.

use crate::digest::Tracing;
use crate::explore::{Explorer, Tally, Traits, Violation};
use crate::focus::Focus;
use crate::lost;
use crate::named::Scenario;
use crate::pool_actor::FALSE_DAMAGE;
use crate::rebuilt;
use crate::streamed;
use crate::subject::{Subject, Templates};
use forebay_harness::{Result, Row, check_interrupt, progress_bar, rows};
use indicatif::ProgressBar;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A turn of a systematic script tries every so many-th preemption.
const PREEMPTION_STRIDE: u64 = 8;
/// How far apart two preemptions are at most.
const PREEMPTION_DISTANCE_MAX: u64 = 24;
/// Shards of the set of hashes, so that workers do not wait for each other.
const SHARDS: usize = 64;

/// When a campaign ends.
#[derive(Clone, Debug)]
pub struct Limits {
    /// What is crashed.
    pub subject: Subject,
    /// Distinct images.
    pub images: u64,
    /// Or images recovered, equal ones too.
    pub recoveries: u64,
    /// Or this time.
    pub time: Duration,
    /// The first random seed.
    pub seed: u64,
    /// Workers.
    pub threads: usize,
    /// Switches the fault that is searched for off and on again. What is violated without it as well does
    /// not count.
    pub switch: Option<fn(bool)>,
}

/// What a campaign found.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Images that differ from each other.
    pub distinct: u64,
    /// Of these, images with a killed process in their history.
    pub killed: u64,
    /// Images of mirrors with a member dead, with an old copy of one, of the rebuilding of one, and of a scrub.
    pub mirrored: [u64; 4],
    /// Images recovered.
    pub recovered: u64,
    /// Scenarios run.
    pub scenarios: u64,
    /// At most one for each worker.
    pub violations: Vec<Violation>,
}

/// One worker for each processor.
pub fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

struct Campaign<'a> {
    limits: &'a Limits,
    started: Instant,
    seen: Vec<Mutex<HashSet<u64>>>,
    distinct: AtomicU64,
    killed: AtomicU64,
    mirrored: [AtomicU64; 4],
    recovered: AtomicU64,
    scenarios: AtomicU64,
    next_seed: AtomicU64,
    next_systematic: AtomicU64,
    stopped: AtomicBool,
    bar: &'a ProgressBar,
    violations: Mutex<Vec<Violation>>,
}

/// Runs scenarios until a limit is reached or something is violated.
pub fn run(limits: &Limits, bar: &ProgressBar) -> Outcome {
    let campaign = Campaign {
        limits,
        started: Instant::now(),
        seen: (0..SHARDS).map(|_| Mutex::default()).collect(),
        distinct: AtomicU64::new(0),
        killed: AtomicU64::new(0),
        mirrored: Default::default(),
        recovered: AtomicU64::new(0),
        scenarios: AtomicU64::new(0),
        next_seed: AtomicU64::new(limits.seed),
        next_systematic: AtomicU64::new(limits.seed.wrapping_mul(7919)),
        stopped: AtomicBool::new(false),
        bar,
        violations: Mutex::default(),
    };
    std::thread::scope(|scope| {
        for worker in 0..limits.threads {
            let campaign = &campaign;
            let work = move || campaign.work(worker);
            std::thread::Builder::new()
                .name(format!("worker {worker}"))
                .spawn_scoped(scope, work)
                .expect("a thread can be started");
        }
    });
    Outcome {
        distinct: campaign.distinct.into_inner(),
        killed: campaign.killed.into_inner(),
        mirrored: campaign.mirrored.map(AtomicU64::into_inner),
        recovered: campaign.recovered.into_inner(),
        scenarios: campaign.scenarios.into_inner(),
        violations: campaign.violations.into_inner(),
    }
}

impl Campaign<'_> {
    fn work(&self, worker: usize) {
        stay_on_one_processor(worker);
        let mut templates = Templates::default();
        let mut turn = worker;
        while self.goes_on() {
            turn += 1;
            // One systematic script, with some of its preemptions, for every two dozen turns; every third one
            // is a round of the corners.
            let violation = match self.limits.subject {
                subject if subject.is_pool() && turn % 3 == 1 => {
                    let seed = self.next_seed.fetch_add(1, Ordering::Relaxed);
                    self.corners(&mut templates, seed).err()
                }
                subject if !subject.is_random() && turn.is_multiple_of(24) => {
                    let turn = self.next_systematic.fetch_add(1, Ordering::Relaxed);
                    self.systematic(&mut self.explorer(&mut templates), turn)
                        .err()
                }
                _ => {
                    let seed = self.next_seed.fetch_add(1, Ordering::Relaxed);
                    self.scenario(&mut self.explorer(&mut templates), &Scenario::Random(seed))
                        .err()
                }
            };
            if let Some(violation) = violation {
                if self.is_violated_without(&violation) {
                    continue;
                }
                self.stopped.store(true, Ordering::Relaxed);
                self.violations.lock().push(violation);
            }
        }
    }

    /// Whether it is nothing that the fault which is searched for does. One worker alone, then.
    fn is_violated_without(&self, violation: &Violation) -> bool {
        let Some(switch) = self.limits.switch else {
            return false;
        };
        switch(false);
        let is_violated = is_violated(self.limits.subject, &violation.scenario);
        switch(true);
        is_violated
    }

    fn explorer<'a>(&'a self, templates: &'a mut Templates) -> Explorer<'a, &'a Self> {
        Explorer::new(self.limits.subject, templates, self, Tracing::Off)
    }

    fn scenario<'a>(
        &'a self,
        explorer: &mut Explorer<'a, &'a Self>,
        scenario: &Scenario,
    ) -> std::result::Result<u64, Violation> {
        self.scenarios.fetch_add(1, Ordering::Relaxed);
        explorer.run(scenario)
    }

    /// A round of the corners.
    fn corners(&self, templates: &mut Templates, seed: u64) -> std::result::Result<(), Violation> {
        let directed = (0..Focus::DIRECTED_SCENARIOS)
            .map(|corner| Scenario::Directed(seed * Focus::DIRECTED_SCENARIOS + corner));
        let focused = (0..Focus::ROUND_SCENARIOS)
            .map(|corner| Scenario::Focused(seed * Focus::ROUND_SCENARIOS + corner));
        let lost = (0..lost::ROUND_SCENARIOS)
            .map(|number| Scenario::Lost(seed * lost::ROUND_SCENARIOS + number));
        let rebuilt = match self.limits.subject {
            _ if self.limits.subject.is_mirrored() => rebuilt::ROUND_SCENARIOS,
            _ => 0,
        };
        let rebuilt =
            (0..rebuilt).map(|number| Scenario::Rebuilt(seed * rebuilt::ROUND_SCENARIOS + number));
        let streamed = (0..streamed::ROUND_SCENARIOS)
            .map(|number| Scenario::Streamed(seed * streamed::ROUND_SCENARIOS + number));
        let others = lost.chain(rebuilt).chain(streamed);
        for scenario in directed.chain(focused).chain(others) {
            self.scenario(&mut self.explorer(templates), &scenario)?;
            if !self.goes_on() {
                break;
            }
        }
        Ok(())
    }

    /// A script with some placements of one preemption and of two; other turns try others.
    fn systematic<'a>(
        &'a self,
        explorer: &mut Explorer<'a, &'a Self>,
        turn: u64,
    ) -> std::result::Result<(), Violation> {
        let script = turn as usize % self.limits.subject.systematic_scripts();
        let mut rng = fastrand::Rng::with_seed(turn);
        for first in 0..2 {
            let named = |preemptions| Scenario::Systematic {
                script,
                first,
                preemptions,
            };
            let steps = self.scenario(explorer, &named(Vec::new()))?;
            let phase = 1 + rng.u64(..PREEMPTION_STRIDE);
            for one in (phase..steps).step_by(PREEMPTION_STRIDE as usize) {
                self.scenario(explorer, &named(vec![one]))?;
                let two = one + rng.u64(1..PREEMPTION_DISTANCE_MAX);
                self.scenario(explorer, &named(vec![one, two]))?;
                if !self.goes_on() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn goes_on(&self) -> bool {
        !self.stopped.load(Ordering::Relaxed)
            && self.distinct.load(Ordering::Relaxed) < self.limits.images
            && self.recovered.load(Ordering::Relaxed) < self.limits.recoveries
            && self.started.elapsed() < self.limits.time
            && check_interrupt().is_ok()
    }
}

impl Tally for &Campaign<'_> {
    fn image(&self, hash: u64, traits: Traits) -> bool {
        self.recovered.fetch_add(1, Ordering::Relaxed);
        let shard = &self.seen[(hash >> 56) as usize % SHARDS];
        if shard.lock().insert(hash) {
            self.distinct.fetch_add(1, Ordering::Relaxed);
            self.killed
                .fetch_add(u64::from(traits.is_killed), Ordering::Relaxed);
            let of_members = [
                traits.is_dead,
                traits.is_stale,
                traits.is_rebuilding,
                traits.is_scrubbing,
            ];
            for (count, is_one) in self.mirrored.iter().zip(of_members) {
                count.fetch_add(u64::from(is_one), Ordering::Relaxed);
            }
            self.bar.inc(1);
        }
        self.goes_on()
    }
}

/// This thread and those it starts run on one processor from now on. Only one actor runs at a time;
/// handing its turn to another processor takes many times longer.
pub fn stay_on_one_processor(worker: usize) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let Ok(allowed) = sched_getaffinity(None) else {
        return;
    };
    let processors: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|&cpu| allowed.is_set(cpu))
        .collect();
    let mut one = CpuSet::new();
    one.set(processors[worker % processors.len()]);
    // Without it the checker is merely slower.
    let _ = sched_setaffinity(None, &one);
}

/// Writes `rows` into the report, if there is to be one. Others that are there stay, unless they are of
/// another commit.
pub fn merge(report: Option<&Path>, rows: &[Row]) -> Result<()> {
    if let Some(path) = report {
        rows::merge(path, rows)?;
    }
    Ok(())
}

/// Recovers and compares images until there are enough; true if nothing is violated.
pub fn run_command(limits: &Limits, report: Option<&Path>) -> Result<bool> {
    hush_panics();
    let bar = progress_bar(limits.images).with_message("crash images");
    let started = Instant::now();
    let outcome = run(limits, &bar);
    bar.finish_and_clear();
    check_interrupt()?;
    for violation in &outcome.violations {
        let Violation { scenario, text } = violation;
        let flags = limits.subject.flags();
        println!("VIOLATION: {text}\n  replay with: forebay-verify crash replay{flags} {scenario}");
    }
    println!(
        "{} distinct crash images ({} after a kill) recovered and compared in {:.1} s ({} recoveries, {} scenarios), {} violations",
        outcome.distinct,
        outcome.killed,
        started.elapsed().as_secs_f64(),
        outcome.recovered,
        outcome.scenarios,
        outcome.violations.len()
    );
    let violations = outcome.violations.len() as u64;
    let row =
        |what: &str, value: u64, unit: &str| Row::new(limits.subject.row(what), value as f64, unit);
    let mut rows = vec![
        row("crash_images", outcome.distinct, "images"),
        row("images_killed", outcome.killed, "images"),
        row("crash_violations", violations, "violations"),
    ];
    if limits.subject.is_mirrored() {
        let is_false = |found: &&Violation| found.text.contains(FALSE_DAMAGE);
        let false_damage = outcome.violations.iter().filter(is_false).count();
        let [dead, stale, rebuild, scrub] = outcome.mirrored;
        println!(
            "{dead} with a member dead, {stale} with an old copy of one, {rebuild} of a rebuilding, {scrub} of a scrub"
        );
        rows.extend([
            Row::new("images_dead", dead as f64, "images"),
            Row::new("images_stale", stale as f64, "images"),
            Row::new("images_rebuild", rebuild as f64, "images"),
            Row::new("images_scrub", scrub as f64, "images"),
            Row::new("false_damage", false_damage as f64, "violations"),
        ]);
    }
    merge(report, &rows)?;
    Ok(outcome.violations.is_empty())
}

/// Counts nothing and never stops.
pub struct NoTally;

impl Tally for NoTally {
    fn image(&self, _hash: u64, _traits: Traits) -> bool {
        true
    }
}

/// Whether a scenario shows that something is wrong.
pub fn is_violated(subject: Subject, scenario: &Scenario) -> bool {
    let mut templates = Templates::default();
    let mut explorer = Explorer::new(subject, &mut templates, NoTally, Tracing::Off);
    explorer.run(scenario).is_err()
}

/// Runs scenarios again; true if nothing is violated.
pub fn replay_command(subject: Subject, scenarios: &[Scenario], quiet: bool) -> Result<bool> {
    if quiet {
        hush_panics();
    }
    let mut templates = Templates::default();
    let mut all_right = true;
    for scenario in scenarios {
        let tracing = if quiet { Tracing::Off } else { Tracing::Words };
        let mut explorer = Explorer::new(subject, &mut templates, NoTally, tracing);
        match explorer.run(scenario) {
            Ok(_) => println!("{scenario}: nothing is violated"),
            Err(violation) => {
                all_right = false;
                println!("{scenario}: VIOLATION: {}", violation.text);
            }
        }
    }
    Ok(all_right)
}

/// Panics are verdicts here; only those of the checker itself are worth a message.
pub fn hush_panics() {
    std::panic::set_hook(Box::new(|_| {}));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_alone(subject: Subject, images: u64) -> Outcome {
        let limits = Limits {
            subject,
            images,
            recoveries: u64::MAX,
            time: Duration::from_secs(600),
            seed: 1,
            threads: 1,
            switch: None,
        };
        run(&limits, &ProgressBar::hidden())
    }

    #[test]
    fn a_short_campaign_finds_nothing_and_can_be_repeated() {
        let pools = [
            (Subject::Pool, 2_000),
            (Subject::PoolInDram, 1_000),
            (Subject::PoolChecksum, 1_000),
            (Subject::PoolMirrored, 1_000),
            (Subject::PoolRows, 1_000),
        ];
        for (subject, images) in pools.into_iter().chain([
            (Subject::Files, 60),
            (Subject::FilesSsd, 60),
            (Subject::Ssd, 2_000),
            (Subject::SsdMirror, 1_000),
            (Subject::Stacked, 300),
        ]) {
            let outcome = run_alone(subject, images);
            assert!(outcome.violations.is_empty(), "{:?}", outcome.violations);
            assert!(outcome.distinct >= images);
            assert!(outcome.killed > 0, "images after kills");
            assert_eq!(outcome.recovered, run_alone(subject, images).recovered);
        }
    }
}
