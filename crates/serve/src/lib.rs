//! Front ends of Forebay: what turns a volume into something other programs open.
//!
//! ```text
//!   kernel, loop, ext4    libnbd, QEMU, fio    QEMU, UML guests    forebay stat, forebay flush
//!           |  FUSE requests       |  NBD            |  vhost-user         |  JSON lines
//!       fuse_disk                 nbd              vhost             control
//!           |  BlockDevice         |                 |                   |
//!     volume_device        (memory_device in tests, an engine of the lab)
//!           |  transactions
//!        forebay::Volume
//! ```
//!
//! A front end knows [`BlockDevice`] and nothing of pools; only [`VolumeDevice`] knows the cache.

pub mod allocator;
pub mod block_device;
pub mod control;
pub mod fuse_disk;
pub mod fuse_ring;
pub mod job_queue;
pub mod latency;
mod log_rate_limit;
pub mod memory_device;
pub mod mount_point;
pub mod nbd;
pub mod parts;
pub mod ublk;
mod unix_socket;
pub mod vhost;
pub mod volume_device;

pub use block_device::{Access, BlockDevice, DeviceError, Extent, ExtentState};
pub use control::{
    Client, ClientError, ControlServer, Refusal, RefusalKind, Request, control_path,
};
pub use fuse_disk::{DiskMount, DiskOptions};
pub use fuse_ring::{RingCounts, Transport};
pub use latency::{DeviceMeters, DeviceSnapshot, LatencySummary, MeteredDevice};
pub use memory_device::MemoryDevice;
pub use nbd::{NbdAddress, NbdOptions, NbdServer};
pub use vhost::{VhostUserError, VhostUserOptions, VhostUserServer, VhostUserStats};
pub use volume_device::VolumeDevice;
