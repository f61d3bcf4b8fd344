//! What the daemon serves disks of: a pool of Forebay's own, or one published design over one disk.
//!
//! Front ends, requests, the orderly end and recovery are the same for both. Disks that come and go,
//! settings, faults and the live view are a pool's alone, and refused by name for the others.

use std::path::PathBuf;
use std::sync::Arc;

use forebay::{Pool, Volume};
use forebay_lab::Engine;
use forebay_lab::engines::EngineName;
use forebay_serve::{Refusal, RefusalKind};

use crate::config::Settings;
use crate::engine_region;
use forebay_command::Failure;
use forebay_command::Trust;

/// Where the disks live.
pub enum Store {
    /// A pool: any number of disks.
    Pool(Arc<Pool>),
    /// A published design: one disk, from the start to the end.
    Design(Design),
}

/// A published design over its disk.
pub struct Design {
    /// Which one.
    pub name: EngineName,
    /// The disk behind it.
    pub backing: PathBuf,
    /// The region it is on.
    pub region: PathBuf,
    /// Whose region is taken.
    pub trust: Trust,
    /// The engine.
    pub engine: Arc<dyn Engine>,
}

/// What is behind one disk.
pub enum Core {
    /// A volume of the pool.
    Volume(Volume),
    /// A design, which has one disk.
    Engine(EngineName, Arc<dyn Engine>),
}

impl Core {
    /// The volume of the pool.
    ///
    /// Errors: a design has none.
    pub fn volume(&self) -> Result<&Volume, Refusal> {
        match self {
            Core::Volume(volume) => Ok(volume),
            Core::Engine(name, _) => Err(not_a_pool(*name)),
        }
    }
}

impl Design {
    /// To be called when it is no longer used. What is dirty stays in its region; without anything dirty the
    /// disk is whole.
    ///
    /// Errors: the disk or its mark failed; the next start finds everything.
    pub fn end(self) -> Result<(), Failure> {
        let Design {
            backing,
            region,
            trust,
            engine,
            ..
        } = self;
        if engine.stats().dirty_blocks > 0 {
            return Ok(());
        }
        engine.flush()?;
        if Arc::strong_count(&engine) > 1 {
            return Ok(());
        }
        // Its region and its disk are locked while it is there.
        drop(engine);
        engine_region::end((&region, trust), &backing)
    }
}

impl Store {
    /// Opens the published design that the settings name, and recovers it.
    ///
    /// Errors: the region or the backing cannot be opened, or do not belong together.
    pub fn open_design(
        name: EngineName,
        settings: &Settings,
        accepts_stale: bool,
    ) -> Result<Store, Failure> {
        let [volume] = &settings.volumes()?[..] else {
            return Err(Failure::Arguments(format!(
                "the engine {name} serves exactly one disk; name it with --backing"
            )));
        };
        let region = &settings.pool[0];
        let trust = Trust {
            trust_owner: settings.trust_owner,
        };
        let (engine, backing) =
            engine_region::open(name, (region, trust), &volume.backing, accepts_stale)?;
        Ok(Store::Design(Design {
            name,
            backing,
            region: region.clone(),
            trust,
            engine,
        }))
    }

    /// The pool.
    ///
    /// Errors: a design has none.
    pub fn pool(&self) -> Result<&Arc<Pool>, Refusal> {
        match self {
            Store::Pool(pool) => Ok(pool),
            Store::Design(design) => Err(not_a_pool(design.name)),
        }
    }

    /// Whether a medium that failed has ended all writing. A design does not say; its requests do.
    pub fn is_poisoned(&self) -> bool {
        match self {
            Store::Pool(pool) => pool.stats().poisoned,
            Store::Design(_) => false,
        }
    }
}

/// What only a pool can do was asked of a design.
fn not_a_pool(name: EngineName) -> Refusal {
    Refusal::new(
        RefusalKind::Invalid,
        format!(
            "the daemon serves the engine {name}, which knows stat, front-ends and flush; disks that come \
             and go, settings, faults and the live view belong to the engine forebay"
        ),
    )
}

/// Refuses settings that say nothing to a published design, rather than ignore them.
///
/// Errors: the first of them, by name.
pub fn check_design_settings(name: EngineName, settings: &Settings) -> Result<(), Failure> {
    let has_more = settings.pool.len() > 1;
    let own = [
        ("a second --pool", has_more),
        ("--dirty-low", settings.dirty_low.is_some()),
        ("--dirty-high", settings.dirty_high.is_some()),
        ("--flush-rate", settings.flush_rate.is_some()),
        ("--verify", settings.verify.is_some()),
        ("--replacement", settings.replacement.is_some()),
        ("--defer-journal", settings.defer_journal.is_some()),
        ("--share-duplicates", settings.share_duplicates.is_some()),
        ("--compare-writes", settings.compare_writes.is_some()),
    ];
    match own.iter().find(|(_, is_set)| *is_set) {
        Some((setting, _)) => Err(Failure::Arguments(format!(
            "{setting} belongs to the engine forebay; the engine {name} has nothing of the kind, leave \
             it out"
        ))),
        None => Ok(()),
    }
}
