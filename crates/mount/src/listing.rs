//! Reading directories. An offset is the backing's own, so that it stays right while names change.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use fuser::{FileAttr, FileHandle, FileType, INodeNo};
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{OFlags, RawDir, SeekFrom};

use crate::attributes;
use crate::shares::Share;
use crate::tree::Tree;

/// What one read of the backing's directory takes.
const BATCH_BYTES: usize = 32 << 10;

/// One name of a directory.
#[derive(Debug)]
pub struct Listed {
    /// The inode's number in the backing.
    pub number: u64,
    /// Where the next name is.
    pub next_offset: u64,
    /// What it is.
    pub kind: FileType,
    /// The name.
    pub name: OsString,
}

/// An open directory.
#[derive(Debug)]
pub struct OpenDirectory {
    inode: INodeNo,
    descriptor: OwnedFd,
    ahead: Mutex<Ahead>,
    /// Counted for the user that opened it.
    _share: Option<Share>,
}

/// What was read from the backing and not yet asked for.
#[derive(Debug, Default)]
struct Ahead {
    /// The offset of the first of the names; of the next read where there are none.
    offset: u64,
    names: VecDeque<Listed>,
}

impl OpenDirectory {
    fn ahead(&self) -> MutexGuard<'_, Ahead> {
        self.ahead.lock()
    }

    /// Calls `add` with the names from `offset` on until it wants no more.
    ///
    /// # Errors
    /// The backing's, if not a single name was added.
    pub fn list(&self, offset: u64, mut add: impl FnMut(&Listed) -> bool) -> io::Result<()> {
        let mut ahead = self.ahead();
        // From the start everything is read anew, as after rewinddir.
        if ahead.offset != offset || offset == 0 {
            rustix::fs::seek(&self.descriptor, SeekFrom::Start(offset))?;
            ahead.names.clear();
            ahead.offset = offset;
        }
        let mut is_first = true;
        loop {
            if ahead.names.is_empty() {
                match self.read_batch() {
                    Ok(names) if names.is_empty() => return Ok(()),
                    Ok(names) => ahead.names = names,
                    Err(error) if is_first => return Err(error),
                    Err(_) => return Ok(()),
                }
            }
            while let Some(listed) = ahead.names.front() {
                if !add(listed) {
                    return Ok(());
                }
                is_first = false;
                ahead.offset = listed.next_offset;
                ahead.names.pop_front();
            }
        }
    }

    fn read_batch(&self) -> io::Result<VecDeque<Listed>> {
        let mut buffer = [MaybeUninit::uninit(); BATCH_BYTES];
        let mut directory = RawDir::new(&self.descriptor, &mut buffer);
        let mut names = VecDeque::new();
        while let Some(entry) = directory.next() {
            let entry = entry?;
            names.push_back(Listed {
                number: entry.ino(),
                next_offset: entry.next_entry_cookie(),
                kind: attributes::kind_of(entry.file_type()),
                name: OsStr::from_bytes(entry.file_name().to_bytes()).to_owned(),
            });
            if directory.is_buffer_empty() {
                break;
            }
        }
        Ok(names)
    }
}

impl Tree {
    pub fn open_directory(&self, inode: INodeNo, user: u32) -> io::Result<FileHandle> {
        let share = self.shares.take(user)?;
        let known = self.inodes.get(inode)?;
        let path_fd = self.inodes.path_fd(&known)?;
        let descriptor = self.reopen(path_fd.descriptor(), OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok(self.directories.insert(OpenDirectory {
            inode,
            descriptor,
            ahead: Mutex::default(),
            _share: share,
        }))
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
            let Ok(found) = self.look_up_in(directory.descriptor.as_fd(), &listed.name) else {
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
        let inode = self.inodes.get(self.directories.get(handle)?.inode)?;
        let path_fd = self.inodes.path_fd(&inode)?;
        path_fd.directory(&self.buffer)?.sync()
    }
}
