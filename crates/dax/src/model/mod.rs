//! A region over models of memory, a tracker that knows what was stored, and what was promised of that.

pub mod tracker;
pub mod world;
