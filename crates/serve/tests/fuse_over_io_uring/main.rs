//! The same tests with their requests by io_uring, where the kernel has it, and what is the rings' alone.

#[path = "../common/mod.rs"]
mod common;
#[path = "../fuse/disk.rs"]
mod disk;
#[path = "../fuse/killed.rs"]
mod killed;
#[path = "../fuse/mounting.rs"]
mod mounting;
#[path = "../common/offer.rs"]
mod offer;
mod rings;
#[path = "../fuse/volume.rs"]
mod volume;

/// What brings the requests of this program's mounts.
const TRANSPORT: forebay_serve::Transport = forebay_serve::Transport::IoUring;
