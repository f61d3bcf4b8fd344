//! Directories of the tree: opened, listed, synced.

use std::io;

use fuser::{FileAttr, FileHandle, INodeNo};
use rustix::fs::OFlags;

use crate::attributes;
use crate::listing::{Listed, OpenDirectory};
use crate::tree::Tree;

impl Tree {
    pub fn open_directory(&self, inode: INodeNo, user: u32) -> io::Result<FileHandle> {
        let share = self.shares.take(user)?;
        let known = self.inodes.get(inode)?;
        let path_fd = self.inodes.path_fd(&known)?;
        let descriptor = self.reopen(path_fd.descriptor(), OFlags::RDONLY | OFlags::DIRECTORY)?;
        let open = OpenDirectory::new(inode, descriptor, share);
        Ok(self.directories.insert(open))
    }

    /// As [`OpenDirectory::list`], with what a lookup of each name says; names that went meanwhile are
    /// passed over. A name that `add` does not take does not count as told.
    pub fn list_with_attributes(
        &self,
        handle: FileHandle,
        offset: u64,
        mut add: impl FnMut(&Listed, &FileAttr) -> bool,
    ) -> io::Result<()> {
        let directory = self.directories.get(handle)?;
        directory.list(offset, |listed| {
            if listed.name == "." || listed.name == ".." {
                return add(listed, &attributes::nothing());
            }
            let Ok(found) = self.look_up_in(directory.descriptor(), &listed.name) else {
                return true;
            };
            let is_added = add(listed, &found);
            if !is_added {
                self.inodes.forget(found.ino, 1);
            }
            is_added
        })
    }

    pub fn list(
        &self,
        handle: FileHandle,
        offset: u64,
        add: impl FnMut(&Listed) -> bool,
    ) -> io::Result<()> {
        self.directories.get(handle)?.list(offset, add)
    }

    pub fn sync_directory(&self, handle: FileHandle) -> io::Result<()> {
        let inode = self.inodes.get(self.directories.get(handle)?.inode())?;
        let path_fd = self.inodes.path_fd(&inode)?;
        path_fd.directory(&self.buffer)?.sync()
    }
}
