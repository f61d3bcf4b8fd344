//! A crash-consistent persistent-memory cache in front of disks and files.
//!
//! A [`Pool`] lives in byte-addressable memory that keeps its content. A [`Volume`] is a disk or
//! file that it caches. A [`Transaction`] changes several blocks or a few bytes of a volume, all or
//! nothing, and is durable after one memory fence.
//!
//! A failed assertion is a bug of this crate. It may leave locks held, so that other threads wait for
//! ever, and in a commit it ends all writes to the pool ([`Error::Poisoned`]): a program that keeps data here ends then (`panic = "abort"`, or a hook that aborts, as the
//! daemon has) and opens the pool again, which recovers as from a crash.
//!
//! The folders of the sources are layers, the lowest first: `backing` and `media` are what data lies on, `log`
//! and `table` what is known of it, `policy` the choices that no correctness depends on, `recovery` and
//! `engine` the protocol of `docs/inside/protocol.md`, `background` what works behind the callers' backs,
//! `api` what programs call.

/// The README's example must compile and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

mod api;
mod background;
mod backing;
mod engine;
mod error;
mod log;
pub mod marks;
mod media;
pub mod mutants;
mod options;
mod policy;
mod recovery;
mod repeatable;
mod signature;
mod sync;
mod table;
mod tallies;
#[doc(hidden)]
pub mod testing;

pub use api::extents::BlockState;
pub use api::pool::{DrainProgress, DrainWatcher, OpenBacking, Pool, new_region};
pub use api::stats::{Stats, VolumeStats};
pub use api::transaction::Transaction;
pub use api::tuning::Tuning;
pub use api::usage::VolumeUsage;
pub use api::volume::Volume;
pub use backing::*;
pub use error::{Error, Result};
#[doc(hidden)]
pub use forebay_pmem::define_mutants as mutants;
pub use forebay_pmem::{
    Counters, EmulatedMedia, MediaKind, PersistenceDomain, Region, RegionOptions,
};
pub use media::superblock::holds_pool;
pub use options::{FormatOptions, PoolOptions, ReplacementPolicy, RuntimeOptions, VerifyPolicy};
pub use policy::{journal, replace};
pub use recovery::RecoveryReport;
pub use tallies::TallySums;
