//! A program that stores into a mapped region beside the same program on a plain mapping of a file, and how long its
//! stores go without protection.
//!
//! The program has a thread for each processor, so that whatever else takes processor time takes it from the program.
//! Together the threads store into 10,000 distinct pages a second; all the rest of the time each does work of its own:
//! units of reading and summing 4 KiB at random from a table that no cache holds. Compared is how many units
//! a second they do: the time that a fixed amount of own work takes beside the paced stores. Faults of the tracker,
//! the passes' processor time and their memory traffic all lower it.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::Bench;
use crate::regions::{PlainMapping, RegionFiles};
use forebay_harness::stores::{PAGE_WORDS, PacedStores, store_without_rest};
use forebay_harness::{Result, Row, check_interrupt, median, sleep};

/// Distinct pages stored to in a second, by all threads together.
const PAGES_S: u64 = 10_000;
/// Slices of the other cases that a period of the region lasts: 1 s.
const SLICES_A_PERIOD: u32 = 5;
/// Periods that one side has before the other one's turn: as many passes.
const PERIODS_A_TURN: u32 = 3;
/// Periods over which windows are measured.
const PERIODS_OF_WINDOWS: u32 = 10;
/// Pages that another thread stores to without a pause.
const HOT_PAGES: usize = 4;
/// Words of the table that the threads' own work reads: 64 MiB.
const TABLE_WORDS: usize = 8 << 20;
/// Units of own work between two looks at the clock: some 10 µs.
const UNITS: u64 = 32;

fn period(bench: &Bench) -> Duration {
    bench.pace.slice * SLICES_A_PERIOD
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A thread's own work.
struct OwnWork<'t> {
    table: &'t [u64],
    random: fastrand::Rng,
    sum: u64,
}

impl OwnWork<'_> {
    fn units(&mut self) {
        for _ in 0..UNITS {
            let at = self.random.usize(..TABLE_WORDS / PAGE_WORDS) * PAGE_WORDS;
            let words = &self.table[at..at + PAGE_WORDS];
            self.sum = words
                .iter()
                .fold(self.sum, |sum, word| sum.wrapping_add(*word));
        }
        std::hint::black_box(self.sum);
    }
}

/// Whose turn it is. All threads begin a turn together, and end it together.
struct Turns {
    barrier: Barrier,
    is_ours: AtomicBool,
    is_over: AtomicBool,
}

/// The program: both mappings, and how long a turn is.
struct Program<'m> {
    bench: &'m Bench,
    ours: &'m [AtomicU64],
    none: &'m [AtomicU64],
    /// What own work reads.
    table: &'m [u64],
    turn: Duration,
}

impl Program<'_> {
    /// All turns; the units a second of each, of all threads together. `settle` runs ahead of each turn.
    fn run(&self, settle: impl Fn() -> Result<()>) -> Result<Vec<f64>> {
        let count = threads();
        let turns = Turns {
            barrier: Barrier::new(count + 1),
            is_ours: AtomicBool::new(true),
            is_over: AtomicBool::new(false),
        };
        std::thread::scope(|scope| {
            let turns = &turns;
            let threads: Vec<_> = (0..count)
                .map(|number| scope.spawn(move || self.thread((number, count), turns)))
                .collect();
            let directed = self.direct(turns, settle);
            turns.is_over.store(true, Ordering::Relaxed);
            turns.barrier.wait();
            let mut sums = vec![0.0; turns_of(self.bench)];
            for thread in threads {
                let rates = thread.join();
                let rates = rates.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                sums.iter_mut()
                    .zip(rates)
                    .for_each(|(sum, rate)| *sum += rate);
            }
            directed.map(|()| sums)
        })
    }

    /// Has the threads take their turns.
    fn direct(&self, turns: &Turns, settle: impl Fn() -> Result<()>) -> Result<()> {
        self.bench.progress.set_length(turns_of(self.bench) as u64);
        turns.barrier.wait();
        for turn in 0..turns_of(self.bench) {
            check_interrupt()?;
            settle()?;
            turns.is_ours.store(is_turn_ours(turn), Ordering::Relaxed);
            turns.barrier.wait();
            turns.barrier.wait();
            self.bench.progress.inc(1);
        }
        Ok(())
    }

    /// One thread: its rate in each turn.
    fn thread(&self, part: (usize, usize), turns: &Turns) -> Vec<f64> {
        let mut work = OwnWork {
            table: self.table,
            random: fastrand::Rng::with_seed(part.0 as u64),
            sum: 0,
        };
        let mut ours = PacedStores::new(self.ours, PAGES_S, part);
        let mut none = PacedStores::new(self.none, PAGES_S, part);
        // No page's first fault falls into a turn.
        ours.touch_all();
        none.touch_all();
        let mut rates = Vec::new();
        turns.barrier.wait();
        loop {
            turns.barrier.wait();
            if turns.is_over.load(Ordering::Relaxed) {
                return rates;
            }
            let stores = match turns.is_ours.load(Ordering::Relaxed) {
                true => &mut ours,
                false => &mut none,
            };
            rates.push(self.units_a_second(&mut work, stores));
            turns.barrier.wait();
        }
    }

    /// Own work for a turn, by the clock of the bench.
    fn units_a_second(&self, work: &mut OwnWork<'_>, stores: &mut PacedStores<'_>) -> f64 {
        let clock = self.bench.pace.clock;
        stores.begin();
        let (start, counted_from, mut units) = (Instant::now(), clock.now(), 0);
        loop {
            work.units();
            units += UNITS;
            let elapsed = start.elapsed();
            stores.store_due(elapsed);
            if elapsed >= self.turn {
                let counted = clock.now().saturating_sub(counted_from);
                return units as f64 / counted.as_secs_f64();
            }
        }
    }
}

