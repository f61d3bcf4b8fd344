//! Forebay under real kernels, without a virtual machine monitor's privileges: guests are User Mode
//! Linux, processes of this machine, with this machine's files and programs.
//!
//! ```text
//!   forebay-verify power            cuts (power cuts, verified)      measure (grid, ratios)
//!           |                                |                            |
//!         Guest: boots, runs scripts, is cut off          servers: forebay, qemu-storage-daemon
//!           |  files in a shared folder
//!     forebay-rig-guest: first process of the guest, and its workloads
//! ```
//!
//! Everything a run makes lies in one [`Scratch`] folder; guests and servers end when their handles
//! are dropped, also after Ctrl-C, which shows as an error of whatever waits (see [`forebay_harness`]).

pub mod agent;
mod command;
pub mod cuts;
pub mod failing_disk;
pub mod guest;
mod loop_device;
pub mod measure;
pub mod scratch;
pub mod server;
pub mod torn;
pub mod workload;

pub use command::{Arguments, run};
pub use guest::{Disk, Guest, GuestOptions, Job, Output};
pub use scratch::Scratch;
pub use server::{Daemon, QemuStorageDaemon, Server};

pub use forebay_harness::{Failure, Result};
