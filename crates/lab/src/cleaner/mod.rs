//! The cleaner that every design of the papers can have: background threads that write dirty blocks back and
//! free room ahead of need, by the plan of Forebay's own (`forebay::unstable::plan`): the same two threads, the
//! same marks, batches, merging and depth. So a comparison with it is one of designs, and not of which of them
//! was given threads.
//!
//! What holds at every moment:
//!
//! * One round runs at a time, of a thread of the cleaner or of a client that lacks room, so the disk never has two
//!   writes of one block in flight.
//! * Nothing holds the engine's mutex while the disk is written or synced. A round picks its blocks under the
//!   mutex, copies each out under it, and has it again when the disk has all of them durably.
//! * A block that changed meanwhile stays dirty, and is not evicted: what the disk has is not its newest version.
//! * A client evicts nothing by itself: one that lacks room makes a round, or waits for the one in progress.
//!
//! How entries are changed on the medium, and in what order, is the engine's own.

mod level;
mod round;
mod stages;
#[cfg(test)]
mod tests;
mod threads;
mod wakeup;

pub(crate) use level::Level;
pub use level::Watermarks;
pub(crate) use round::{Cleanable, Cleaner, Goal, Picked, Settled, Standing};
pub(crate) use threads::with_threads;
