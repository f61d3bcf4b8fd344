//! The kernel's offer of FUSE over io_uring, switched on for tests and put back.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

/// Whether the kernel offers it to mounts that begin from now on.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// Does it while the offer stands, or does not; then that is as it was. One process at a time, since a mount needs
/// the offer only while it begins.
pub fn with_the_offer<T>(stands: bool, act: impl FnOnce() -> T) -> T {
    let lock = File::open(SWITCH).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let before = std::fs::read(SWITCH).unwrap();
    std::fs::write(SWITCH, if stands { "Y" } else { "N" }).unwrap();
    let outcome = catch_unwind(AssertUnwindSafe(act));
    std::fs::write(SWITCH, before).unwrap();
    outcome.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Whether root can have it here.
pub fn has_rings() -> bool {
    let forbidden = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
    Path::new(SWITCH).exists() && forbidden.is_ok_and(|text| text.trim() == "0")
}
