//! What a keeper does with one region: leases while it is sealed, passes while a program has it.

use super::lease::{KeptLeases, Leases, check_alone};
use super::open::{LOCK_TRIES, PoolFiles, find, find_sidecars};
use crate::engine::{Alone, Engine, FirstPass, put_on_all};
use crate::error::{ErrorKind, Result};
use crate::format::{Line, Mark};
use crate::pool::DaxPool;
use crate::recover::{self, Permissions, Quick};
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
    /// A program holds the lock of an extent, as those of libpmemobj do, so that no pass can be made.
    Locked,
}

/// Seals a region that nobody has, or makes a pass over one that a program has. `is_watched`: the caller marked it open
/// itself, from a seal in order, and no process had it by the library since: what differs then was stored, and its end
/// needs no more order than that. `first`: what a pass takes; every page until one of this keeper has.
pub(crate) fn keep(pool: &DaxPool, name: &str, is_watched: bool, first: FirstPass) -> Result<Kept> {
    let found = match find(pool, name, 0) {
        Err(error) if matches!(error.kind(), ErrorKind::InUse { .. }) => {
            // The library locks the sidecars first.
            return Ok(match find_sidecars(pool, name, 0) {
                Ok(_) => Kept::Locked,
                Err(_) => Kept::InUse,
            });
        }
        found => found?,
    };
    let parts = found.iter().filter_map(|pair| pair.part.as_ref());
    let is_alone = parts.map(check_alone).all(|alone| alone.is_ok());
    if !is_alone {
        return pass(recover::quick(found, pool.uuid(), name)?, first).map(Kept::Open);
    }
    let files = PoolFiles::new(pool, name, &found);
    let quick = recover::quick(found, pool.uuid(), name)?;
    if quick.is_orderly {
        let mut leases = Leases::take(&quick.medium)?;
        if !quick.is_as_sealed()? {
            // Somebody had it for a moment before the lease.
            drop(leases);
            return pass(quick, first).map(Kept::Open);
        }
        return match leases.keep()? {
            Some(kept) => Ok(Kept::Sealed(kept, quick.line)),
            None => {
                drop(leases);
                pass(quick, first).map(Kept::Unleased)
            }
        };
    }
    match is_watched {
        true => drop(pass(quick, first)?),
        false => drop(quick),
    }
    // What ended without order is looked at as by any opening.
    let found = find(pool, name, LOCK_TRIES)?;
    let (medium, line) = recover::open(found, pool.uuid(), name, &files, Permissions::default())?;
    if Leases::take(&medium)?.keep()?.is_none() {
        return Ok(Kept::Unleased(line));
    }
    let kept = RefCell::new(None);
    let engine = Engine::new(
        medium,
        line.clone(),
        Box::new(CompareTracker),
        FirstPass::Compares,
    );
    let sealed = engine.seal(&|medium| {
        let mut leases = Leases::take(medium)?;
        *kept.borrow_mut() = leases.keep()?;
        Ok(Box::new(leases) as Box<dyn Alone>)
    })?;
    let line = Line {
        mark: Mark::Sealed,
        unverified_pages: sealed.unverified_pages,
        lost_pages: sealed.lost_pages,
        ..line
    };
    match kept.into_inner() {
        Some(kept) => Ok(Kept::Sealed(kept, line)),
        None => Ok(Kept::Unleased(line)),
    }
}

/// Over every page, of a region that a program has.
fn pass(quick: Quick, first: FirstPass) -> Result<Line> {
    let Quick {
        medium, mut line, ..
    } = quick;
    if line.mark == Mark::Sealed {
        line = line.next(Mark::Open);
        // Before a sum or a parity page changes, nothing believes the seal.
        put_on_all(&medium, &line)?;
    }
    let line = medium.tally(line.pass).told_by(line);
    let engine = Engine::new(medium, line, Box::new(CompareTracker), first);
    engine.pass()?;
    // The pass may have named some.
    let line = engine.line();
    Ok(engine.medium.tally(line.pass).told_by(line))
}

/// Somebody waits to open an extent of a sealed region: the mark `open` is durable when this returns, or the process that
/// waits sets it itself, which is false.
pub(crate) fn mark_wanted(pool: &DaxPool, name: &str) -> Result<bool> {
    match find_sidecars(pool, name, LOCK_TRIES) {
        // A process that locks the sidecars before it opens an extent is one of the library's.
        Err(error) if matches!(error.kind(), ErrorKind::InUse { .. }) => Ok(false),
        found => recover::mark_wanted(found?, pool.uuid(), name).map(|()| true),
    }
}
