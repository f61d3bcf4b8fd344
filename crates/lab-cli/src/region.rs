//! The region that a published design has for its memory: made, opened, and left in order. A pool of Forebay
//! is never overwritten, nor taken for one, unless Forebay is asked for by name.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay::{Backing, MediaKind, Pool, Region, RuntimeOptions};
use forebay_command::{Failure, Trust};
use forebay_lab::Engine;
use forebay_lab::engines::{self, EngineName, EngineOptions, JournalMode, Watermarks};

use crate::delays::{DelayOptions, Delays};

/// What the designs are served with.
fn options(accept_stale: bool, has_cleaner: bool) -> EngineOptions {
    EngineOptions {
        // The file system on the disk brings its own journal; a second one beneath it is in no paper.
        journal_mode: JournalMode::None,
        cleaner: has_cleaner.then(Watermarks::default),
        accept_stale,
        ..EngineOptions::default()
    }
}

/// Makes an empty cache of the disk behind `backing` on a new region of `size_bytes`. What exists
/// there is overwritten with `force` only, and a pool of Forebay not even then.
///
/// # Errors
/// Something is there already; the sizes do not fit; no room. A file that was made for it is removed
/// again.
pub fn create(
    name: EngineName,
    region: &Path,
    size_bytes: u64,
    (force, trust): (bool, Trust),
    backing: &Path,
    accepts_stale: bool,
) -> Result<(Box<dyn Engine>, MediaKind), Failure> {
    refuse_pool(
        region,
        trust,
        "name another file for the engine's memory; if the pool is not needed any more, remove it first",
    )?;
    let backing = open_backing(backing)?;
    if !accepts_stale {
        // Before a file that `force` replaces is gone.
        engines::check_new(&backing)?;
    }
    let made = forebay::internals::new_region(region, size_bytes, force, &trust.region())?;
    let (is_file, kind) = (region.is_file(), made.kind());
    let options = options(accepts_stale, false);
    let engine = engines::create(name, made, backing, &options).map_err(|error| {
        if is_file {
            // The caller gets the first error, not this one's.
            let _ = std::fs::remove_file(region);
        }
        Failure::from(error)
    })?;
    Ok((engine, kind))
}

/// A cache that is open.
pub struct Opened {
    /// Which design it is.
    pub name: EngineName,
    /// The cache.
    pub engine: Arc<dyn Engine>,
    /// Where the disk behind it is.
    pub backing: PathBuf,
    /// How slow both are made.
    pub delays: Delays,
}

/// How a cache is opened.
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    /// Of this design, if one is asked for.
    pub name: Option<EngineName>,
    /// Although the disk's newest data is elsewhere.
    pub accept_stale: bool,
    /// With the cleaner that all designs have in common.
    pub has_cleaner: bool,
    /// As slow as these.
    pub delays: DelayOptions,
}

/// Opens the cache that a region holds, and recovers it.
///
/// # Errors
/// The region holds something else, or the cache of another disk; it is in use.
pub fn open(
    asked: OpenOptions,
    (path, trust): (&Path, Trust),
    backing: &Path,
) -> Result<Opened, Failure> {
    if asked.name != Some(EngineName::Forebay) {
        refuse_pool(
            path,
            trust,
            "serve it with forebay serve, or with --engine forebay; forebay-lab create makes the memory of an engine",
        )?;
    }
    // The region first: where both are in use, its error names the process that serves them.
    let slow = trust.region().media(asked.delays.memory_delay);
    let region = Region::open(path, &slow).map_err(forebay::Error::from)?;
    let name = asked.name;
    let name = name.or_else(|| engines::found_on(&region)).ok_or_else(|| {
        Failure::Damaged(format!(
            "{}: it is no cache of a published design; make one with forebay-lab create",
            path.display()
        ))
    })?;
    let (disk, delays) = asked.delays.slow(open_backing(backing)?);
    let backing = disk.identity().path;
    let options = options(asked.accept_stale, asked.has_cleaner);
    let engine = engines::open(name, region, disk, &options)?.into();
    Ok(Opened {
        name,
        engine,
        backing,
        delays,
    })
}

/// # Errors
/// A pool of Forebay is there, which is left as it is; `todo` says what to do instead.
fn refuse_pool(path: &Path, trust: Trust, todo: &str) -> Result<(), Failure> {
    // What cannot be looked at is refused by what comes next.
    let found = Region::open_read_only_with(path, &trust.region()).ok();
    match found.as_ref().is_some_and(forebay::internals::holds_pool) {
        true => Err(Failure::Damaged(format!(
            "{}: it is a pool of Forebay; {todo}",
            path.display()
        ))),
        false => Ok(()),
    }
}

/// The daemon ends, and nothing is dirty in the design `name` on `region`: the disk is whole, and says so.
///
/// # Errors
/// The disk, its mark or the region failed; they are as after a crash.
pub fn end(
    name: EngineName,
    (region, trust): (&Path, Trust),
    backing: &Path,
) -> Result<(), Failure> {
    let region = Region::open(region, &trust.region()).map_err(forebay::Error::from)?;
    let backing = open_backing(backing)?;
    if name == EngineName::Forebay {
        let pool = Pool::open_on(vec![region], RuntimeOptions::default())?;
        let _volume = pool.attach(backing)?;
        return Ok(pool.close()?);
    }
    Ok(engines::end(&region, &backing)?)
}

/// The disk behind.
///
/// # Errors
/// It cannot be opened, or does not have whole blocks, which are all that the designs know.
fn open_backing(path: &Path) -> Result<Backing, Failure> {
    let backing = Backing::file(path)?;
    let block_bytes = EngineOptions::default().block_bytes as u64;
    let size_bytes = backing.size_bytes();
    if size_bytes == 0 || !size_bytes.is_multiple_of(block_bytes) {
        return Err(Failure::Failed(format!(
            "{} has {size_bytes} bytes, and the published designs cache whole blocks of \
             {block_bytes} only; give it whole ones with truncate",
            path.display()
        )));
    }
    Ok(backing)
}
