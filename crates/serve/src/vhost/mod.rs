//! Disks for virtual machines over vhost-user: virtio-blk queues in memory shared with the guest.
//!
//! ```text
//!   VhostUserServer   one disk, one socket, one client at a time
//!       |  a connection
//! ```
//!
//! One guest at a time has the disk, and every request answered is durable; see
//! `docs/vhost-user.md`.

mod server;
mod stats;

pub use server::{VhostUserError, VhostUserOptions, VhostUserServer};
pub use stats::VhostUserStats;
