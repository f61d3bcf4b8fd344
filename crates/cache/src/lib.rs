//! A crash-consistent persistent-memory cache in front of disks and files.
//!
//! A [`Pool`] lives in byte-addressable memory that keeps its content, or on an SSD. A [`Volume`] is a disk or
//! file that it caches. A [`Transaction`] changes several blocks or a few bytes of a volume, all or
//! nothing, and is durable after one memory fence.
//!
//! # Durability
//! What `commit`, [`Volume::write`] and [`Volume::discard`] did is durable when they return, as far as the
//! pool's medium keeps it ([`MediaKind::survives`]); nothing else has to be called for that.
//! [`Volume::flush`] is about the backing alone. What creates, grows, attaches or detaches is durable when it
//! returns, too; options of a running pool are not kept.
//!
//! # Threads
//! A [`Pool`] and a [`Volume`] may be used by any threads at once. A [`Transaction`] stays with the thread that
//! began it: its data is ordered by that thread's fence.
//!
//! # Panics
//! A failed assertion is a bug of this crate. It may leave locks held, so that other threads wait for
//! ever, and in a commit it ends all writes to the pool ([`ErrorKind::Poisoned`]): a program that keeps data here
//! ends then (`panic = "abort"`, or a hook that aborts, as the daemon has) and opens the pool again, which
//! recovers as from a crash.
//!
//! # Sources
//! The folders of the sources are layers, the lowest first: `backing` and `media` are what data lies on, `log`
//! and `table` what is known of it, `policy` the choices that no correctness depends on, `recovery` and
//! `engine` the protocol of `docs/inside/protocol.md`, `background` what works behind the callers' backs,
//! `api` a pool in memory as programs see it, `ssd` one on an SSD, `facade` either of them.

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

/// The README's example must compile and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// So must that of the crate's own.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct CrateReadme;

mod api;
mod background;
mod backing;
mod engine;
mod error;
mod facade;
mod log;
mod marks;
mod media;
mod mutants;
mod options;
mod policy;
mod recovery;
mod repeatable;
mod signature;
mod ssd;
mod sync;
mod table;
mod tallies;
#[cfg(any(test, feature = "unstable-internals"))]
mod testing;

pub use api::extents::BlockState;
pub use api::pool::{
    DrainProgress, DrainWatcher, Member, MemberState, OpenBacking, RebuildOptions, ScrubOptions,
    ScrubProgress, Witness,
};
pub use api::stats::{SsdStats, Stats, VolumeStats};
pub use api::tuning::Tuning;
pub use api::usage::VolumeUsage;
pub use backing::{
    BACKING_BLOCK_BYTES, Backing, BackingCounters, BackingError, BackingIdentity, BackingRun,
    BackingStore, BackingWait, FailedDomains, FaultDomain, FaultyStore, FileBackingOptions,
    FileStore, MarkPlace, MemoryStore, WriteRun,
};
pub use engine::{RebuildProgress, RebuildWatcher, ScrubReport};
pub use error::{Error, ErrorKind, Result};
pub use facade::{Behind, Pool, Transaction, Volume};
pub use forebay_pmem::{
    Counters, EmulatedMedia, MediaKind, PersistenceDomain, Region, RegionOptions,
};
pub use options::{
    Medium, PoolOptions, Redundancy, ReplacementPolicy, RuntimeOptions, VerifyPolicy,
};
pub use recovery::RecoveryReport;
pub use tallies::TallySums;

/// What the other crates of this product share with the library: the marks of backings, how files of pools
/// are made, and whether faults are in the build. It follows their needs and promises nothing to others.
#[doc(hidden)]
pub mod internals {
    pub use crate::api::pool::new_region;
    pub use crate::api::volume::QueuedReads;
    pub use crate::backing::{
        AlignedBuffer, MarkFiles, TRUSTED_ATTRIBUTE, USER_ATTRIBUTE, file_of_pool, mark_folder,
    };
    pub use crate::engine::{Drill, DrillKind, DrillStrike};
    pub use crate::marks::{
        FoundMark, Mark, MarkState, PoolSide, Stage, StaleRefusal, classify, classify_file,
        classify_size, know_boot, new_pool_id, next_generation, utc,
    };
    pub use crate::media::areas::{MediumArea, test_member};
    pub use crate::media::superblock::holds_pool;
    pub use crate::ssd::is_ssd_pool;

    /// The faults of `mutants.rs`.
    pub mod mutants {
        #[cfg(feature = "mutants")]
        pub use crate::mutants::set;
        pub use crate::mutants::{IN_BUILD, Mutant};
    }
}

/// Looks into the library for the programs that verify and measure it. Only with the feature
/// `unstable-internals`, which no program that keeps data enables.
#[cfg(feature = "unstable-internals")]
pub mod unstable {
    pub use crate::policy::{journal, plan, replace};
    pub use crate::testing::*;
}
