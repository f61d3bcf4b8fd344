//! A crash-consistent persistent-memory cache in front of disks and files.
//!
//! A [`Pool`] lives in byte-addressable memory that keeps its content. A [`Volume`] is a disk or
//! file that it caches. A [`Transaction`] changes several blocks or a few bytes of a volume, all or
//! nothing, and is durable after one memory fence.
//!
//! A failed assertion is a bug of this crate. It may leave locks held, so that other threads wait for
//! ever: a program that keeps data here ends then (`panic = "abort"`, or a hook that aborts, as the
//! daemon has) and opens the pool again, which recovers as from a crash.
//!
//! The reading order of the sources is that of the pages in `docs/`: `layout` and `geometry` say
//! what lies on the media, `commit`, `checkpoint` and `recovery` are the protocol of
//! `docs/commit-and-recovery.md`, everything else serves them.

/// The README's example must compile and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

mod backing;
mod change;
mod checkpoint;
mod commit;
mod content;
mod core;
mod engine;
mod entry;
mod error;
mod extents;
mod faults;
mod geometry;
mod health;
mod incarnation;
mod index;
pub mod journal;
mod lanes;
mod layout;
mod live;
mod maintenance;
pub mod marks;
mod media;
pub mod mutants;
mod options;
mod pace;
mod pins;
mod pipeline;
mod plan;
mod pool;
mod queue;
mod reclaim;
mod record;
mod recovery;
pub mod replace;
mod slots;
mod stats;
mod superblock;
mod sync;
#[doc(hidden)]
pub mod testing;
mod transaction;
mod tuning;
mod volume;
mod volumes;
mod wakeup;
mod word_set_queue;
mod workspace;
mod writeback;
mod zeroings;

pub use backing::*;
pub use engine::{Engine, EngineStats, EngineTransaction};
pub use error::{Error, Result};
pub use extents::BlockState;
#[doc(hidden)]
pub use forebay_pmem::define_mutants as mutants;
pub use forebay_pmem::{
    Counters, EmulatedMedia, MediaKind, PersistenceDomain, Region, RegionOptions,
};
pub use maintenance::VolumeUsage;
pub use options::{FormatOptions, PoolOptions, ReplacementPolicy, RuntimeOptions, VerifyPolicy};
pub use pool::{DrainProgress, DrainWatcher, OpenBacking, Pool, new_region};
pub use recovery::RecoveryReport;
pub use stats::{Stats, TallySums, VolumeStats};
pub use transaction::Transaction;
pub use tuning::Tuning;
pub use volume::Volume;
