//! The disk in a FUSE mount, whose requests come by `/dev/fuse`.

#[path = "../common/mod.rs"]
mod common;
mod disk;
mod flushes;
mod killed;
mod mounting;
#[path = "../common/offer.rs"]
mod offer;
mod volume;

/// What brings the requests of this program's mounts.
const TRANSPORT: forebay_serve::Transport = forebay_serve::Transport::DevFuse;
