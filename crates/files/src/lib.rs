//! The durable file buffer: files lie on an ordinary file system, and what is written to them
//! synchronously is durable in a pool when the call returns.
//!
//! A [`FileBuffer`] is an open pool with the files and names it answers for. A [`BufferedFile`] is one
//! inode of the backing file system, however often it is opened. A [`Directory`] is where names are
//! looked up and changed: operations on names go through the buffer, so that an fsync of a file or its
//! directory needs no sync of the backing.
//!
//! Errors are [`std::io::Error`] with the number that a system call would give, since callers answer
//! system calls.

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod attributes;
#[cfg(test)]
mod attributes_tests;
#[cfg(test)]
mod bad_backing_tests;
mod block_map;
mod buffer;
#[cfg(test)]
mod buffer_tests;
mod caller;
mod content;
#[cfg(test)]
mod count_tests;
mod cuts;
mod directory;
mod errors;
mod facts;
mod file;
#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod handover_tests;
mod identity;
mod lasting;
mod marks;
mod metadata;
#[cfg(test)]
mod model_tests;
pub mod mutants;
mod names;
mod naming;
mod nvm_file;
pub mod observe;
mod options;
mod page_cache;
mod ranges;
mod recovery;
mod redirty;
mod registry;
#[cfg(test)]
mod room_tests;
mod segments;
mod shared;
#[cfg(test)]
mod side_file_tests;
mod sizes;
#[cfg(test)]
mod ssd_tests;
mod store;
pub mod tally;
mod target;
#[cfg(test)]
mod testing;
mod times;

pub use buffer::{FileBuffer, FileBufferParts, VOLUME_PREFIX};
pub use caller::OnBehalf;
pub use cuts::SIDE_BYTES;
pub use directory::{Directory, Opened};
pub use facts::{FileFacts, SyncKind};
pub use file::BufferedFile;
pub use identity::FileIdentity;
pub use marks::say_whole;
pub use names::{AttributeChange, KeepDescriptor};
pub use nvm_file::{NvmFile, NvmMode};
pub use options::{FileBufferOptions, Marking};
pub use recovery::FilesRecovery;
