//! Power cuts under real file systems: what had been acknowledged has to be there afterwards.
//!
//! `docs/inside/power-cuts.md` says what each kind of cut proves and what it does not.

mod early_device;
pub mod etcd;
mod file_system;
mod killed;
mod plan;
mod sampled;
mod shadow_machine;
mod ssd_device;

use std::path::Path;
use std::time::{Duration, Instant};

use forebay_harness::{
    Row, RunOptions, SeedOption, SubjectOptions, find_program, progress_bar, rows,
};
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

/// A round, and the kind of cut it was.
type Done = (Kind, Round);

fn has_survived((_, round): &Done) -> bool {
    round.verdict == Verdict::Survived
}

fn is_control((kind, _): &Done) -> bool {
    kind.is_control()
}

fn count(rounds: &[Done], wanted: impl Fn(&Done) -> bool) -> u64 {
    rounds.iter().filter(|done| wanted(done)).count() as u64
}

/// What did not survive that had to, in words.
fn failure(session: &Session, round: &Round, seed: u64) -> Option<String> {
    let (name, number) = (session.name(), round.number);
    match &round.verdict {
        Verdict::Lost(what) | Verdict::Broken(what) if !session.kind.is_control() => Some(format!(
            "round {number}, {name}: {what}\n\
             again: forebay-verify power cuts --seed {seed} --round {number}"
        )),
        _ => None,
    }
}

/// True if everything survived that had to, and every kind of control lost something.
pub fn run(arguments: &Arguments) -> Result<bool> {
    if let Some(why) = guest::obstacle() {
        println!("skipped power cuts: {why}");
        return Ok(true);
    }
    let forebay = arguments.subject.forebay()?;
    let seed = arguments.seed.seed("power cuts");
    let sessions = possible(sessions(arguments, seed));
    let began = Instant::now();
    let length: u32 = sessions.iter().map(|session| session.rounds).sum();
    let bar = progress_bar(u64::from(length));
    let kept = arguments.run.report("rig").with_file_name("failed");
    let scratch = Scratch::new()?;
    let (mut rounds, mut failures) = (Vec::new(), Vec::new());
    for session in &sessions {
        let what = session.name();
        bar.set_message(what.clone());
        let first = rounds.len();
        for attempt in 0..CONTROL_ATTEMPTS {
            let session = session.attempt(attempt);
            run_session((&forebay, &kept), &scratch, &session, &mut |round| {
                bar.inc(1);
                failures.extend(failure(&session, &round, seed));
                rounds.push((session.kind, round));
            })?;
            // A disk that lies may leave worse than lost files.
            if !session.kind.is_control() || !rounds[first..].iter().all(has_survived) {
                break;
            }
        }
        bar.suspend(|| println!("{}", line(&rounds[first..], &what)));
    }
    bar.finish_and_clear();
    let mut rows = rows_of(&rounds);
    if is_whole(arguments) && !cfg!(feature = "mutants") {
        let percent = killed::idle_processor_percent(&scratch, &forebay, IDLE_TIME)?;
        rows.push(Row::new("idle_cpu_percent", percent, "%"));
        let took_s = began.elapsed().as_secs_f64();
        rows.push(Row::new("power_cuts_seconds", took_s, "s"));
    }
    if is_whole(arguments) {
        rows::merge(&arguments.run.report("rig"), &rows)?;
    }
    rows::print(&rows, arguments.run.json)?;
    failures.extend(blind(&rounds).map(|kind| {
        let name = kind.name();
        format!("{name} lost nothing: the check is blind")
    }));
    for failure in &failures {
        eprintln!("{failure}");
    }
    if !failures.is_empty() {
        eprintln!("FAILED; seed {seed}");
    }
    Ok(failures.is_empty())
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
        if find_program(maker).is_none() {
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
        Kind::Guest | Kind::Daemon | Kind::Both | Kind::WithoutFsync => {
            killed::run(scratch, forebay, session, done)
        }
        _ => sampled::run(scratch, failures, session, done),
    };
    result.map_err(|error| {
        let (what, first) = (session.name(), session.first_round);
        format!("{what}, rounds from {first} on: {error}").into()
    })
}

/// The rounds of a session in a line, for people.
fn line(rounds: &[Done], what: &str) -> String {
    let (all, survived) = (rounds.len() as u64, count(rounds, has_survived));
    if rounds.iter().any(is_control) {
        let lost = all - survived;
        let sign = if lost > 0 { "ok" } else { "seen" };
        return format!("  {sign}: {what}: lost data in {lost} of {all} rounds");
    }
    let steps: u64 = rounds.iter().map(|(_, round)| round.acknowledged).sum();
    let sign = if survived == all { "ok" } else { "FAILED" };
    let mut line = format!(
        "  {sign}: {what}: {survived} of {all} rounds survived, {steps} steps acknowledged"
    );
    let undecided: u64 = rounds.iter().map(|(_, round)| round.undecided).sum();
    if let Some(mean) = undecided.checked_div(count(rounds, |(kind, _)| kind.is_shadow())) {
        line += &format!(", {mean} lines, units and sectors undecided on average");
    }
    line
}

/// Kinds of controls that never lost anything.
fn blind(rounds: &[Done]) -> impl Iterator<Item = Kind> {
    let lost_nothing = |kind: &Kind| {
        let mut of_kind = rounds.iter().filter(|(other, _)| other == kind);
        kind.is_control() && of_kind.all(has_survived)
    };
    let mut kinds: Vec<Kind> = rounds.iter().map(|(kind, _)| *kind).collect();
    kinds.retain(lost_nothing);
    kinds.dedup();
    kinds.into_iter()
}

fn rows_of(rounds: &[Done]) -> Vec<Row> {
    let row = |name: &str, value: u64, unit: &str| Row::new(name, value as f64, unit);
    let controls = count(rounds, is_control);
    let losses = count(rounds, |done| is_control(done) && !has_survived(done));
    if cfg!(feature = "mutants") {
        return vec![
            row("mutant_cuts", controls, "rounds"),
            row("mutant_losses_seen", losses, "rounds"),
        ];
    }
    let survived = count(rounds, |done| !is_control(done) && has_survived(done));
    let shadow = count(rounds, |(kind, _)| kind.is_shadow());
    let ssd = count(rounds, |(kind, _)| kind.is_ssd());
    let reused = count(rounds, |(kind, round)| {
        kind.is_ssd() && round.segments_reused > 0
    });
    let steps = rounds.iter().map(|(_, round)| round.acknowledged).sum();
    vec![
        row("power_cuts", rounds.len() as u64 - controls, "rounds"),
        row("power_cuts_survived", survived, "rounds"),
        row("power_cuts_shadow", shadow, "rounds"),
        row("power_cuts_ssd", ssd, "rounds"),
        row("power_cuts_ssd_reused", reused, "rounds"),
        row("power_cuts_acknowledged", steps, "steps"),
        row("controls", controls, "rounds"),
        row("control_losses_seen", losses, "rounds"),
    ]
}
