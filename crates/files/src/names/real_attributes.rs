//! Changes of attributes by the kernel's calls, of inodes that may be open without any access.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::{AtFlags, Gid, Mode, Uid};
use rustix::io::Errno;

use super::attributes::AttributeChange;

/// The longest value that the kernel has.
const VALUE_BYTES_MAX: usize = 64 << 10;
/// Most values are no longer.
const SHORT_VALUE_BYTES: usize = 256;

/// `CAP_CHOWN`, `CAP_DAC_OVERRIDE`, `CAP_DAC_READ_SEARCH`, `CAP_FOWNER`, `CAP_FSETID`, `CAP_SYS_ADMIN` (`capabilities(7)`).
const CAPABILITIES: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 21;

/// Whether this process may give any inode any attribute, and open it by its handle. In a user namespace it may not.
pub(super) fn is_privileged() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    let users = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let is_first_namespace = users.split_whitespace().eq(["0", "0", "4294967295"]);
    is_first_namespace && effective.is_some_and(|has| has & CAPABILITIES == CAPABILITIES)
}

/// Makes a change, of a symbolic link itself.
pub(super) fn change(inode: BorrowedFd<'_>, change: &AttributeChange<'_>) -> io::Result<()> {
    match change {
        AttributeChange::Mode(mode) => {
            rustix::fs::chmod(link_of(inode), Mode::from_raw_mode(*mode & 0o7777))?;
        }
        AttributeChange::Owner { user, group } => {
            let (user, group) = (user.map(Uid::from_raw), group.map(Gid::from_raw));
            rustix::fs::chownat(inode, c"", user, group, AtFlags::EMPTY_PATH)?;
        }
        AttributeChange::Set { name, value, flags } => {
            rustix::fs::setxattr(link_of(inode), *name, value, *flags)?;
        }
        AttributeChange::Remove(name) => rustix::fs::removexattr(link_of(inode), *name)?,
    }
    Ok(())
}

/// The value of an extended attribute of the inode that a link of `/proc` leads to.
pub(super) fn value(link: &str, name: &OsStr) -> io::Result<Option<Vec<u8>>> {
    let mut value = vec![0; SHORT_VALUE_BYTES];
    let mut found = rustix::fs::getxattr(link, name, &mut value);
    if found == Err(Errno::RANGE) {
        value.resize(VALUE_BYTES_MAX, 0);
        found = rustix::fs::getxattr(link, name, &mut value);
    }
    match found {
        Ok(len) => {
            value.truncate(len);
            Ok(Some(value))
        }
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The name by which the kernel finds an open inode again.
pub(crate) fn link_of(descriptor: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}
