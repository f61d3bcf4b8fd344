//! `forebay info`: what an idle pool holds, or whether a backing has its newest data. Nothing is changed:
//! a pool is opened on a private copy.

use std::path::{Path, PathBuf};

use forebay::marks::{FoundMark, Mark, MarkState, PoolSide, judge, utc};
use forebay::{MarkFiles, MarkPlace, Pool};
use serde_json::{Value, json};

use crate::arguments::{InfoOptions, Trust};
use crate::failure::Failure;
use crate::{idle_pool, json_path, output, pool_report};

/// Shows the pool, or the backing.
pub fn run(options: &InfoOptions) -> Result<(), Failure> {
    if let Some(backing) = &options.backing {
        return show_backing(backing, options);
    }
    output::object(&report(&options.pool, options.trust)?, options.json);
    Ok(())
}

/// What is shown of a pool.
pub fn report(pool: &[PathBuf], trust: Trust) -> Result<Value, Failure> {
    let pool = idle_pool::open_private(pool, trust)?;
    let mut report = pool_report::stat(&pool);
    report["survives"] = pool.survives().into();
    report["recovery"] = pool_report::recovery(&pool);
    Ok(report)
}

/// How a backing stands.
enum State {
    /// It has everything, as far as anybody knows.
    Whole,
    /// Its pool is there and has the rest.
    Open,
    /// Why it has not, and where the rest is not.
    Stale(String),
}

fn show_backing(backing: &Path, options: &InfoOptions) -> Result<(), Failure> {
    let named = |error: std::io::Error| Failure::Failed(format!("{}: {error}", backing.display()));
    let path = std::fs::canonicalize(backing).map_err(named)?;
    let place = MarkFiles::of_path(&path).map_err(named)?;
    let found = FoundMark::of(&place.read().map_err(named)?);
    let state = state_of(&path, &found, options);
    let since = found.mark().map(|mark| utc(mark.since_unix_s));
    let (word, why) = match &state {
        State::Whole => ("whole", None),
        State::Open => ("open", None),
        State::Stale(why) => ("stale", Some(why)),
    };
    if options.json {
        let report = json!({"state": word, "why": why});
        let mut report = json_path::with(report, "backing", &path);
        report["mark"] = found.mark().map_or(Value::Null, report_of);
        output::object(&report, true);
    } else {
        let since = since.filter(|_| why.is_some());
        output::line(&since.map_or(word.to_owned(), |since| format!("{word} since {since}")));
    }
    match state {
        State::Stale(why) => Err(Failure::Stale(format!("{}: {why}", path.display()))),
        State::Whole | State::Open => Ok(()),
    }
}

fn state_of(path: &Path, found: &FoundMark, options: &InfoOptions) -> State {
    let pool = &options.pool;
    let mark = match found {
        FoundMark::None if pool.is_empty() => return State::Whole,
        FoundMark::Mark(mark) if pool.is_empty() && mark.state == MarkState::Whole => {
            return State::Whole;
        }
        FoundMark::Damaged => {
            return State::Stale(String::from("its mark is damaged, or of a later version"));
        }
        found => found.mark(),
    };
    let its_own = mark.map(|mark| vec![mark.pool_path.clone()]);
    let pool = match pool.is_empty() {
        true => its_own.unwrap_or_default(),
        false => pool.to_vec(),
    };
    let sides = match Pool::sides(&pool, &options.trust.region()) {
        Ok(sides) => sides,
        Err(error) => return State::Stale(format!("its pool cannot be looked at: {error}")),
    };
    let is_it = |(name, side): &&(PathBuf, PoolSide)| {
        name == path
            || mark.is_some_and(|mark| mark.pool == side.pool && mark.volume == side.volume)
    };
    let unknown = PoolSide {
        pool: sides.first().map_or([0; 16], |(_, side)| side.pool),
        volume: 0,
        generation: 0,
        stage: forebay::marks::Stage::None,
        is_kept_for_a_boot: false,
    };
    let known = sides.iter().find(is_it);
    let side = known.map_or(unknown, |(_, side)| *side);
    match judge(&side, found, false, || known.is_none()) {
        Err(refusal) => State::Stale(refusal.found),
        Ok(_) if mark.is_some_and(|mark| mark.state == MarkState::Open) => State::Open,
        Ok(_) => State::Whole,
    }
}

fn report_of(mark: &Mark) -> Value {
    let uuid: String = mark.pool.iter().map(|byte| format!("{byte:02x}")).collect();
    let report = json!({
        "pool": uuid,
        "volume": mark.volume,
        "generation": mark.generation,
        "open": mark.state == MarkState::Open,
        "since": utc(mark.since_unix_s),
        "since_unix_s": mark.since_unix_s,
        "boot": mark.boot,
        "survives_reboot": mark.survives_reboot,
    });
    json_path::with(report, "pool_path", &mark.pool_path)
}
