//! Changes of attributes by the kernel's calls, of inodes that may be open without any access.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, Gid, Mode, Uid};

use super::attributes::AttributeChange;

/// Makes a change, of a symbolic link itself; `link` is the name by which the kernel finds the open inode again.
pub(super) fn change(
    inode: BorrowedFd<'_>,
    link: impl Fn() -> String,
    change: &AttributeChange<'_>,
) -> io::Result<()> {
    match change {
        AttributeChange::Mode(mode) => {
            rustix::fs::chmod(link(), Mode::from_raw_mode(*mode & 0o7777))?;
        }
        AttributeChange::Owner { user, group } => {
            let (user, group) = (user.map(Uid::from_raw), group.map(Gid::from_raw));
            rustix::fs::chownat(inode, c"", user, group, AtFlags::EMPTY_PATH)?;
        }
        AttributeChange::Times(times) => {
            rustix::fs::utimensat(inode, c"", times, AtFlags::EMPTY_PATH)?;
        }
        AttributeChange::Set { name, value, flags } => {
            rustix::fs::setxattr(link(), *name, value, *flags)?;
        }
        AttributeChange::Remove(name) => rustix::fs::removexattr(link(), *name)?,
    }
    Ok(())
}
