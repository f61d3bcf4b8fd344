//! `make bench-apps`: programs that people use, with their files on a disk, in memory and on files that
//! Forebay buffers, in turn in one run.
//!
//! Writes `report.json`, a list of named numbers, and `report.html`, one page.

mod account;
mod cases;
mod cluster;
mod context;
mod delayed;
mod headline;
mod judged;
mod loop_files;
mod machine;
mod options;
mod outcome;
mod page;
mod place;
mod results;
mod rounds;
mod slow_disk;
mod steps;
mod tpcc;
mod worker;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use clap::Args;
use forebay_harness::{
    Result, Row, RunOptions, check_interrupt, output, progress_bar, rows, temporary_folder,
};

use forebay_lab::elsewhere::PROCESSORS;

use crate::cases::{CASES, Case};
use crate::context::{Context, Pace};
use crate::delayed::{DelayOption, DelayedDisk, declared};
use crate::judged::{DISK_NUMBER, disk_fsync_ns};
use crate::options::BenchOptions;
use crate::outcome::Outcome;
use crate::place::{Place, Session};
use crate::results::Results;
use crate::steps::{STEPS, Step};

pub use cluster::{Arguments as ClusterArguments, run as run_cluster};
pub use tpcc::{Arguments as TpccArguments, run as run_tpcc};
pub use worker::Task;

const HELP_DEADLINE: Duration = Duration::from_secs(60);

/// What is measured.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    bench: BenchOptions,
    #[command(flatten)]
    delay: DelayOption,
    /// The plain mount to compare with
    #[arg(
        long,
        value_name = "PATH",
        default_value = "target/release/examples/passthrough"
    )]
    passthrough: PathBuf,
    /// Only in these places, by name; one that is not known is answered with all of them
    #[arg(long, value_name = "PLACE", value_delimiter = ',')]
    places: Vec<String>,
    /// Most threads of the small writes [default: as many as processors, 2 to 16]
    #[arg(long)]
    threads: Option<usize>,
}

/// Measures; true if no program failed.
///
/// # Errors
/// It cannot be done here, or a signal came.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let places = chosen_places(&arguments.places)?;
    let (cases, steps) = chosen(&arguments.bench.only, !arguments.places.is_empty())?;
    let delay = arguments.delay.delay();
    let delayed = delay.map(|delay| DelayedDisk::make(delay, &arguments.bench.memory));
    let delayed = delayed.transpose()?;
    let context = prepare(arguments, delayed.as_ref())?;
    let mut help = Command::new(&context.forebay);
    help.arg("help");
    let commands = output(&mut help, HELP_DEADLINE)?;
    let mut run = Run {
        context: &context,
        commands,
        chosen: places,
        results: Results::default(),
        rows: Vec::new(),
        complaints: Vec::new(),
        failures: 0,
        probes: 0,
    };
    run.leave_out();
    let turns = cases.iter().map(|case| run.places(case).len());
    let turns = turns.sum::<usize>() * context.pace.rounds + steps.len();
    context.progress.set_length(turns as u64);
    for case in cases {
        run.case(case)?;
    }
    for step in steps {
        run.step(step)?;
    }
    context.progress.finish_and_clear();
    run.finish(&arguments.bench.run)
}

/// What is to be measured; if places are chosen, steps, which have none, only by name.
fn chosen(only: &[String], by_place: bool) -> Result<(Vec<&'static Case>, Vec<&'static Step>)> {
    let is_named = |name: &str| only.iter().any(|wanted| wanted == name);
    let is_chosen = |name: &str| only.is_empty() || is_named(name);
    let cases: Vec<&Case> = CASES.iter().filter(|case| is_chosen(case.name)).collect();
    let steps = STEPS
        .iter()
        .filter(|step| is_named(step.name) || only.is_empty() && !by_place);
    let steps: Vec<&Step> = steps.collect();
    if !only.is_empty() && cases.len() + steps.len() < only.len() {
        let names = CASES.iter().map(|case| case.name);
        let known: Vec<&str> = names.chain(STEPS.iter().map(|step| step.name)).collect();
        let (asked, known) = (only.join(","), known.join(", "));
        return Err(format!("not all of {asked} are known; one of {known}").into());
    }
    Ok((cases, steps))
}

/// The places of these names, all of them where none is named.
fn chosen_places(names: &[String]) -> Result<Vec<Place>> {
    let is_chosen =
        |place: &Place| names.is_empty() || names.iter().any(|name| name == place.name());
    let chosen: Vec<Place> = Place::ALL.into_iter().filter(is_chosen).collect();
    if !names.is_empty() && chosen.len() < names.len() {
        let (asked, known) = (names.join(","), Place::ALL.map(Place::name).join(", "));
        return Err(format!("not all of the places {asked} are known; one of {known}").into());
    }
    Ok(chosen)
}

fn prepare(arguments: &Arguments, delayed: Option<&DelayedDisk>) -> Result<Context> {
    let bench = &arguments.bench;
    let mut pace = Pace::new(bench.run.quick);
    pace.rounds = bench.rounds(pace.rounds);
    if let Some(threads) = arguments.threads {
        pace.threads = threads.max(1);
    }
    Ok(Context {
        forebay: bench.subject.forebay()?,
        passthrough: std::path::absolute(&arguments.passthrough)?,
        own: std::env::current_exe()?,
        disk: match delayed {
            Some(delayed) => delayed.files(),
            None => bench.disk()?,
        }
        .to_owned(),
        disk_delay: arguments.delay.delay(),
        memory: bench.memory.clone(),
        workshop: temporary_folder(&bench.memory)?,
        pace,
        progress: progress_bar(1),
    })
}

