//! A second model: two members, dirty blocks on both, metadata mirrored, entries in DRAM.
//!
//! What one member does by itself (torn lines, deltas over sand, syncs of the backing) is the first model's; here a unit is a
//! whole line, record or block. Members die, come back as they were, are replaced and rebuilt; a store may be lost behind a
//! good fence. What was promised must read right whichever member is left.

pub mod action;
mod background;
mod commit;
pub mod config;
mod media;
mod members;
mod recovery;
pub mod rules;
mod serve;
pub mod world;
pub mod worlds;
