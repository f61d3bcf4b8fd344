//! Power cuts under real file systems: what had been acknowledged has to be there afterwards.
//!
//! `docs/inside/power-cuts.md` says what each kind of cut proves and what it does not.

mod early_device;
mod file_system;
mod idle;
mod killed;
mod plan;
mod sampled;
pub(crate) mod shadow_machine;

use std::path::Path;
use std::time::{Duration, Instant};

use forebay_harness::{Row, RunOptions, SeedOption, SubjectOptions, progress_bar, rows};
use forebay_lab::engines::EngineName;

use crate::{Result, Scratch, guest};
pub use file_system::FileSystem;
use file_system::Verdict;
use plan::{Kind, Round, Session};

/// How often a control may lose nothing before it is called blind: a file system may have written all just
/// when its guest is killed.
const CONTROL_ATTEMPTS: u64 = 3;
const IDLE_TIME: Duration = Duration::from_secs(30);

/// What is cut
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:
  forebay-verify power cuts --forebay target/checked/forebay --quick
  forebay-verify power cuts --seed 7 --round 12")]
pub struct Arguments {
    #[command(flatten)]
    subject: SubjectOptions,
    #[command(flatten)]
    seed: SeedOption,
    #[command(flatten)]
    run: RunOptions,
    /// Only this round of those that the seed gives, with those before it on the same disk
    #[arg(long)]
    round: Option<u32>,
    /// Only this file system
    #[arg(long)]
    file_system: Option<FileSystem>,
    /// Only this engine: forebay, classic or tinca
    #[arg(long)]
    engine: Option<EngineName>,
    /// Only kinds of cuts whose name contains this
    #[arg(long)]
    kind: Option<String>,
}

/// What came of all rounds.
#[derive(Default)]
struct Tally {
    rounds: u32,
    survived: u32,
    sampled: u32,
    acknowledged: u64,
    undecided: u64,
    controls: u32,
    control_losses: u32,
    /// How often sessions of controls lost data.
    losses: Vec<(Kind, u32)>,
    /// What did not survive, in words.
    failures: Vec<String>,
}

/// True if everything survived that had to, and every kind of control lost something.
///
/// # Errors
/// Something could not be done, or a signal came.
pub fn run(arguments: &Arguments) -> Result<bool> {
    if let Some(why) = guest::obstacle() {
        println!("skipped power cuts: {why}");
        return Ok(true);
    }
    let forebay = arguments.subject.forebay()?;
    let seed = arguments.seed.seed("power cuts");
    let sessions = possible(sessions(arguments, seed));
    let began = Instant::now();
    let rounds: u32 = sessions.iter().map(|session| session.rounds).sum();
    let bar = progress_bar(u64::from(rounds));
    let failures = arguments.run.report("rig").with_file_name("failed");
    let scratch = Scratch::new()?;
    let mut tally = Tally::default();
    for session in &sessions {
        let what = session.name();
        bar.set_message(what.clone());
        let mut own = Tally::default();
        for attempt in 0..CONTROL_ATTEMPTS {
            let session = session.attempt(attempt);
            run_session((&forebay, &failures), &scratch, &session, &mut |round| {
                bar.inc(1);
                own.add(&session, &round, seed);
            })?;
            if !session.kind.is_control() || own.control_losses > 0 {
                break;
            }
        }
        bar.suspend(|| println!("{}", own.line(&what)));
        tally.join(session.kind, own);
    }
    bar.finish_and_clear();
    let mut rows = tally.rows();
    if is_whole(arguments) && !cfg!(feature = "mutants") {
        let percent = idle::processor_percent(&scratch, &forebay, IDLE_TIME)?;
        rows.push(Row::new("idle_cpu_percent", percent, "%"));
        let took_s = began.elapsed().as_secs_f64();
        rows.push(Row::new("power_cuts_seconds", took_s, "s"));
    }
    finish(arguments, &tally, &rows, seed)
}

/// Whether nothing is left out: only then there is something to report.
fn is_whole(arguments: &Arguments) -> bool {
    let is_chosen = arguments.round.is_some() || arguments.kind.is_some();
    let is_chosen = is_chosen || arguments.engine.is_some();
    !arguments.run.quick && !is_chosen && arguments.file_system.is_none()
}

fn sessions(arguments: &Arguments, seed: u64) -> Vec<Session> {
    let mut sessions = match arguments.run.quick {
        _ if cfg!(feature = "mutants") => plan::mutants(seed),
        true => plan::quick(seed),
        false => plan::full(seed),
    };
    if let Some(round) = arguments.round {
        sessions = plan::only(sessions, round);
    }
    sessions.retain(|session| {
        let is_engine = |wanted| session.engine == wanted;
        let is_system = |wanted| session.file_system == wanted;
        let is_kind = |wanted: &String| session.kind.name().contains(wanted.as_str());
        arguments.engine.is_none_or(is_engine)
            && arguments.file_system.is_none_or(is_system)
            && arguments.kind.as_ref().is_none_or(is_kind)
    });
    sessions
}

