//! Programs and daemons are killed at random while they work; afterwards everything that they were told
//! is done must be there.
//!
//! The checker tells the program each operation and waits for its answer before the next. What was
//! answered is acknowledged. One operation of each thread may be in flight: it is there or not.

mod choice;
mod compare;
mod operation;
mod round;
mod tree;
pub mod worker;

use crate::disk;
use crate::form::Form;
use crate::report::Report;
use crate::settings::Settings;
use fastrand::Rng;
use forebay_harness::{Result, Row};
use round::{Return, Rounds, Victim};

#[derive(Debug, Default)]
struct Tally {
    rounds: u64,
    losses: u64,
    acknowledged: u64,
    /// Whether the disk's power is cut too.
    is_cut: bool,
}

/// As many rounds in each form.
pub fn run(settings: &Settings, report: &mut Report) -> Result<()> {
    let mut tally = Tally::default();
    // What the kernel kept back goes with the daemon: no program was promised otherwise.
    let forms = settings.forms.iter().copied();
    for form in forms.filter(|form| *form != Form::MountWriteback) {
        if let Some(lack) = form.lacks() {
            report.skip(&format!("kills by {}", form.name()), lack);
            continue;
        }
        by_form(settings, form, report, &mut tally)?;
    }
    report.row(Row::new("kill_rounds", tally.rounds as f64, "rounds"));
    report.row(Row::new("kill_losses", tally.losses as f64, "losses"));
    let acknowledged = tally.acknowledged as f64;
    report.row(Row::new("kill_acknowledged", acknowledged, "operations"));
    Ok(())
}

/// Rounds in which the disk loses what it had not made durable: what was synced, and every name, must
/// come from the pool.
pub fn run_power_cuts(settings: &Settings, report: &mut Report) -> Result<()> {
    let lack = disk::lack().or(Form::Mount.lacks());
    if let Some(lack) = lack {
        report.skip("power cuts of the disk", lack);
        return Ok(());
    }
    let mut tally = Tally {
        is_cut: true,
        ..Tally::default()
    };
    by_form(settings, Form::Mount, report, &mut tally)?;
    report.row(Row::new("power_cut_rounds", tally.rounds as f64, "rounds"));
    report.row(Row::new("power_cut_losses", tally.losses as f64, "losses"));
    Ok(())
}

/// After a loss the rounds go on with a fresh directory.
fn by_form(settings: &Settings, form: Form, report: &mut Report, tally: &mut Tally) -> Result<()> {
    let mut rng = Rng::with_seed(settings.seed);
    let mut all = Rounds::new(settings, form, tally.is_cut)?;
    let name = match tally.is_cut {
        true => format!("power cuts under {}", form.name()),
        false => format!("kills by {}", form.name()),
    };
    let count = settings.kill_rounds.div_ceil(2);
    let before = tally.losses;
    for number in 0..count {
        forebay_harness::check_interrupt()?;
        let victim = match form {
            Form::Plain => Victim::Program,
            _ if tally.is_cut => Victim::Both,
            _ => [Victim::Program, Victim::Daemon, Victim::Both][rng.usize(..3)],
        };
        let back = [Return::Recover, Return::Next, Return::RecoverTwice][rng.usize(..3)];
        let delay_ms = rng.u64(5..120);
        tally.rounds += 1;
        match all.one(victim, back, delay_ms) {
            Ok(done) => tally.acknowledged += done,
            Err(error) => {
                let (seed, log) = (settings.seed, all.place.env.log_tail());
                tally.losses += 1;
                report.fail(format!(
                    "{name}, seed {seed}, round {number}, killed: {victim:?} after {delay_ms} ms, back by \
                     {back:?}: {error}\n{log}"
                ));
                all.keep(&format!("{}-{seed}-{number}", form.name()))?;
                let fresh = settings.seed.wrapping_add(number);
                all = Rounds::new(
                    &Settings {
                        seed: fresh,
                        ..settings.clone()
                    },
                    form,
                    tally.is_cut,
                )?;
            }
        }
    }
    let ended = all.end();
    if let Err(error) = ended {
        tally.losses += 1;
        report.fail(format!("{name}, the end: {error}"));
    }
    if tally.losses == before {
        report.ok(&format!("{name}: {count} rounds"));
    }
    Ok(())
}
