//! A device made of two: what is written is on both before it is acknowledged, and one that dies is gone on without.
//!
//! What holds: whatever a write or a flush returned for is durable, or written, on every member that is served, or a roster that
//! leaves the other one out is durable on the one that is left. So a member that the newest roster calls in has everything.
//! The rules, the changes of the roster and what opening makes of two members: `docs/inside/ssd-mirror.md`.

mod claim;
mod helper;
mod judge;
mod pair;
mod readd;
mod together;

pub use pair::{MirrorDevice, is_member};
pub use readd::{readd, was_other_member};
pub use together::{Request, Together, Way};
