//! `libforebay_preload.so`: interposes libc's file calls, so that an unmodified program's files are
//! durable in a pool when its syncs return.
//!
//! Invariants:
//! - What is buffered is open in this process alone, by one open file description: an exclusive lease
//!   of the kernel says so, and its breaking brings the file back to the backing before any other
//!   process sees it.
//! - A file that is not buffered is exactly as the kernel has it: position and flags included.
//! - A file is first buffered when it is first synced; what is never synced is never touched.
//! - A child of `fork` has no pool: what was buffered was brought back before, and is buffered again
//!   when the child has exec'd or ended.
//! - A failure of ours never ends the program: where the pool cannot be opened, calls pass to the
//!   kernel.

#![cfg_attr(
    test,
    allow(
        dead_code,
        reason = "the interposed functions would be the tests' own, so they are left out"
    )
)]

mod buffering;
#[cfg(not(test))]
mod calls;
mod cover;
mod descriptors;
mod forks;
mod inherited;
mod inside;
mod lease_keeper;
mod leases;
mod locking;
mod log;
mod memory;
mod open_file;
mod owner_mark;
mod process;
mod protection;
mod record_locks;
mod settings;
mod table;
mod tally;
mod transfer;
