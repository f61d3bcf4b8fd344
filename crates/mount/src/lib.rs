//! `forebay mount`: a directory served again through FUSE, with the durable file buffer in between.
//!
//! ```text
//!   programs -> kernel (names, attributes and pages cached) -> tree -> forebay-files -> pool, backing
//! ```
//!
//! Guarantees: what goes through the mount behaves as on the backing's own file system; what a program
//! synced is durable in the pool when the call returns; names are those of the backing, with its inode
//! numbers. All programs must use the mount: changes made to the backing behind it are seen late or
//! never. Locks are the kernel's own and hold among the users of the mount.

mod answers;
mod attributes;
mod bytes;
mod credentials;
mod directories;
mod file_mount;
mod filesystem;
mod inodes;
mod listing;
mod negotiation;
mod open_files;
mod opening;
mod operations;
mod options;
mod path_fd;
mod paths;
mod prepared;
mod private_mount;
mod restrictions;
mod ring;
mod scheduler;
mod shares;
mod suspicion;
mod tree;
mod xattrs;

pub use file_mount::FileMount;
pub use forebay_serve::fuse_ring::{RingCounts, Transport};
pub use options::{BELIEF, MountOptions};
pub use paths::{DirectoryIdentity, Locks, data_directory, lock};
pub use prepared::Serving;
pub use private_mount::{PrivateMount, PrivateServer};
