//! The cleaner that every design of the papers can have: background threads that write dirty blocks back and
//! free room ahead of need, by the plan of Forebay's own (`forebay::unstable::plan`): a flusher and a reclaimer, with the
//! same marks, batches, merging and depth as Forebay's threads of these names. So far a comparison with it is one of designs, and
//! not of which of them was given threads.
//!
//! Forebay has a third, the checkpointer, which flushes the lines of its table, so that no client does. None of the designs gets
//! such a one: Tinca and Spindle have no checkpoints, UBJ's are rounds of the cleaner, and those of Classic's journal stay in the
//! client. What Forebay's takes off its client is in times, not in counts.
//!
//! What holds at every moment:
//!
//! * One round runs at a time, of a thread of the cleaner or of a client that lacks room, so the disk never has two
//!   writes of one block in flight.
//! * Nothing holds the engine's mutex while blocks are copied out or the disk is written or synced. A round picks its blocks
//!   under the mutex, asks under it whether they changed while they were copied, and has it again when the disk has all of
//!   them durably. Under it a block is copied only if a client wrote it just then, one at a time.
//! * A block that changed meanwhile stays dirty, and is not evicted: what the disk has is not its newest version.
//! * A block counts on the disk only after a sync that began after its write and succeeded, and so did all writes of its round.
//!   After a failure all of the round are dirty as before, and are written again; what earlier rounds made clean is not.
//! * Once a fence failed nothing is written to the disk any more, and the threads end.
//! * A client evicts nothing by itself: one that lacks room makes a round, or waits for the one in progress.
//!
//! How entries are changed on the medium, and in what order, is the engine's own.

mod health;
mod level;
mod picked;
mod round;
mod stages;
#[cfg(test)]
mod tests;
mod threads;
mod wakeup;

pub(crate) use level::Level;
pub use level::Watermarks;
pub(crate) use picked::{Goal, Picked, Portion, Settled, Standing, have_changed};
pub(crate) use round::{Cleanable, Cleaner};
pub(crate) use threads::with_threads;
