//! SQLite through kills: a transaction that was acknowledged is there afterwards, each other one whole
//! or not at all, and the database is sound.

pub mod ledger;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use fastrand::Rng;
use forebay_harness::{Group, Result, Row};
use rustix::process::{Pid, Signal, kill_process};

use crate::form::Form;
use crate::place::Place;
use crate::report::Report;
use crate::settings::Settings;
use crate::task::{Journal, Task};

const POOL_BYTES: u64 = 32 << 20;
const DEADLINE: Duration = Duration::from_secs(120);

/// A share of the rounds for each journal in each form.
pub fn run(settings: &Settings, report: &mut Report) -> Result<()> {
    let (mut rounds, mut losses) = (0, 0);
    for form in settings.forms.iter().copied() {
        if let Some(lack) = form.lacks() {
            report.skip(&format!("kills of SQLite by {}", form.name()), lack);
            continue;
        }
        for journal in [Journal::Delete, Journal::Wal, Journal::WalExclusive] {
            let outcome = by_journal(settings, form, journal, &mut rounds);
            losses += u64::from(outcome.is_err());
            let name = format!(
                "sqlite_kill_transactions_{}_{}",
                form.name(),
                journal.name()
            );
            report.take(&name, "transactions", outcome);
        }
    }
    report.row(Row::new("sqlite_kill_rounds", rounds as f64, "rounds"));
    report.row(Row::new("sqlite_kill_losses", losses as f64, "losses"));
    Ok(())
}

/// How many transactions were acknowledged.
fn by_journal(settings: &Settings, form: Form, journal: Journal, rounds: &mut u64) -> Result<u64> {
    let mut rng = Rng::with_seed(settings.seed ^ journal as u64);
    let mut place = Place::new(form, settings, &settings.disk, POOL_BYTES)?;
    place.start()?;
    let mut acknowledged = 0;
    for number in 0..settings.database_rounds {
        let kills_daemon = form.is_mounted() && rng.bool();
        let delay = Duration::from_millis(rng.u64(5..150));
        let round = || -> Result<u64> {
            let heard = work_and_kill(settings, &mut place, journal, delay, kills_daemon)?;
            if kills_daemon {
                place.start()?;
            }
            check(&place, acknowledged, heard)
        };
        *rounds += 1;
        acknowledged = { round }().map_err(|error| {
            format!(
                "seed {}, round {number}, daemon killed: {kills_daemon}: {error}\n{}",
                settings.seed,
                place.env.log_tail()
            )
        })?;
    }
    place.stop()?;
    ledger::check(&place.env.disk().join("database"))?;
    Ok(acknowledged)
}

/// The number of the last transaction that was heard of, if any was.
fn work_and_kill(
    settings: &Settings,
    place: &mut Place,
    journal: Journal,
    delay: Duration,
    kills_daemon: bool,
) -> Result<Option<u64>> {
    let path = place.files().join("database");
    let mut command = Task::Ledger { path, journal }.program(settings, place)?;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut program = Group::start(&mut command)?;
    let mut said = BufReader::new(program.take_output().ok_or("no output")?);
    let mut line = String::new();
    said.read_line(&mut line)?;
    let pid = Pid::from_raw(line.trim().parse()?).ok_or("a program without a pid")?;
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        said.read_to_string(&mut text).map(|_| text)
    });
    std::thread::sleep(delay);
    if kills_daemon {
        place.kill_daemon()?;
    }
    // Under `forebay run` it is the child that has the pool; its parent brings the files back.
    let _ = kill_process(pid, Signal::KILL);
    program.wait(DEADLINE)?;
    let text = reader.join().map_err(|_| "the reader panicked")??;
    // A line that was cut short was not said.
    let mut lines = text
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'));
    Ok(match lines.next_back() {
        Some(line) => Some(line.trim().parse()?),
        None => None,
    })
}

/// How many transactions there are, all that were acknowledged among them.
fn check(place: &Place, before: u64, heard: Option<u64>) -> Result<u64> {
    let path = place.files().join("database");
    if !Path::new(&path).exists() && heard.is_none() {
        return Ok(0);
    }
    forebay_harness::check_interrupt()?;
    let found = ledger::check(&path)?;
    let acknowledged = heard.unwrap_or(before);
    // The unacknowledged one may be there.
    match found == acknowledged || found == acknowledged + 1 {
        true => Ok(found),
        false => {
            Err(format!("{found} transactions are there, {acknowledged} were acknowledged").into())
        }
    }
}
