//! Reading directories. An offset is the backing's own, so that it stays right while names change.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use fuser::{FileType, INodeNo};
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{RawDir, SeekFrom};

use crate::attributes;
use crate::shares::Share;

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
    pub fn new(inode: INodeNo, descriptor: OwnedFd, share: Option<Share>) -> Self {
        OpenDirectory {
            inode,
            descriptor,
            ahead: Mutex::default(),
            _share: share,
        }
    }

    pub fn inode(&self) -> INodeNo {
        self.inode
    }

    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

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
