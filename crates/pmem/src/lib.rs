//! Byte-addressable persistent memory: mapped, persisted, counted, and crash-tested.
//!
//! A [`Region`] is a mapping of a DAX device, a DAX file, a file in /dev/shm or a plain file.
//! Bytes go in by cached stores ([`Region::store`]) or non-temporal ones ([`Region::stream`],
//! [`Region::stream_crc32c`], [`Region::stream_pair`] to two regions at once, and [`Region::stream_xor`]); they are durable
//! when [`Region::flush`] (cached stores only) and then [`Region::fence`], both called by the thread
//! that stored, have returned. What "durable" is worth depends on the medium:
//! [`MediaKind::survives`] says it in plain words.
//!
//! Every line flushed or streamed and every fence is counted ([`Counters`]): counts are exact
//! where times are noisy.
//!
//! Loads and stores of one place may race. Copies go through assembly or atomics, so a race
//! yields old and new bytes mixed, never undefined behaviour; the callers' checksums and versions
//! tell. A bad page of the medium (SIGBUS) becomes an error of the region, not a dead process.

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

/// The README's example must compile and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod arch;
mod copy;
mod counters;
mod crc;
mod emulation;
mod error;
mod fault_guard;
mod foreign;
mod lock;
mod map;
mod media_errors;
#[doc(hidden)]
pub mod mutants;
mod nameless;
mod options;
mod ownership;
mod parity;
mod polynomial;
mod region;
pub mod shadow;
pub mod yield_point;

pub use arch::{KERNEL_VARIABLE, Kernel, KernelError, prefetch};
pub use copy::append;
pub use counters::{Counters, THREAD_SHARDS, thread_counters, thread_shard};
pub use crc::{
    crc32c, crc32c_append, crc32c_append_line, crc32c_append_lines, crc32c_combine_delta,
};
pub use emulation::{EmulationPause, pause_emulation};
pub use error::{PmemError, PmemErrorKind};
pub use fault_guard::FaultGuard;
pub use foreign::Foreign;
pub use lock::lock_exclusively;
pub use map::extend;
// Hidden: for the command that makes pools.
#[doc(hidden)]
pub use nameless::{is_dax_file, nameless_beside};
pub use options::{EmulatedMedia, MediaKind, PersistenceDomain, RegionOptions};
pub use ownership::{Opening, open_own};
pub use parity::xor_into;
pub use region::{Line, Region};
pub use yield_point::{
    Pause, lock_or_yield, look_point, recheck_point, set_yield_hook, yield_point,
};

/// Bytes of a cache line: the unit of flushes, streams and [`Counters`].
pub const LINE_BYTES: usize = 64;

/// Bytes of a page of memory: the unit of media errors and of the page domain.
pub const PAGE_BYTES: usize = 4096;

/// Bytes of a huge page: mappings start at a multiple of it.
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// The largest pages that a fault is contained in.
const GIANT_PAGE_BYTES: usize = 1 << 30;
