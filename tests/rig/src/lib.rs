//! Forebay under real kernels, without a virtual machine monitor's privileges: guests are User Mode
//! Linux, processes of this machine, with this machine's files and programs.
//!
//! ```text
//!   forebay-rig, make rig           cuts (power cuts, verified)      measure (grid, ratios)
//!           |                                |                            |
//!         Guest: boots, runs scripts, is cut off          servers: forebay, qemu-storage-daemon
//!           |  files in a shared folder
//!     forebay-rig-guest: first process of the guest, and its workloads
//! ```
//!
//! Everything a run makes lies in one [`Scratch`] folder; guests and servers end when their handles
//! are dropped, also after Ctrl-C, which shows as an error of whatever waits (see [`forebay_harness`]).

pub mod agent;
pub mod cuts;
pub mod failing_disk;
pub mod guest;
pub mod measure;
pub mod scratch;
pub mod server;
pub mod torn;
pub mod workload;

pub use guest::{Disk, Guest, GuestOptions, Job, Output};
pub use scratch::Scratch;
pub use server::{Daemon, QemuStorageDaemon, Server};

/// Whatever went wrong, in words.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
/// A result with such a failure.
pub type Result<T> = std::result::Result<T, Failure>;
