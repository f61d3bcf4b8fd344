//! A listening Unix socket that only its owner can open.
//!
//! It is made in a private directory and moved into place, so that no other user can connect before
//! its mode is set. A socket with a listener is never replaced, and at the end only the file that
//! was made here is removed.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType};

use crate::control::bind_private_for;

/// The longest path of a Unix socket, in bytes: `sun_path` less its closing zero and what the
/// folder adds that the socket is made in.
pub(crate) const UNIX_PATH_BYTES_MAX: usize = 103;

/// A listening socket at a path.
#[derive(Debug)]
pub(crate) struct UnixListeningSocket {
    descriptor: OwnedFd,
    path: PathBuf,
    /// The socket's inode, so that another process's socket is not removed.
    inode: u64,
}

impl UnixListeningSocket {
    /// Listens at `path`, with mode 0600. A socket without a listener is replaced; the new one
    /// belongs to `owner`, a user and a group, or to the process.
    pub(crate) fn bind(
        path: PathBuf,
        owner: Option<(u32, u32)>,
    ) -> io::Result<UnixListeningSocket> {
        make_way(&path)?;
        let listener = bind_private_for(&path, owner)?;
        let inode = std::fs::symlink_metadata(&path)?.ino();
        Ok(UnixListeningSocket {
            descriptor: listener.into(),
            path,
            inode,
        })
    }

    /// Where it listens.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for the next client.
    pub(crate) fn accept(&self) -> io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC;
        Ok(rustix::net::accept_with(self.descriptor.as_fd(), flags)?)
    }

    /// No connection is accepted any more: `accept` fails from now on, also where it waits.
    pub(crate) fn stop(&self) {
        let _ = rustix::net::shutdown(&self.descriptor, Shutdown::Both);
        if std::fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Whether a socket can be made at `path`: nothing is there, or a socket that certainly has no
/// listener.
fn make_way(path: &Path) -> io::Result<()> {
    let Ok(found) = std::fs::symlink_metadata(path) else {
        return Ok(());
    };
    let refuse = |kind, what: &str| {
        let message = format!("{} {what}", path.display());
        Err(io::Error::new(kind, message))
    };
    if !found.file_type().is_socket() {
        return refuse(
            io::ErrorKind::AlreadyExists,
            "is there and is no socket; name another path, or remove it",
        );
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let probe = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&probe, &SocketAddrUnix::new(path)?) {
        Err(Errno::CONNREFUSED | Errno::NOENT) => Ok(()),
        // AGAIN: so many wait there already that this one would have to wait, too.
        Ok(()) | Err(Errno::AGAIN) => refuse(
            io::ErrorKind::AddrInUse,
            "is taken: a process listens on it; name another path, or end that process",
        ),
        Err(errno) => refuse(
            io::ErrorKind::AddrInUse,
            &format!(
                "is a socket that may be in use ({}); name another path, or remove it",
                io::Error::from(errno)
            ),
        ),
    }
}
