//! The region of a published design, made with `forebay create --engine` and served with
//! `forebay serve --engine`: how both go about it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay::{Backing, MediaKind, Region};
use forebay_lab::Engine;
use forebay_lab::engines::{self, EngineName, EngineOptions, JournalMode};

use forebay_command::Failure;
use forebay_command::Trust;

/// What the designs are served with.
fn options(accept_stale: bool) -> EngineOptions {
    EngineOptions {
        // The file system on the disk brings its own journal; a second one beneath it is in no paper.
        journal_mode: JournalMode::None,
        accept_stale,
        ..EngineOptions::default()
    }
}

/// Makes an empty cache of the disk behind `backing` on a new region of `size_bytes`. What exists
/// there is overwritten with `force` only.
///
/// Errors: something is there already; the sizes do not fit; no room. A file that was made for it is
/// removed again.
pub fn create(
    name: EngineName,
    region: &Path,
    size_bytes: u64,
    (force, trust): (bool, Trust),
    backing: &Path,
    accepts_stale: bool,
) -> Result<(Box<dyn Engine>, MediaKind), Failure> {
    let backing = open_backing(backing)?;
    if !accepts_stale {
        // Before a file that `force` replaces is gone.
        engines::check_new(&backing)?;
    }
    let made = forebay::new_region(region, size_bytes, force, &trust.region())?;
    let (is_file, kind) = (region.is_file(), made.kind());
    let options = options(accepts_stale);
    let engine = engines::create(name, made, backing, &options).map_err(|error| {
        if is_file {
            // The caller gets the first error, not this one's.
            let _ = std::fs::remove_file(region);
        }
        Failure::from(error)
    })?;
    Ok((engine, kind))
}

/// Opens the cache that a region holds, and recovers it; also says where the disk behind it is.
///
/// Errors: the region holds something else, or the cache of another disk; it is in use.
pub fn open(
    name: EngineName,
    (region, trust): (&Path, Trust),
    backing: &Path,
    accepts_stale: bool,
) -> Result<(Arc<dyn Engine>, PathBuf), Failure> {
    // The region first: where both are in use, its error names the process that serves them.
    let region = Region::open(region, &trust.region()).map_err(forebay::Error::from)?;
    let backing = open_backing(backing)?;
    let path = backing.identity().path;
    let engine = engines::open(name, region, backing, &options(accepts_stale))?;
    Ok((engine.into(), path))
}

/// The daemon ends, and nothing is dirty in the design on `region`: the disk is whole, and says so.
///
/// Errors: the disk, its mark or the region failed; they are as after a crash.
pub fn end((region, trust): (&Path, Trust), backing: &Path) -> Result<(), Failure> {
    let region = Region::open(region, &trust.region()).map_err(forebay::Error::from)?;
    Ok(engines::end(&region, &open_backing(backing)?)?)
}

/// Why a pool could not be opened, in better words where the published designs explain it: what `path`
/// holds is one of theirs.
pub fn explain(error: forebay::Error, path: &Path, trust_owner: bool) -> Failure {
    let is_refused = matches!(error, forebay::Error::Refused { .. });
    let region = is_refused
        .then(|| Region::open_read_only_with(path, &Trust { trust_owner }.region()).ok())
        .flatten();
    match region.as_ref().and_then(engines::found_on) {
        Some(design) => Failure::Damaged(format!(
            "{}: it is no pool but a cache of the engine {design}; serve it with `forebay serve --engine \
             {design}`",
            path.display()
        )),
        None => error.into(),
    }
}

/// The disk behind.
///
/// Errors: it cannot be opened, or does not have whole blocks, which are all that the designs know.
fn open_backing(path: &Path) -> Result<Backing, Failure> {
    let backing = Backing::file(path)?;
    let (size_bytes, block_bytes) = (backing.size_bytes(), options(false).block_bytes as u64);
    if size_bytes == 0 || !size_bytes.is_multiple_of(block_bytes) {
        return Err(Failure::Failed(format!(
            "{} has {size_bytes} bytes, and the published designs cache whole blocks of \
             {block_bytes} only; give it whole ones with truncate, or use the engine forebay",
            path.display()
        )));
    }
    Ok(backing)
}
