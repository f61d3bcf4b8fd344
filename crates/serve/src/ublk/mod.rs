//! A disk for the host's own kernel, through its ublk driver: `/dev/ublkbN`, served by this process.
//!
//! The kernel hands each request to a queue of this process through io_uring and copies its data; no
//! file system and no loop device lie between. A process that dies leaves the device behind with its
//! requests waiting, and the next one that serves the same disk takes it over with them: a repeated
//! write stores the same bytes, and the first one was never acknowledged.
//!
//! What is asked ([`execute`]) and what the kernel is told ([`Parameters`]) are plain functions, in
//! every build; the part that talks to the driver needs the cargo feature `ublk`. The interface is
//! the kernel's `Documentation/block/ublk.rst` and `include/uapi/linux/ublk_cmd.h`.

#[cfg(feature = "ublk")]
mod device;
mod parameters;
mod request;

#[cfg(not(feature = "ublk"))]
#[path = "absent.rs"]
mod server;
#[cfg(feature = "ublk")]
mod server;

use std::path::PathBuf;

pub use parameters::Parameters;
pub use request::{IoDescriptor, execute, operation};
pub use server::UblkServer;

/// The driver's control device.
pub const CONTROL_PATH: &str = "/dev/ublk-control";

/// The longest request that the kernel sends. The transaction limit of all but tiny pools is larger,
/// so that a write is one transaction.
pub const REQUEST_BYTES_MAX: u32 = 512 << 10;

/// How a disk is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UblkOptions {
    /// The N of `/dev/ublkbN`; the driver chooses where none is given.
    pub number: Option<u32>,
    /// Queues, each with a thread; a request that waits for a slow disk holds up its queue only.
    pub queues: u16,
    /// The same for this disk in every process that serves it, and another for every other disk. The
    /// driver keeps it, so that a device that was left behind is known again.
    pub identity: u64,
}

/// Why a disk is not served through ublk.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UblkError {
    /// The part that talks to the driver was not compiled.
    #[error(
        "this build has no ublk; build it with `cargo build --release --features ublk` (needs \
         libclang-dev), or use --fuse or --nbd"
    )]
    NotBuilt,
    /// The host has no driver.
    #[error(
        "{CONTROL_PATH} is missing: this kernel has no ublk, or it is not loaded; try `modprobe \
         ublk_drv` (Linux 6.0 and newer with CONFIG_BLK_DEV_UBLK), or use --fuse or --nbd"
    )]
    NoDriver,
    /// The driver's control device is closed to this process.
    #[error("{CONTROL_PATH} cannot be opened: {0}; ublk needs root")]
    Denied(std::io::Error),
    /// The requested number belongs to another device.
    #[error(
        "/dev/ublkb{0} is another device; name another number, or none and the driver chooses one"
    )]
    Taken(u32),
    /// A device with a request size that this process has no buffers for.
    #[error("{path}: left behind with {found}; remove it and serve the disk anew", path = path.display())]
    Unusable {
        /// The block device.
        path: PathBuf,
        /// What it has.
        found: String,
    },
    /// The driver refused or failed.
    #[error("the ublk driver did not {action}: {reason}")]
    Driver {
        /// What it was asked to do.
        action: &'static str,
        /// What it said.
        reason: String,
    },
}