/// Leaves out file systems whose programs are missing, and says so.
fn possible(mut sessions: Vec<Session>) -> Vec<Session> {
    for file_system in FileSystem::ALL {
        let (name, maker) = (file_system.name(), file_system.maker());
        if !guest::has_program(maker) {
            println!("skipped power cuts under {name}: no {maker} here");
            sessions.retain(|session| session.file_system != file_system);
        }
    }
    sessions
}

/// `failures` is where the pools go that a cut left broken.
fn run_session(
    (forebay, failures): (&Path, &Path),
    scratch: &Scratch,
    session: &Session,
    done: &mut dyn FnMut(Round),
) -> Result<()> {
    forebay_harness::check_interrupt()?;
    let result = match session.kind {
        Kind::Shadow(_) | Kind::EarlyAnswers | Kind::WithoutFence => {
            sampled::run(scratch, failures, session, done)
        }
        _ => killed::run(scratch, forebay, session, done),
    };
    result.map_err(|error| {
        let (what, first) = (session.name(), session.first_round);
        format!("{what}, rounds from {first} on: {error}").into()
    })
}

fn finish(arguments: &Arguments, tally: &Tally, list: &[Row], seed: u64) -> Result<bool> {
    if is_whole(arguments) {
        rows::merge(&arguments.run.report("rig"), list)?;
    }
    rows::print(list, arguments.run.json)?;
    for failure in &tally.failures {
        eprintln!("{failure}");
    }
    let blind = tally.blind();
    for kind in &blind {
        eprintln!("{} lost nothing: the check is blind", kind.name());
    }
    let is_good = tally.failures.is_empty() && blind.is_empty();
    if !is_good {
        eprintln!("FAILED; seed {seed}");
    }
    Ok(is_good)
}

impl Tally {
    fn add(&mut self, session: &Session, round: &Round, seed: u64) {
        self.acknowledged += round.acknowledged;
        self.undecided += round.undecided;
        let (number, session_name) = (round.number, session.name());
        if session.kind.is_control() {
            self.controls += 1;
            // A disk that lies may leave worse than lost files.
            self.control_losses += u32::from(round.verdict != Verdict::Survived);
            return;
        }
        self.rounds += 1;
        self.sampled += u32::from(session.kind.is_shadow());
        match &round.verdict {
            Verdict::Survived => self.survived += 1,
            Verdict::Lost(what) | Verdict::Broken(what) => self.failures.push(format!(
                "round {number}, {session_name}: {what}\n\
                 again: forebay-verify power cuts --seed {seed} --round {number}"
            )),
        }
    }

    fn line(&self, what: &str) -> String {
        let steps = self.acknowledged;
        if self.controls > 0 {
            let (lost, all) = (self.control_losses, self.controls);
            let sign = if lost > 0 { "ok" } else { "seen" };
            return format!("  {sign}: {what}: lost data in {lost} of {all} rounds");
        }
        let (survived, all) = (self.survived, self.rounds);
        let sign = if survived == all { "ok" } else { "FAILED" };
        let mut line = format!(
            "  {sign}: {what}: {survived} of {all} rounds survived, {steps} steps acknowledged"
        );
        if self.sampled > 0 {
            let mean = self.undecided / u64::from(self.sampled);
            line += &format!(", {mean} lines and sectors undecided on average");
        }
        line
    }

    fn join(&mut self, kind: Kind, other: Tally) {
        if kind.is_control() {
            self.losses.push((kind, other.control_losses));
        }
        self.rounds += other.rounds;
        self.survived += other.survived;
        self.sampled += other.sampled;
        self.acknowledged += other.acknowledged;
        self.undecided += other.undecided;
        self.controls += other.controls;
        self.control_losses += other.control_losses;
        self.failures.extend(other.failures);
    }

    /// Kinds of controls that never lost anything.
    fn blind(&self) -> Vec<Kind> {
        let has_lost = |kind| {
            self.losses
                .iter()
                .any(|&(other, lost)| other == kind && lost > 0)
        };
        let mut kinds: Vec<Kind> = self.losses.iter().map(|&(kind, _)| kind).collect();
        kinds.dedup();
        kinds.retain(|&kind| !has_lost(kind));
        kinds
    }

    fn rows(&self) -> Vec<Row> {
        let row = |name: &str, value: u64, unit: &str| Row::new(name, value as f64, unit);
        if cfg!(feature = "mutants") {
            return vec![
                row("mutant_cuts", self.controls.into(), "rounds"),
                row("mutant_losses_seen", self.control_losses.into(), "rounds"),
            ];
        }
        vec![
            row("power_cuts", self.rounds.into(), "rounds"),
            row("power_cuts_survived", self.survived.into(), "rounds"),
            row("power_cuts_shadow", self.sampled.into(), "rounds"),
            row("power_cuts_acknowledged", self.acknowledged, "steps"),
            row("controls", self.controls.into(), "rounds"),
            row("control_losses_seen", self.control_losses.into(), "rounds"),
        ]
    }
}
