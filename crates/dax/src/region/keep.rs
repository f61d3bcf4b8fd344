//! What a keeper does with one region: leases while it is sealed, passes while a program has it.

use super::lease::{KeptLeases, Leases, check_alone};
use super::open::{LOCK_TRIES, PoolFiles, find, find_sidecars};
use crate::engine::{Alone, Engine, put_lines};
use crate::error::{ErrorKind, Result};
use crate::format::Line;
use crate::pool::DaxPool;
use crate::recover::{self, Permissions, Quick};
use crate::report::RegionState;
use crate::track::CompareTracker;
use std::cell::RefCell;

/// How a keeper left a region.
#[derive(Debug)]
pub(crate) enum Kept {
    /// It is sealed, and whoever opens it waits for the keeper.
    Sealed(KeptLeases, Line),
    /// A program has it: a pass was made.
    Open(Line),
    /// It cannot be leased here: it is open for good, and a pass was made.
    Unleased(Line),
    /// A process that has it by the library does all itself.
    InUse,
}

/// Seals a region that nobody has, or makes a pass over one that a program has.
pub(crate) fn keep(pool: &DaxPool, name: &str) -> Result<Kept> {
    let found = match find(pool, name, 0) {
        Err(error) if matches!(error.kind(), ErrorKind::InUse { .. }) => return Ok(Kept::InUse),
        found => found?,
    };
    let parts = found.iter().filter_map(|pair| pair.part.as_ref());
    let is_alone = parts.map(check_alone).all(|alone| alone.is_ok());
    if !is_alone {
        return pass(recover::quick(found, pool.uuid(), name)?).map(Kept::Open);
    }
    let files = PoolFiles::new(pool, name, &found);
    let quick = recover::quick(found, pool.uuid(), name)?;
    if quick.is_orderly {
        let mut leases = Leases::take(&quick.medium)?;
        return match leases.keep()? {
            Some(kept) => Ok(Kept::Sealed(kept, quick.line)),
            None => {
                drop(leases);
                pass(quick).map(Kept::Unleased)
            }
        };
    }
    drop(quick);
    // What ended without order is looked at as by any opening.
    let found = find(pool, name, LOCK_TRIES)?;
    let (medium, line) = recover::open(found, pool.uuid(), name, &files, Permissions::default())?;
    if Leases::take(&medium)?.keep()?.is_none() {
        return Ok(Kept::Unleased(line));
    }
    let kept = RefCell::new(None);
    let engine = Engine::new(medium, line.clone(), Box::new(CompareTracker), true);
    let sealed = engine.seal(&|medium| {
        let mut leases = Leases::take(medium)?;
        *kept.borrow_mut() = leases.keep()?;
        Ok(Box::new(leases) as Box<dyn Alone>)
    })?;
    let line = Line {
        generation: sealed.generation,
        state: RegionState::Sealed,
        ..line
    };
    match kept.into_inner() {
        Some(kept) => Ok(Kept::Sealed(kept, line)),
        None => Ok(Kept::Unleased(line)),
    }
}

/// Over every page, of a region that a program has.
fn pass(quick: Quick) -> Result<Line> {
    let Quick {
        medium, mut line, ..
    } = quick;
    if line.state == RegionState::Sealed {
        line.generation += 1;
        line.state = RegionState::Open;
        // Before a sum or a parity page changes, nothing believes the seal.
        put_lines(&medium, &line)?;
    }
    line.pass = medium.newest_pass(line.pass);
    let engine = Engine::new(medium, line, Box::new(CompareTracker), true);
    engine.pass()?;
    Ok(engine.line())
}

/// Somebody waits to open an extent of a sealed region: the mark `open` is durable when this returns, or the process that
/// waits sets it itself.
pub(crate) fn mark_wanted(pool: &DaxPool, name: &str) -> Result<()> {
    match find_sidecars(pool, name, LOCK_TRIES) {
        // A process that locks the sidecars before it opens an extent is one of the library's.
        Err(error) if matches!(error.kind(), ErrorKind::InUse { .. }) => Ok(()),
        found => recover::mark_wanted(&found?, pool.uuid(), name),
    }
}