struct Run<'a> {
    context: &'a Context,
    commands: String,
    /// In no other place anything is measured.
    chosen: Vec<Place>,
    results: Results,
    rows: Vec<Row>,
    complaints: Vec<String>,
    failures: usize,
    /// How often the disk itself was measured.
    probes: usize,
}

impl Run<'_> {
    fn leave_out(&mut self) {
        for place in self.chosen.clone() {
            if let Some(what) = place.lacks(&self.commands, &self.context.passthrough) {
                self.complain(format!("skipped {}: {what}", place.title()));
            }
        }
    }

    fn places(&self, case: &Case) -> Vec<Place> {
        let passthrough = &self.context.passthrough;
        let has = |place: &&Place| {
            self.chosen.contains(*place) && place.lacks(&self.commands, passthrough).is_none()
        };
        case.places.iter().filter(has).copied().collect()
    }

    /// All rounds of a case; another place begins each round.
    ///
    /// Errors: only Ctrl-C.
    fn case(&mut self, case: &Case) -> Result<()> {
        let places = self.places(case);
        if places.is_empty() {
            self.complain(format!("skipped {}: in none of the places", case.name));
        }
        for round in 0..self.context.pace.rounds {
            for turn in 0..places.len() {
                let place = places[(round + turn) % places.len()];
                self.turn(case, place, round)?;
            }
        }
        Ok(())
    }

    fn turn(&mut self, case: &Case, place: Place, round: usize) -> Result<()> {
        let progress = &self.context.progress;
        progress.set_message(format!("{}, {}", case.name, place.title()));
        progress.tick();
        let measured = Session::open(self.context, place, case.pool_bytes).and_then(|session| {
            let outcome = (case.run)(&session)?;
            session.close()?;
            Ok(outcome)
        });
        check_interrupt()?;
        self.context.progress.inc(1);
        match measured {
            Ok(outcome) => {
                self.results.add(place, round, outcome);
                self.probe_disk(place)?;
            }
            Err(error) => {
                self.failures += 1;
                self.complain(format!("{} on {}: {error}", case.name, place.title()));
            }
        }
        Ok(())
    }

    /// What the disk itself takes at that time, beside what was measured on it.
    fn probe_disk(&mut self, place: Place) -> Result<()> {
        if !matches!(place, Place::Disk | Place::DiskUnsynced) {
            return Ok(());
        }
        let folder = temporary_folder(&self.context.disk)?;
        let outcome = Outcome {
            rows: vec![Row::new(DISK_NUMBER, disk_fsync_ns(folder.path())?, "ns")],
            curves: Vec::new(),
        };
        self.results.add(Place::Disk, self.probes, outcome);
        self.probes += 1;
        Ok(())
    }

    /// Errors: only Ctrl-C.
    fn step(&mut self, step: &Step) -> Result<()> {
        self.context.progress.set_message(step.name);
        self.context.progress.tick();
        let measured = (step.run)(self.context);
        check_interrupt()?;
        let complaint = match measured {
            Ok(measured) => {
                self.rows.extend(measured.rows);
                measured.complaint
            }
            Err(error) => Some(error.to_string()),
        };
        if let Some(complaint) = complaint {
            self.failures += 1;
            self.complain(format!("{}: {complaint}", step.name));
        }
        self.context.progress.inc(1);
        Ok(())
    }

    fn complain(&mut self, complaint: String) {
        if self.complaints.contains(&complaint) {
            return;
        }
        self.context.progress.suspend(|| eprintln!("{complaint}"));
        self.complaints.push(complaint);
    }

    fn finish(&self, options: &RunOptions) -> Result<bool> {
        let mut rows = self.results.rows();
        rows.extend(headline::rows(&self.results));
        rows.extend(self.rows.iter().cloned());
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        rows.push(Row::new(PROCESSORS, processors as f64, "processors"));
        let rows = declared(self.context.disk_delay, rows);
        let report = options.report("apps");
        rows::write(&report, &rows)?;
        let html = report.with_extension("html");
        page::page(&self.results, &rows, &self.complaints, self.context).write(&html)?;
        match options.json {
            true => rows::print(&rows, true)?,
            false => print!("{}", judged::summary(headline::BARS, &rows)),
        }
        if let Some(delay) = self.context.disk_delay {
            eprintln!("disk: {delay}; it is not this machine's own");
        }
        eprintln!("written to {} and {}", report.display(), html.display());
        match self.failures {
            0 => Ok(true),
            failures => {
                eprintln!("{failures} measurements FAILED");
                Ok(false)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_chosen_by_name_and_steps_have_none() {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(chosen_places(&[]).expect("all"), Place::ALL);
        let two = chosen_places(&names(&["mount_ssd", "disk"])).expect("two");
        assert_eq!(two, [Place::Disk, Place::MountSsd]);
        let error = chosen_places(&names(&["disk", "tape"])).expect_err("no such place");
        for name in ["tape", "ssd_pool_slow_disk", "preload_ssd"] {
            assert!(error.to_string().contains(name), "{error}");
        }
        let count = |only: &[&str], by_place| {
            let (cases, steps) = chosen(&names(only), by_place).expect("known");
            (cases.len(), steps.len())
        };
        assert_eq!(count(&[], false), (CASES.len(), STEPS.len()));
        assert_eq!(count(&[], true), (CASES.len(), 0));
        assert_eq!(count(&["sqlite", "torture"], true), (1, 1));
        assert!(chosen(&names(&["sqlite", "no such"]), false).is_err());
    }
}
