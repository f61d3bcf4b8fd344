//! Torn pages: is a page that a program writes as one all there or not at all after a power cut?
//!
//! `docs/inside/torn-writes.md` says what splits writes on the way to a disk, and what came out.

mod arrivals;
mod cases;
mod databases;
mod mounted;
mod page_disk;
pub mod pages;
mod trial;

use forebay_harness::{Row, RunOptions, SeedOption};

use crate::{Result, Scratch, guest};
use cases::{CASES, Case, Expectation, FrontEnd};
use databases::DATABASES;
use trial::Trial;

/// How often a control may see nothing before it is called blind.
const CONTROL_ATTEMPTS: u64 = 3;

/// Which pages
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:
  forebay-verify power torn
  forebay-verify power torn --only 'vhost-user' --seed 7")]
pub struct Arguments {
    #[command(flatten)]
    seed: SeedOption,
    #[command(flatten)]
    run: RunOptions,
    /// Only cases whose name contains this
    #[arg(long)]
    only: Option<String>,
}

impl Arguments {
    fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|part| name.contains(part))
    }
}

/// True if nothing was torn that may not be, and every control was.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let seed = arguments.seed.seed("torn pages");
    let scratch = Scratch::new()?;
    let mut is_good = true;
    let mut sums = Sums::default();
    for case in CASES {
        if !arguments.wants(case.name) {
            continue;
        }
        if let Some(why) = obstacle(case) {
            println!("skipped torn pages, {}: {why}", case.name);
            continue;
        }
        forebay_harness::check_interrupt()?;
        let trial = Trial::run(case, &scratch, arguments.run.quick, seed)
            .map_err(|error| format!("{}: {error}", case.name))?;
        let is_as_expected = match case.expectation {
            Expectation::Whole => trial.torn == 0 && trial.arrived.cutting == 0,
            Expectation::Torn => trial.torn > 0,
            Expectation::Open => true,
        };
        is_good &= is_as_expected;
        println!("{}", trial.line(case, is_as_expected));
        sums.add(case, &trial);
    }
    let mut rows = sums.rows();
    is_good &= try_databases(arguments, &scratch, seed, &mut rows)?;
    if arguments.only.is_none() {
        forebay_harness::rows::merge(&arguments.run.report("rig"), &rows)?;
    }
    forebay_harness::rows::print(&rows, arguments.run.json)?;
    if !is_good {
        eprintln!("FAILED; seed {seed}");
    }
    Ok(is_good)
}

/// True if the databases found nothing wrong over a pool, and something over a disk that tears.
fn try_databases(
    arguments: &Arguments,
    scratch: &Scratch,
    seed: u64,
    rows: &mut Vec<Row>,
) -> Result<bool> {
    let mut is_good = true;
    for database in &DATABASES {
        for is_plain in [false, true] {
            let disk = ["a pool", "control: no pool"][usize::from(is_plain)];
            let name = format!("{}, {disk}", database.name);
            if !arguments.wants(&name) {
                continue;
            }
            let why = mounted::obstacle_of(database.make).or_else(|| database.obstacle());
            if let Some(why) = why {
                println!("skipped torn pages, {name}: {why}");
                continue;
            }
            let numbers = match (arguments.run.quick, is_plain) {
                (true, _) => (2, 1),
                (false, false) => (4, 2),
                // It has to see something.
                (false, true) => (6, 3),
            };
            let attempts = if is_plain { CONTROL_ATTEMPTS } else { 1 };
            let mut found = databases::Rounds::default();
            for attempt in 0..attempts {
                let seed = seed.wrapping_add(attempt);
                let more = database
                    .try_rounds(scratch, numbers, is_plain, seed)
                    .map_err(|error| format!("{name}: {error}"))?;
                found.join(more);
                if found.clean < found.rounds {
                    break;
                }
            }
            let is_as_expected = match is_plain {
                true => arguments.run.quick || found.clean < found.rounds,
                false => found.clean == found.rounds,
            };
            is_good &= is_as_expected;
            let sign = if is_as_expected { "ok" } else { "FAILED" };
            let (clean, rounds, arrived) = (found.clean, found.rounds, &found.arrived);
            println!(
                "  {sign}: {name}: {clean} of {rounds} rounds clean; writes arrived as {arrived}"
            );
            for complaint in found.complaints.iter().filter(|_| !is_as_expected) {
                println!("{complaint}");
            }
            let kind = ["rounds", "control_rounds"][usize::from(is_plain)];
            let row = format!("{}_{kind}", database.name);
            rows.push(Row::new(format!("{row}_clean"), clean as f64, "rounds"));
            rows.push(Row::new(row, rounds as f64, "rounds"));
        }
    }
    Ok(is_good)
}

fn obstacle(case: &Case) -> Option<String> {
    match case.front_end {
        FrontEnd::Loop { .. } => mounted::obstacle_of(&case.make()),
        FrontEnd::Vhost => guest::obstacle(),
    }
}

/// Over all cases.
#[derive(Default)]
struct Sums {
    torn_loop: u64,
    torn_vhost: u64,
    torn_controls: u64,
    rounds: u64,
}

impl Sums {
    fn add(&mut self, case: &Case, trial: &Trial) {
        self.rounds += trial.images;
        match (case.expectation, case.front_end) {
            (Expectation::Torn, _) => self.torn_controls += trial.torn,
            (Expectation::Open, _) => {}
            (Expectation::Whole, FrontEnd::Loop { .. }) => self.torn_loop += trial.torn,
            (Expectation::Whole, FrontEnd::Vhost) => self.torn_vhost += trial.torn,
        }
    }

    fn rows(&self) -> Vec<Row> {
        let row = |name: &str, value: u64, unit: &str| Row::new(name, value as f64, unit);
        vec![
            row("torn_pages_16k_loop", self.torn_loop, "pages"),
            row("torn_pages_16k_vhost", self.torn_vhost, "pages"),
            row("torn_pages_controls", self.torn_controls, "pages"),
            row("torn_rounds", self.rounds, "rounds"),
        ]
    }
}
