//! Mounts of the program's transport, and why there are none here, if that is so.

use std::io;
use std::path::Path;
use std::sync::Arc;

use forebay_serve::{BlockDevice, DiskMount, DiskOptions, Transport};

use crate::TRANSPORT;
use crate::common::{self, TestMount};
use crate::offer::{has_rings, with_the_offer};

/// Why a disk cannot be mounted here, if it cannot.
pub fn no_fuse() -> Option<&'static str> {
    common::no_fuse().or_else(no_transport)
}

/// Why loop devices over such disks cannot be used here, if they cannot.
pub fn no_loop() -> Option<&'static str> {
    common::no_loop().or_else(no_transport)
}

fn no_transport() -> Option<&'static str> {
    (TRANSPORT == Transport::IoUring && !has_rings())
        .then_some("this kernel has no FUSE over io_uring, or allows no io_uring")
}

/// As [`DiskMount::new`], while the kernel offers what is wanted.
pub fn mount(
    device: impl BlockDevice,
    directory: &Path,
    on_end: impl FnOnce() + Send + Sync + 'static,
) -> io::Result<DiskMount> {
    while_offered(|| mount_as_offered(device, directory, on_end))
}

/// The same with whatever the kernel offers: for a process that may be killed at any moment, and would leave the offer.
pub fn mount_as_offered(
    device: impl BlockDevice,
    directory: &Path,
    on_end: impl FnOnce() + Send + Sync + 'static,
) -> io::Result<DiskMount> {
    let options = DiskOptions {
        transport: TRANSPORT,
        ..DiskOptions::default()
    };
    DiskMount::new(device, directory, &options, on_end)
}

/// Does it while the kernel offers what is wanted.
pub fn while_offered<T>(act: impl FnOnce() -> T) -> T {
    match TRANSPORT {
        Transport::IoUring => with_the_offer(true, act),
        _ => act(),
    }
}

/// A disk mounted in a directory of its own.
pub fn mounted(device: Arc<impl BlockDevice>) -> TestMount {
    TestMount::made(|directory, on_end| mount(device, directory, on_end))
}
