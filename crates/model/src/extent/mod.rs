//! A third model: a region that a program maps and stores into, its parity, its sums, and passes that follow the stores.
//!
//! A page is one unit and its content is its own sum, so that no sum matches by chance. Width one has a copy, width two the
//! XOR of each row. The program stores when it likes; what it made durable must never be rolled back or overwritten by
//! anything that we do, and what cannot be served right must be named.

pub mod action;
pub mod config;
mod foreign;
mod media;
mod pass;
mod recovery;
pub mod rules;
mod truth;
mod verify;
pub mod world;
pub mod worlds;
