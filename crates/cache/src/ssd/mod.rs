//! Pools on an SSD: a log of segments ([`forebay_log`]) with its volumes, each in front of its backing.
//!
//! What holds: a commit that returned is durable in the log; nothing is read that is not; what is let go of is on its backing, synced;
//! a volume's row on the device and the mark beside its backing are written in the order of `docs/inside/marks.md`. A writer that finds
//! no room waits for the one thread that writes back and recycles, which is woken and holds nothing that a writer needs. Volumes may
//! outlive the pool: every call looks first whether the log is still open, and keeps it open for as long as it runs.

mod attach;
mod background;
mod behind;
mod detach;
mod drain;
mod errors;
mod fill_queue;
mod fills;
#[cfg(test)]
mod gate_tests;
mod grow_volume;
mod known;
mod looks;
mod marks;
mod members;
mod pool;
mod reads;
mod replace;
mod room;
mod settling;
mod shared;
mod states;
mod stats;
mod transaction;
mod usual;
mod volume;
#[cfg(test)]
mod watcher_tests;
mod work;

pub use looks::is_ssd_pool;
pub(crate) use looks::{identity, sides};
pub(crate) use pool::SsdPool;
pub(crate) use transaction::SsdTransaction;
pub(crate) use usual::usual_medium;
pub(crate) use volume::SsdVolume;