/// Own work beside stores into a region, and beside stores into a plain mapping.
pub fn beside_none(bench: &Bench) -> Result<Vec<Row>> {
    let period = period(bench);
    let file = bench.scratch.file("dax-none");
    let plain = PlainMapping::create(file.path(), bench.pool_bytes)?;
    let (files, _) = RegionFiles::create(&bench.scratch, bench.pool_bytes)?;
    let region = files.open(period)?;
    let table: Vec<u64> = (0..TABLE_WORDS as u64).collect();
    let program = Program {
        bench,
        ours: region.words(),
        none: plain.words(),
        table: &table,
        turn: period * PERIODS_A_TURN,
    };
    if program.ours.len() / PAGE_WORDS < PAGES_S as usize {
        return Err(format!("{PAGES_S} distinct pages need --pool-mib 40 or more").into());
    }
    // What a turn leaves to the next pass is not to fall into the other side's.
    let rates = program.run(|| Ok(region.sync(0..region.len())?))?;
    let ratios = ratios(bench, &rates);
    let status = region.status();
    bench.say(&format!(
        "  tracker {}: {} passes, {} of them over all pages; {} pages covered",
        status.tracker, status.counts.passes, status.counts.compared, status.counts.covered_pages
    ));
    region.close()?;
    Ok(vec![Row::new("dax_10k_vs_none", median(ratios), "ratio")])
}

/// Each side once to warm up, then in pairs.
fn turns_of(bench: &Bench) -> usize {
    2 * (bench.repeats + 1)
}

/// Another side comes first in each pair.
fn is_turn_ours(turn: usize) -> bool {
    turn % 2 == turn / 2 % 2
}

/// Of each pair of turns but the first the rate of ours over the other one.
fn ratios(bench: &Bench, rates: &[f64]) -> Vec<f64> {
    let pairs = rates.chunks(2).enumerate().skip(1);
    pairs
        .map(|(pair, rates)| {
            let (ours, none) = match is_turn_ours(2 * pair) {
                true => (rates[0], rates[1]),
                false => (rates[1], rates[0]),
            };
            bench.say(&format!(
                "  {ours:.0} units/s of own work beside stores into the region, {none:.0} beside those into the file"
            ));
            ours / none
        })
        .collect()
}

/// How long stores wait for their pass, where some pages never rest.
pub fn windows(bench: &Bench) -> Result<Vec<Row>> {
    let period = period(bench);
    let (files, _) = RegionFiles::create(&bench.scratch, bench.pool_bytes)?;
    let region = files.open(period)?;
    let is_stopped = AtomicBool::new(false);
    let memory = region.words();
    let result = std::thread::scope(|scope| -> Result<()> {
        let (paced, hot) = memory.split_at(memory.len() - HOT_PAGES * PAGE_WORDS);
        scope.spawn(|| store_without_rest(hot, HOT_PAGES, &is_stopped));
        scope.spawn(|| {
            PacedStores::new(paced, PAGES_S, (0, 1))
                .store_until(|_| is_stopped.load(Ordering::Relaxed));
        });
        let waited = sleep(period * PERIODS_OF_WINDOWS);
        is_stopped.store(true, Ordering::Relaxed);
        waited
    });
    result?;
    let status = region.status();
    let window = status.window;
    bench.say(&format!(
        "  tracker {}: {} pages covered, {} with their writers held; {} still wait",
        status.tracker, window.pages, status.counts.held_pages, window.waiting_pages
    ));
    region.close()?;
    let periods = |ns: u64| ns as f64 / period.as_nanos() as f64;
    // What never was covered has waited, too.
    let most_ns = window.max_ns.max(window.oldest_ns);
    let count = |name: &str, ns: u64| {
        let value = (window.pages > 0).then(|| periods(ns));
        Row::new(name, value, "periods")
    };
    Ok(vec![
        count("dax_window_p99_periods", window.p99_ns),
        count("dax_window_p50_periods", window.p50_ns),
        count("dax_window_max_periods", most_ns),
    ])
}
