//! `make bench-apps`: programs that people use, with their files on a disk, in memory, and on files that
//! Forebay buffers, in turn in one run.
//!
//! Writes `report.json`, a list of named numbers, and `report.html`, one page. Exit code 1 if a program
//! failed anywhere.

mod cases;
mod context;
mod front;
mod headline;
mod outcome;
mod page;
mod place;
mod results;
mod steps;
mod worker;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::Parser;
use forebay_harness::Row;
use forebay_harness::check_interrupt;
use indicatif::{ProgressBar, ProgressStyle};

use crate::cases::{CASES, Case};
use crate::context::{Context, Pace};
use crate::place::{Place, Session};
use crate::results::Results;
use crate::steps::{STEPS, Step};

/// Whatever went wrong, in words.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
/// A result with such a failure.
pub type Result<T> = std::result::Result<T, Failure>;

const HELP_DEADLINE: Duration = Duration::from_secs(60);

/// Measures real programs on a disk, in memory, and on files that Forebay buffers.
#[derive(Debug, Parser)]
#[command(after_help = "Example:
  forebay-apps --quick --only redis,sqlite")]
struct Arguments {
    /// The command to measure
    #[arg(long, default_value = "target/release/forebay")]
    forebay: PathBuf,
    /// The plain mount to compare with
    #[arg(long, default_value = "target/release/examples/passthrough")]
    passthrough: PathBuf,
    /// Where the report goes; the page goes beside it
    #[arg(long, default_value = "target/apps/report.json")]
    report: PathBuf,
    /// A directory on the disk to measure
    #[arg(long, default_value = "/var/tmp")]
    disk: PathBuf,
    /// A directory in memory
    #[arg(long, default_value = "/dev/shm")]
    memory: PathBuf,
    /// Only these programs
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// How often each place has its turn [default: 3]
    #[arg(long)]
    rounds: Option<usize>,
    /// Most threads of the small writes [default: as many as processors, 2 to 16]
    #[arg(long)]
    threads: Option<usize>,
    /// Everything once, briefly: shows that it works, measures little
    #[arg(long)]
    quick: bool,
    /// Ends when its input does
    #[arg(long, hide = true)]
    watched: bool,
    #[command(subcommand)]
    task: Option<Own>,
}

#[derive(Debug, clap::Subcommand)]
enum Own {
    /// What this program does as a child of itself
    #[command(hide = true)]
    Worker {
        #[command(subcommand)]
        task: worker::Task,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.task {
        Some(Own::Worker { task }) => worker::run(task).map(|()| ExitCode::SUCCESS),
        None if arguments.watched => measure(&arguments).map(|is_well| match is_well {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        }),
        None => front::run(),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("forebay-apps: {error}");
            ExitCode::FAILURE
        }
    }
}

/// True if no program failed.
fn measure(arguments: &Arguments) -> Result<bool> {
    let (cases, steps) = chosen(&arguments.only)?;
    front::watch()?;
    let context = prepare(arguments)?;
    let mut help = Command::new(&context.forebay);
    help.arg("help");
    let commands = forebay_harness::output(&mut help, HELP_DEADLINE)?;
    let mut run = Run {
        context: &context,
        commands,
        results: Results::default(),
        rows: Vec::new(),
        complaints: Vec::new(),
        failures: 0,
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
    run.finish(&arguments.report)
}

fn chosen(only: &[String]) -> Result<(Vec<&'static Case>, Vec<&'static Step>)> {
    let is_chosen = |name: &str| only.is_empty() || only.iter().any(|wanted| wanted == name);
    let cases: Vec<&Case> = CASES.iter().filter(|case| is_chosen(case.name)).collect();
    let steps: Vec<&Step> = STEPS.iter().filter(|step| is_chosen(step.name)).collect();
    if !only.is_empty() && cases.len() + steps.len() < only.len() {
        let names = CASES.iter().map(|case| case.name);
        let known: Vec<&str> = names.chain(STEPS.iter().map(|step| step.name)).collect();
        let (asked, known) = (only.join(","), known.join(", "));
        return Err(format!("not all of {asked} are known; one of {known}").into());
    }
    Ok((cases, steps))
}

fn prepare(arguments: &Arguments) -> Result<Context> {
    let mut pace = Pace::new(arguments.quick);
    if let Some(rounds) = arguments.rounds {
        pace.rounds = rounds.max(1);
    }
    if let Some(threads) = arguments.threads {
        pace.threads = threads.max(1);
    }
    if context::is_in_memory(&arguments.disk)? {
        let disk = arguments.disk.display();
        return Err(format!("{disk} is in memory; name a directory on a disk by --disk").into());
    }
    let forebay = std::path::absolute(&arguments.forebay)?;
    if !forebay.is_file() {
        let path = forebay.display();
        return Err(format!("{path} is not there; `make bench-apps` builds it").into());
    }
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    let style = "{elapsed_precise} {wide_bar} {pos}/{len} {msg}";
    Ok(Context {
        forebay,
        passthrough: std::path::absolute(&arguments.passthrough)?,
        own: std::env::current_exe()?,
        disk: arguments.disk.clone(),
        memory: arguments.memory.clone(),
        workshop: tempfile::Builder::new()
            .prefix("forebay-apps-")
            .permissions(mode)
            .tempdir_in(&arguments.memory)?,
        pace,
        progress: ProgressBar::new(1).with_style(ProgressStyle::with_template(style)?),
    })
}

struct Run<'a> {
    context: &'a Context,
    /// What `forebay help` lists.
    commands: String,
    results: Results,
    /// What was measured once.
    rows: Vec<Row>,
    /// What was left out, or failed, and why.
    complaints: Vec<String>,
    failures: usize,
}

impl Run<'_> {
    /// Says which places cannot be measured here, and why.
    fn leave_out(&mut self) {
        for place in [Place::Passthrough, Place::Mount, Place::Preload] {
            if let Some(what) = place.lacks(&self.commands, &self.context.passthrough) {
                self.complain(format!("skipped {}: it needs {what}", place.title()));
            }
        }
    }

    fn places(&self, case: &Case) -> Vec<Place> {
        let passthrough = &self.context.passthrough;
        let has = |place: &&Place| place.lacks(&self.commands, passthrough).is_none();
        case.places.iter().filter(has).copied().collect()
    }

    /// All rounds of a case; another place begins each round.
    ///
    /// Errors: only Ctrl-C.
    fn case(&mut self, case: &Case) -> Result<()> {
        let places = self.places(case);
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
            Ok(outcome) => self.results.add(place, round, outcome),
            Err(error) => {
                self.failures += 1;
                self.complain(format!("{} on {}: {error}", case.name, place.title()));
            }
        }
        Ok(())
    }

    /// Errors: only Ctrl-C.
    fn step(&mut self, step: &Step) -> Result<()> {
        self.context.progress.set_message(step.name);
        self.context.progress.tick();
        match (step.lacks)(self.context) {
            Some(what) => self.complain(format!("skipped {}: it needs {what}", step.name)),
            None => {
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
            }
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

    fn finish(&self, report: &Path) -> Result<bool> {
        let mut rows = self.results.rows();
        rows.extend(headline::rows(&self.results));
        rows.extend(self.rows.iter().cloned());
        forebay_harness::rows::write(report, &rows)?;
        let html = report.with_extension("html");
        page::page(&self.results, &rows, &self.complaints, self.context).write(&html)?;
        print!("{}", headline::summary(&rows));
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
