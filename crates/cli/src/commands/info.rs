//! `forebay info`: what an idle pool holds, or whether a backing has its newest data. Nothing is changed:
//! a pool is opened on a private copy.

use std::ffi::OsString;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use forebay::internals::{
    FoundMark, Mark, MarkFiles, MarkState, PoolSide, Stage, StaleRefusal, classify, classify_file,
    classify_size, utc,
};
use forebay::{BackingIdentity, MarkPlace, Pool, RegionOptions};
use forebay_command::{Failure, json_path, output};
use forebay_files::VOLUME_PREFIX;
use serde_json::{Value, json};

use crate::arguments::{InfoOptions, Opening};
use crate::{idle_pool, pool_report};

/// Shows the pool, or the backing.
pub fn run(options: &InfoOptions) -> Result<(), Failure> {
    if let Some(backing) = &options.backing {
        return show_backing(backing, options);
    }
    output::object(&report(&options.pool, options.opening)?, options.json);
    Ok(())
}

/// What is shown of a pool.
pub fn report(given: &[PathBuf], opening: Opening) -> Result<Value, Failure> {
    let pool = idle_pool::open_private(given, opening)?;
    let mut report = pool_report::stat(&pool, given);
    report["survives"] = pool.survives().into();
    report["recovery"] = pool_report::recovery(&pool);
    Ok(report)
}

/// How a backing stands.
enum State {
    /// It has everything, as far as is known.
    Whole,
    /// Its pool is there and has the rest.
    Open,
    /// Why it has not, and where the rest is not.
    Stale(String),
}

impl State {
    /// How a backing stands that has two pools in front of it, one in front of the other.
    fn and(self, other: State) -> State {
        match (self, other) {
            (State::Stale(why), _) | (_, State::Stale(why)) => State::Stale(why),
            (State::Whole, State::Whole) => State::Whole,
            _ => State::Open,
        }
    }
}

fn show_backing(backing: &Path, options: &InfoOptions) -> Result<(), Failure> {
    let named = |error: std::io::Error| Failure::Failed(format!("{}: {error}", backing.display()));
    let path = std::fs::canonicalize(backing).map_err(named)?;
    let place = MarkFiles::of_path(&path).map_err(named)?;
    let found = FoundMark::of(&place.read().map_err(named)?);
    let front = FoundMark::of(&place.in_front().read().map_err(named)?);
    let identity = identity_of(path.clone()).map_err(named)?;
    let region = options.opening.trust.region();
    // The pool that is named may be the one in front.
    let names_front = is_pool_of(&front, &options.pool, &region);
    let is_open = |mark: &Mark| mark.state == MarkState::Open;
    let has_front = names_front || front == FoundMark::Damaged || front.mark().is_some_and(is_open);
    let behind = match names_front {
        true => &[],
        false => options.pool.as_slice(),
    };
    let mut state = state_of(&identity, &found, behind, &region);
    if has_front {
        state = state.and(state_of(&identity, &front, &[], &region));
    }
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
        if has_front {
            report["front_mark"] = front.mark().map_or(Value::Null, report_of);
        }
        output::object(&report, true);
    } else {
        let since = since.filter(|_| why.is_some());
        output::line(&since.map_or(word.to_owned(), |since| format!("{word} since {since}")));
    }
    if found == FoundMark::None && options.pool.is_empty() {
        output::note(&format!(
            "{} has no mark, so that no pool is known to compare it with; if it ever had one, name the pool: \
             forebay info POOL --backing {}",
            path.display(),
            path.display()
        ));
    }
    match state {
        State::Stale(why) => Err(Failure::Stale(format!("{}: {why}", path.display()))),
        State::Whole | State::Open => Ok(()),
    }
}

/// Which file, device or directory has this path; a directory has no size of its own.
fn identity_of(path: PathBuf) -> io::Result<BackingIdentity> {
    let metadata = std::fs::metadata(&path)?;
    let is_device = metadata.file_type().is_block_device();
    let size_bytes = match is_device {
        true => std::fs::File::open(&path)?.seek(SeekFrom::End(0))?,
        false => metadata.len(),
    };
    let inode = if is_device { 0 } else { metadata.ino() };
    Ok(BackingIdentity {
        path,
        inode,
        size_bytes,
    })
}

/// Whether a mark names this pool.
fn is_pool_of(found: &FoundMark, pool: &[PathBuf], region: &RegionOptions) -> bool {
    let Some(mark) = found.mark() else {
        return false;
    };
    let (present, _) = idle_pool::split(pool);
    let sides = Pool::sides(&present, region);
    sides.is_ok_and(|sides| sides.iter().any(|(_, side)| side.pool == mark.pool))
}

fn state_of(
    identity: &BackingIdentity,
    found: &FoundMark,
    named: &[PathBuf],
    region: &RegionOptions,
) -> State {
    if *found == FoundMark::Damaged {
        return State::Stale(String::from("its mark is damaged, or of a later version"));
    }
    let mark = found.mark();
    let is_open = mark.is_some_and(|mark| mark.state == MarkState::Open);
    let is_named = !named.is_empty();
    let pool = match (is_named, mark) {
        (true, _) => named.to_vec(),
        (false, Some(mark)) => vec![mark.pool_path.clone()],
        (false, None) => return State::Whole,
    };
    let (present, _) = idle_pool::split(&pool);
    let sides = match Pool::sides(&present, region) {
        Ok(sides) => sides,
        // Any new pool may have it.
        Err(_) if !is_named && !is_open => return State::Whole,
        Err(error) => return State::Stale(format!("its pool cannot be looked at: {error}")),
    };
    match classify_sides(&sides, identity, found) {
        Err(refusal) => State::Stale(refusal.found),
        Ok(()) if is_open => State::Open,
        Ok(()) => State::Whole,
    }
}

/// What an attach to the pool would say. It finds the volume by its name, which of a directory has a prefix.
fn classify_sides(
    sides: &[(BackingIdentity, PoolSide)],
    identity: &BackingIdentity,
    found: &FoundMark,
) -> Result<(), StaleRefusal> {
    let mut of_directory = OsString::from(VOLUME_PREFIX);
    of_directory.push(&identity.path);
    let is_disk = |(known, _): &&(BackingIdentity, PoolSide)| known.path == identity.path;
    if let Some((known, _)) = sides.iter().find(is_disk) {
        classify_size(known, identity)?;
        classify_file(known, identity)?;
    }
    let known = sides
        .iter()
        .find(|side| is_disk(side) || side.0.path.as_os_str() == of_directory);
    let unknown = PoolSide {
        pool: sides.first().map_or([0; 16], |(_, side)| side.pool),
        volume: 0,
        generation: 0,
        stage: Stage::None,
        is_kept_for_a_boot: false,
    };
    let side = known.map_or(unknown, |(_, side)| *side);
    classify(&side, found, false, || known.is_none()).map(|_| ())
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
