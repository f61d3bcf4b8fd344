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

use fastrand::Rng;
use forebay_report::Row;

use crate::Result;
use crate::place::Form;
use crate::report::Report;
use crate::settings::Settings;
use round::Rounds;

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Program,
    /// The mount's daemon; under the library, `forebay run`.
    Daemon,
    Both,
}

/// How the directory is brought back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Return {
    /// `forebay recover`, and a look behind the mount.
    Recover,
    /// The next mount or `forebay run` does it.
    Next,
    /// `forebay recover` is killed too, and repeated.
    RecoverTwice,
}

/// Rounds of each form; a loss ends the form's.
pub fn run(settings: &Settings, report: &mut Report) -> Result<()> {
    let (mut rounds, mut losses, mut acknowledged) = (0, 0, 0);
    for form in [Form::Preload, Form::Mount] {
        if let Some(lack) = form.lacks() {
            report.skip(&format!("kills by {}", form.name()), lack);
            continue;
        }
        let outcome = by_form(settings, form, &mut rounds, &mut acknowledged);
        let name = format!("kill_operations_{}", form.name());
        losses += u64::from(outcome.is_err());
        report.take(&name, "operations", outcome);
    }
    report.row(Row::new("kill_rounds", rounds as f64, "rounds"));
    report.row(Row::new("kill_losses", losses as f64, "losses"));
    report.row(Row::new(
        "kill_acknowledged",
        acknowledged as f64,
        "operations",
    ));
    Ok(())
}

/// Half of the rounds; how many operations were acknowledged.
fn by_form(
    settings: &Settings,
    form: Form,
    rounds: &mut u64,
    acknowledged: &mut u64,
) -> Result<u64> {
    let mut rng = Rng::with_seed(settings.seed);
    let mut all = Rounds::new(settings, form)?;
    let before = *acknowledged;
    for number in 0..settings.kill_rounds.div_ceil(2) {
        let victim = [Victim::Program, Victim::Daemon, Victim::Both][rng.usize(..3)];
        let back = [Return::Recover, Return::Next, Return::RecoverTwice][rng.usize(..3)];
        let delay_ms = rng.u64(5..120);
        let done = all.one(victim, back, delay_ms).map_err(|error| {
            let seed = settings.seed;
            format!(
                "seed {seed}, round {number}, killed: {victim:?} after {delay_ms} ms, back by {back:?}: \
                 {error}\n{}",
                all.place.log_tail()
            )
        })?;
        *acknowledged += done;
        *rounds += 1;
    }
    all.end()?;
    Ok(*acknowledged - before)
}
