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
//!
//! What returns a [`Result`] fails where the machine, a guest or a daemon refuses something or takes too long, or a
//! signal came; the message says which, with the end of a console or a log where there is one.

mod agent;
mod command;
mod cuts;
mod failing_disk;
mod guest;
mod inside;
mod machine;
mod measure;
mod scratch;
mod server;
mod torn;
mod workload;

pub use command::{Arguments, run};
pub use guest::{Disk, Guest, GuestOptions, Job, Output, obstacle};
pub use inside::run_inside;
pub use scratch::Scratch;
pub use server::QemuStorageDaemon;

pub(crate) use server::{Daemon, Server};

pub(crate) use forebay_harness::{Failure, Result};
