//! Extended attributes, by the magic links of `/proc/self/fd`, since an `O_PATH` descriptor has none.

use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fuser::INodeNo;
use rustix::fs::{FileType, XattrFlags};

use crate::anchor::Anchor;
use crate::inodes::Inode;
use crate::tree::{Tree, error_of, magic_link};

/// The kernel's own limits on a value and on a list of names.
const VALUE_BYTES_MAX: usize = 64 << 10;

/// An answer that is a length only or the bytes themselves.
pub enum Answer {
    /// How long the bytes are.
    Length(u32),
    /// The bytes.
    Bytes(Vec<u8>),
}

impl Tree {
    fn path_for_xattrs(&self, inode: INodeNo) -> io::Result<(Arc<Inode>, Arc<Anchor>, String)> {
        let inode = self.inodes.get(inode)?;
        // The magic link of a symbolic link is followed to where that leads.
        if inode.kind == FileType::Symlink {
            return Err(error_of(libc::EOPNOTSUPP));
        }
        let anchor = self.inodes.anchor(&inode)?;
        let path = magic_link(anchor.descriptor());
        Ok((inode, anchor, path))
    }

    pub fn get_xattr(&self, inode: INodeNo, name: &OsStr, size: u32) -> io::Result<Answer> {
        let (_inode, _anchor, path) = self.path_for_xattrs(inode)?;
        if size == 0 {
            let length = rustix::fs::getxattr_query(&path, name)?;
            return Ok(Answer::Length(length as u32));
        }
        let mut value = vec![0; (size as usize).min(VALUE_BYTES_MAX)];
        let length = rustix::fs::getxattr(&path, name, &mut value)?;
        value.truncate(length);
        Ok(Answer::Bytes(value))
    }

    pub fn list_xattrs(&self, inode: INodeNo, size: u32) -> io::Result<Answer> {
        let (_inode, _anchor, path) = self.path_for_xattrs(inode)?;
        if size == 0 {
            let length = rustix::fs::listxattr_query(&path)?;
            return Ok(Answer::Length(length as u32));
        }
        let mut names = vec![0; (size as usize).min(VALUE_BYTES_MAX)];
        let length = rustix::fs::listxattr(&path, &mut names)?;
        names.truncate(length);
        Ok(Answer::Bytes(names))
    }

    pub fn set_xattr(
        &self,
        inode: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
    ) -> io::Result<()> {
        let (inode, _anchor, path) = self.path_for_xattrs(inode)?;
        let flags = XattrFlags::from_bits_retain(flags as u32);
        rustix::fs::setxattr(&path, name, value, flags)?;
        inode.may_have_capability.store(true, Ordering::Release);
        self.buffer.attributes_changed(inode.identity);
        Ok(())
    }

    pub fn remove_xattr(&self, inode: INodeNo, name: &OsStr) -> io::Result<()> {
        let (inode, _anchor, path) = self.path_for_xattrs(inode)?;
        rustix::fs::removexattr(&path, name)?;
        self.buffer.attributes_changed(inode.identity);
        Ok(())
    }
}
