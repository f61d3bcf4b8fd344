//! The engines by name.

mod classic;
mod forebay_engine;
mod options;
mod spindle;
#[cfg(test)]
mod tests;
mod tinca;
mod ubj;

use crate::Engine;
use forebay::internals::PoolSide;
use forebay::{Backing, Region, Result};

pub use crate::engine_name::EngineName;
use crate::shared::{Header, marks};
pub use options::{EngineOptions, JournalMode, Watermarks};

/// Which paper's engine a region holds, by its header; none for anything else, a pool of Forebay's own
/// among it.
#[must_use]
pub fn found_on(region: &Region) -> Option<EngineName> {
    Header::engine_on(region)
}

/// What a region with a paper's engine says of its disk; none for a region without a mark.
#[must_use]
pub fn side_on(region: &Region) -> Option<PoolSide> {
    marks::side_on(region)
}

/// Whether a new engine may have the disk, before anything makes room for it.
///
/// # Errors
/// The disk's newest data is elsewhere; its mark cannot be read.
pub fn check_new(backing: &Backing) -> Result<()> {
    marks::check_new(backing)
}

/// The engine that `region` holds is no longer in use and was flushed: the disk is whole, and its mark
/// says so.
///
/// # Errors
/// The disk or the medium failed; the engine alone may go on with the disk then.
pub fn end(region: &Region, backing: &Backing) -> Result<()> {
    marks::end(region, backing)
}

/// Makes an empty engine on `region`, whatever that holds, in front of `backing`.
///
/// # Errors
/// The options do not fit the region; the disk's newest data is elsewhere; the medium or the backing
/// failed.
pub fn create(
    name: EngineName,
    region: Region,
    backing: Backing,
    options: &EngineOptions,
) -> Result<Box<dyn Engine>> {
    if name == EngineName::Forebay {
        return forebay_engine::create(region, backing, options);
    }
    let disk = backing.clone();
    let begun = marks::begin(&region, &disk, true, options.accept_stale)?;
    let made = create_unmarked(name, region, backing, options);
    if let (Err(_), Some(begun)) = (&made, begun) {
        begun.take_back();
    }
    made
}

fn create_unmarked(
    name: EngineName,
    region: Region,
    backing: Backing,
    options: &EngineOptions,
) -> Result<Box<dyn Engine>> {
    match name {
        EngineName::Classic => classic::create(region, backing, options),
        EngineName::Ubj => ubj::create(region, backing, options),
        EngineName::Tinca => tinca::create(region, backing, options),
        EngineName::Spindle => spindle::create(region, backing, options),
        EngineName::Forebay => forebay_engine::create(region, backing, options),
    }
}

/// Recovers the engine that `region` holds, as a crash or an orderly end left it.
///
/// # Errors
/// The region holds no such engine, or one over another disk; the disk's newest data is elsewhere; the
/// medium or the backing failed.
pub fn open(
    name: EngineName,
    region: Region,
    backing: Backing,
    options: &EngineOptions,
) -> Result<Box<dyn Engine>> {
    if name != EngineName::Forebay {
        // First whether it is its disk at all: the mark of another one is not to be touched.
        Header::read(&region, name, &backing)?;
        marks::begin(&region, &backing, false, options.accept_stale)?;
    }
    match name {
        EngineName::Classic => classic::open(region, backing, options),
        EngineName::Ubj => ubj::open(region, backing, options),
        EngineName::Tinca => tinca::open(region, backing, options),
        EngineName::Spindle => spindle::open(region, backing, options),
        EngineName::Forebay => forebay_engine::open(region, backing, options),
    }
}
