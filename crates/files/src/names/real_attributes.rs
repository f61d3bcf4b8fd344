//! Changes of attributes by the kernel's calls, of inodes that may be open without any access.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Gid, Mode, Uid};
use rustix::io::Errno;

use super::attributes::{ACCESS_LIST, AttributeChange, DEFAULT_LIST};

/// The longest value that the kernel has.
const VALUE_BYTES_MAX: usize = 64 << 10;
/// Names of extended attributes that nearly all inodes have room for here.
const NAMES_BYTES: usize = 1 << 10;

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

/// Access lists of what has just been made, with their names.
pub(super) fn lists(path: &Path) -> io::Result<Vec<(OsString, Vec<u8>)>> {
    let mut names = [0; NAMES_BYTES];
    let names = match rustix::fs::llistxattr(path, &mut names) {
        Ok(len) => &names[..len],
        Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        // Too many to be told here: it is asked for each.
        Err(Errno::RANGE) => &b"system.posix_acl_access\0system.posix_acl_default\0"[..],
        Err(error) => return Err(error.into()),
    };
    let mut lists = Vec::new();
    for name in [ACCESS_LIST, DEFAULT_LIST] {
        let mut told = names.split(|byte| *byte == 0);
        if !told.any(|told| told == name.as_bytes()) {
            continue;
        }
        let mut value = vec![0; VALUE_BYTES_MAX];
        let found = rustix::fs::lgetxattr(path, name, &mut value);
        if let Some(value) = found_value(found, value)? {
            lists.push((OsStr::new(name).to_os_string(), value));
        }
    }
    Ok(lists)
}

/// The value of an extended attribute of the inode that a link of `/proc` leads to.
pub(super) fn value(link: &str, name: &OsStr) -> io::Result<Option<Vec<u8>>> {
    let mut value = vec![0; VALUE_BYTES_MAX];
    let found = rustix::fs::getxattr(link, name, &mut value);
    found_value(found, value)
}

fn found_value(len: Result<usize, Errno>, mut value: Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    match len {
        Ok(len) => {
            value.truncate(len);
            Ok(Some(value))
        }
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Takes the lists from what was made anew that it inherited: which it is to have, the log says.
pub(super) fn disinherit(link: &str) -> io::Result<()> {
    for name in [ACCESS_LIST, DEFAULT_LIST] {
        match rustix::fs::removexattr(link, name) {
            Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
