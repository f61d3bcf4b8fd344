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

// Until every part is in use.
#![allow(dead_code)]

mod buffer;
mod directory;
mod errors;
mod file;
mod metadata;
pub mod mutants;
mod names;
mod naming;
mod segments;
mod store;
mod target;
#[cfg(test)]
mod testing;

pub use buffer::{FileBuffer, FileBufferOptions};
pub use directory::{Directory, FileIdentity, Opened};
pub use file::{BufferedFile, SyncKind};
