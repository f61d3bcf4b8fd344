//! A fourth model: the ring of segments of a pool on an SSD.
//!
//! Groups and their seals, the tail, the clean point, what is written back, carried forward and let go of, and recovery, over a disk
//! of which a power cut leaves any part of what was not made durable. One volume of two blocks; of a block two halves, so that parts
//! are written. Its text is `docs/inside/ssd.md`.

pub mod action;
mod commit;
pub mod config;
mod maintain;
mod media;
mod recovery;
pub mod rules;
pub mod world;
pub mod worlds;
