//! The process that becomes the program of `forebay run --shared`: it makes the namespace and the mount, hands the mount to the
//! broker, and is replaced by the program.

#![allow(unsafe_code, reason = "a descriptor comes by its number")]

use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

use forebay_command::Failure;
use forebay_mount::{DirectoryIdentity, PrivateMount};
use rustix::io::FdFlags;

use crate::arguments::WithinOptions;
use crate::commands::program;
use crate::handover;

/// Returns the exit code only where the program was not started.
pub fn run(options: &WithinOptions) -> Result<u8, Failure> {
    // SAFETY: the command that started this process left the descriptor open for it, and nothing else here knows of it.
    let socket = UnixStream::from(unsafe { OwnedFd::from_raw_fd(options.socket) });
    // The program has no business with it, nor its children.
    rustix::io::fcntl_setfd(&socket, FdFlags::CLOEXEC).map_err(std::io::Error::from)?;
    // One outside of the directory stays as it is, even where no path leads to it.
    let here = std::env::current_dir().ok();
    let here = here.filter(|here| here.starts_with(&options.shared));
    let served = DirectoryIdentity {
        device: options.device,
        inode: options.inode,
    };
    let mount = PrivateMount::new(&options.shared, served).map_err(Failure::of_files)?;
    handover::give_mount(&socket, &mount)?;
    // The broker's copy is the only one then: its end is the mount's.
    drop(mount);
    // What this process had as its working directory is the one below the mount.
    if let Some(here) = here {
        std::env::set_current_dir(&here)
            .map_err(|error| Failure::Failed(format!("{}: {error}", here.display())))?;
    }
    let (name, arguments) = options.program.split_first().expect("clap wants one");
    let error = Command::new(name).args(arguments).exec();
    Ok(program::not_started(name, &error))
}
