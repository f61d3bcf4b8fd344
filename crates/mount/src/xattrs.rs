//! Extended attributes, by the magic links of `/proc/self/fd`, since an `O_PATH` descriptor has none.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use forebay::internals::{TRUSTED_ATTRIBUTE, USER_ATTRIBUTE};
use forebay_files::AttributeChange;
use fuser::INodeNo;
use rustix::fs::XattrFlags;

use crate::inodes::Inode;
use crate::path_fd::PathFd;
use crate::tree::{CAPABILITY, Tree, error_of, magic_link};

/// The kernel's own limits on a value and on a list of names.
const VALUE_BYTES_MAX: usize = 64 << 10;

/// The administrator's own: the backing tells them to us, and users must not see them.
const TRUSTED: &[u8] = b"trusted.";

/// The mark of the directory that is served (`docs/inside/marks.md`): it belongs to the pool alone.
fn is_mark(inode: INodeNo, name: &[u8]) -> bool {
    let names = [TRUSTED_ATTRIBUTE, USER_ATTRIBUTE];
    inode == INodeNo::ROOT && names.iter().any(|mark| mark.as_bytes() == name)
}

/// Refuses the administrator's names to other users, and the mark to all, with `error`.
fn check_name(inode: INodeNo, name: &OsStr, user: u32, error: i32) -> io::Result<()> {
    let is_administrators = user != 0 && name.as_bytes().starts_with(TRUSTED);
    match is_administrators || is_mark(inode, name.as_bytes()) {
        true => Err(error_of(error)),
        false => Ok(()),
    }
}

/// An answer that is a length only or the bytes themselves.
pub enum Answer {
    /// How long the bytes are.
    Length(u32),
    /// The bytes.
    Bytes(Vec<u8>),
}

impl Tree {
    fn path_for_xattrs(&self, inode: INodeNo) -> io::Result<(Arc<Inode>, Arc<PathFd>, String)> {
        let inode = self.inodes.get(inode)?;
        // The magic link of a symbolic link leads to that link, and no further.
        let path_fd = self.inodes.path_fd(&inode)?;
        let path = magic_link(path_fd.descriptor());
        Ok((inode, path_fd, path))
    }

    pub fn get_xattr(
        &self,
        inode: INodeNo,
        name: &OsStr,
        size: u32,
        user: u32,
    ) -> io::Result<Answer> {
        check_name(inode, name, user, libc::ENODATA)?;
        let (_inode, _path_fd, path) = self.path_for_xattrs(inode)?;
        if size == 0 {
            let length = rustix::fs::getxattr_query(&path, name)?;
            return Ok(Answer::Length(length as u32));
        }
        let mut value = vec![0; (size as usize).min(VALUE_BYTES_MAX)];
        let length = rustix::fs::getxattr(&path, name, &mut value)?;
        value.truncate(length);
        Ok(Answer::Bytes(value))
    }

    pub fn list_xattrs(&self, inode: INodeNo, size: u32, user: u32) -> io::Result<Answer> {
        let (_inode, _path_fd, path) = self.path_for_xattrs(inode)?;
        let mut names = vec![0; VALUE_BYTES_MAX];
        let length = rustix::fs::listxattr(&path, &mut names)?;
        names.truncate(length);
        let is_shown = |name: &&[u8]| {
            let is_administrators = user != 0 && name.starts_with(TRUSTED);
            !is_administrators && !is_mark(inode, name.strip_suffix(&[0]).unwrap_or(name))
        };
        let shown = names.split_inclusive(|byte| *byte == 0).filter(is_shown);
        let names: Vec<u8> = shown.flatten().copied().collect();
        match size as usize {
            0 => Ok(Answer::Length(names.len() as u32)),
            size if size < names.len() => Err(error_of(libc::ERANGE)),
            _ => Ok(Answer::Bytes(names)),
        }
    }

    pub fn set_xattr(
        &self,
        inode: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        user: u32,
    ) -> io::Result<()> {
        check_name(inode, name, user, libc::EPERM)?;
        let (inode, path_fd, _) = self.path_for_xattrs(inode)?;
        let flags = XattrFlags::from_bits_retain(flags as u32);
        let change = AttributeChange::Set { name, value, flags };
        let set = || self.buffer.change_attributes(path_fd.descriptor(), &change);
        inode.may_have_capability.arise_by(set).map(drop)
    }

    pub fn remove_xattr(&self, inode: INodeNo, name: &OsStr, user: u32) -> io::Result<()> {
        check_name(inode, name, user, libc::EPERM)?;
        let (inode, path_fd, _) = self.path_for_xattrs(inode)?;
        let change = AttributeChange::Remove(name);
        let remove = || self.buffer.change_attributes(path_fd.descriptor(), &change);
        let removed = match name == CAPABILITY {
            // It may come back with a power cut.
            true => inode.may_have_capability.arise_by(remove),
            false => remove(),
        };
        removed.map(drop)
    }
}
