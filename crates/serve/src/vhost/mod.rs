//! Disks for virtual machines over vhost-user: virtio-blk queues in memory shared with the guest.
//!
//! ```text
//!   VhostUserServer   one disk, one socket, one client at a time
//!       |  a connection's messages (wire, dispatch)
//!   session           what the client has set up (config, memory)
//!       |  a thread for each queue (runner), more for what takes long (workers)
//!   ring              requests taken, answers given in the same order (order)
//!       |  request
//!   execute  -->  BlockDevice
//! ```
//!
//! One guest at a time has the disk, and every request answered is durable; see
//! `docs/using/vhost-user.md`.

mod broken;
mod config;
mod dispatch;
mod execute;
mod memory;
mod options;
mod order;
mod request;
mod ring;
mod runner;
mod serial;
mod server;
mod session;
mod stats;
#[doc(hidden)]
pub mod testing;
mod wire;
mod workers;

pub use memory::know_host;
pub use options::VhostUserOptions;
pub use server::{VhostUserError, VhostUserServer};
pub use stats::VhostUserStats;
