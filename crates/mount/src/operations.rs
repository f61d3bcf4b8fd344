//! What each request of the kernel does, whichever transport brought it: on whose behalf, to what of the
//! [`Tree`], and how the kernel is to treat what was opened.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::time::Duration;

use forebay_files::SyncKind;
use fuser::{FileAttr, FileHandle, FopenFlags, INodeNo, WriteFlags};
use rustix::fs::RenameFlags;

use crate::attributes;
use crate::bytes::Writer;
use crate::credentials::{Assumed, Caller};
use crate::opening::Opening;
use crate::tree::{Change, Tree, error_of};
use crate::xattrs::Answer;

/// The tree with what was agreed with the kernel.
#[derive(Debug)]
pub struct Operations {
    pub tree: Tree,
    pub opening: Opening,
    pub has_writeback_cache: bool,
    /// How long the kernel may cache names and attributes.
    pub belief: Duration,
}

impl Operations {
    /// What a name leads to. A name that is not there is an answer too, which the kernel remembers.
    pub fn lookup(&self, parent: INodeNo, name: &OsStr) -> io::Result<FileAttr> {
        match self.tree.look_up(parent, name) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(attributes::nothing()),
            result => result,
        }
    }

    pub fn setattr(
        &self,
        caller: Caller,
        inode: INodeNo,
        handle: Option<FileHandle>,
        change: &Change,
    ) -> io::Result<FileAttr> {
        let open = handle.and_then(|handle| self.tree.files.get(handle).ok());
        // Another group's quota is the caller's to fill, too.
        let _assumed = Assumed::of(caller, 0);
        self.tree
            .change(inode, open.as_deref(), change, caller.user)
    }

    pub fn mknod(
        &self,
        (caller, umask): (Caller, u32),
        (parent, name): (INodeNo, &OsStr),
        mode: u32,
        device: u32,
    ) -> io::Result<FileAttr> {
        let _assumed = Assumed::of(caller, umask);
        self.tree.make_node(parent, name, mode, device)
    }

    pub fn mkdir(
        &self,
        (caller, umask): (Caller, u32),
        (parent, name): (INodeNo, &OsStr),
        mode: u32,
    ) -> io::Result<FileAttr> {
        let _assumed = Assumed::of(caller, umask);
        self.tree.make_directory(parent, name, mode)
    }

    pub fn symlink(
        &self,
        caller: Caller,
        (parent, name): (INodeNo, &OsStr),
        target: &Path,
    ) -> io::Result<FileAttr> {
        let _assumed = Assumed::of(caller, 0);
        self.tree.make_symbolic_link(parent, name, target)
    }

    pub fn rename(
        &self,
        caller: Caller,
        (parent, name): (INodeNo, &OsStr),
        (new_parent, new_name): (INodeNo, &OsStr),
        flags: u32,
    ) -> io::Result<()> {
        let flags = RenameFlags::from_bits_retain(flags);
        let _assumed = Assumed::of(caller, 0);
        self.tree.rename(parent, name, new_parent, new_name, flags)
    }

    pub fn link(
        &self,
        caller: Caller,
        inode: INodeNo,
        (parent, name): (INodeNo, &OsStr),
    ) -> io::Result<FileAttr> {
        let _assumed = Assumed::of(caller, 0);
        self.tree.link(inode, parent, name)
    }

    pub fn open(
        &self,
        caller: Caller,
        inode: INodeNo,
        flags: i32,
    ) -> io::Result<(FileHandle, FopenFlags)> {
        let opened = self.opening.how(flags);
        Ok((self.tree.open(inode, flags, caller)?, opened))
    }

    pub fn create(
        &self,
        (caller, umask): (Caller, u32),
        (parent, name): (INodeNo, &OsStr),
        mode: u32,
        flags: i32,
    ) -> io::Result<(FileAttr, FileHandle, FopenFlags)> {
        let opened = self.opening.how(flags);
        let _assumed = Assumed::of(caller, umask);
        let (found, handle) = self.tree.create(parent, name, mode, flags, caller)?;
        Ok((found, handle, opened))
    }

    /// Returns how many bytes were written: all.
    pub fn write(
        &self,
        caller: Caller,
        (handle, offset): (FileHandle, u64),
        data: &[u8],
        write_flags: WriteFlags,
        flags: i32,
    ) -> io::Result<u32> {
        let has = |flag| write_flags.contains(flag);
        let writer = Writer {
            caller: (!has(WriteFlags::FUSE_WRITE_CACHE)).then_some(caller),
            drops_privileges_of: has(WriteFlags::FUSE_WRITE_KILL_SUIDGID).then_some(caller.user),
        };
        let is_durable = flags & libc::O_DSYNC != 0;
        self.tree.write(handle, offset, data, is_durable, writer)?;
        Ok(data.len() as u32)
    }

    pub fn fsync(&self, handle: FileHandle, is_data_only: bool) -> io::Result<()> {
        let kind = match is_data_only {
            true => SyncKind::Data,
            false => SyncKind::All,
        };
        self.tree.sync(handle, kind)
    }

    pub fn setxattr(
        &self,
        caller: Caller,
        inode: INodeNo,
        (name, value): (&OsStr, &[u8]),
        flags: i32,
    ) -> io::Result<()> {
        let _assumed = Assumed::of(caller, 0);
        self.tree.set_xattr(inode, name, value, flags, caller.user)
    }

    pub fn getxattr(
        &self,
        caller: Caller,
        inode: INodeNo,
        name: &OsStr,
        size: u32,
    ) -> io::Result<Answer> {
        self.tree.get_xattr(inode, name, size, caller.user)
    }

    pub fn lseek(&self, handle: FileHandle, offset: i64, whence: i32) -> io::Result<u64> {
        if self.has_writeback_cache {
            // The kernel does not send its dirty pages first, so the backing's holes may be data.
            // Without an answer it takes everything for data.
            return Err(error_of(libc::ENOSYS));
        }
        self.tree.seek(handle, offset, whence)
    }
}
