//! The bytes of open files.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use forebay_files::{BufferedFile, OnBehalf, SyncKind};
use fuser::{FileAttr, FileHandle, INodeNo};
use rustix::fs::{FallocateFlags, Mode, OFlags, Stat};

use crate::credentials::Caller;
use crate::inodes::Inode;
use crate::tree::{OpenFile, Tree, error_of, magic_link};

/// What one step of a copy moves.
const COPY_STEP_BYTES: usize = 1 << 20;

/// What one request copies at most, so that others get their turn.
const COPY_BYTES_MAX: u64 = 16 << 20;

/// On whose behalf bytes are written.
#[derive(Clone, Copy, Debug)]
pub struct Writer {
    /// The caller, where the kernel tells.
    pub caller: Option<Caller>,
    /// Whose write takes the set-user-id bits.
    pub drops_privileges_of: Option<u32>,
}

thread_local! {
    /// One buffer a worker, grown to the largest request it has seen.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The access to the backing that an open asks for: what writes must be able to read too, since a
/// part of a block is completed from the backing.
fn access_for(flags: i32) -> OFlags {
    match flags & libc::O_ACCMODE {
        libc::O_RDONLY => OFlags::RDONLY,
        _ => OFlags::RDWR,
    }
}

/// Logs which file could not be served, since the kernel only carries a number. Errors that a program
/// expects, like a full disk, are not logged.
fn told<T>(operation: &str, open: &OpenFile, result: io::Result<T>) -> io::Result<T> {
    let is_expected = |error: &io::Error| {
        let ordinary = [libc::ENOSPC, libc::EDQUOT, libc::EFBIG, libc::EINVAL];
        error
            .raw_os_error()
            .is_some_and(|number| ordinary.contains(&number))
    };
    result.inspect_err(|error| {
        if !is_expected(error) {
            let backing = open.file.backing();
            let link = magic_link(backing.as_fd());
            let path = std::fs::read_link(link).unwrap_or_default();
            tracing::error!(operation, file = %path.display(), %error, "a file was not served");
        }
    })
}

impl Tree {
    pub fn open(&self, inode: INodeNo, flags: i32, caller: Caller) -> io::Result<FileHandle> {
        let share = self.shares.take(caller.user)?;
        let inode = self.inodes.get(inode)?;
        let cuts = flags & libc::O_TRUNC != 0;
        let access = if cuts {
            OFlags::RDWR
        } else {
            access_for(flags)
        };
        let file = match self.known_to_read(&inode, access)? {
            Some(file) => file,
            None => self.buffered(&inode, access)?,
        };
        if cuts {
            self.drop_privileges(&inode, caller.user)?;
            file.truncate(0)?;
        }
        Ok(self.files.insert(OpenFile {
            inode,
            file,
            caller,
            _share: share,
        }))
    }

    /// What the buffer knows has a descriptor that reads, and one that only reads needs no other.
    fn known_to_read(
        &self,
        inode: &Arc<Inode>,
        access: OFlags,
    ) -> io::Result<Option<Arc<BufferedFile>>> {
        if access != OFlags::RDONLY {
            return Ok(None);
        }
        // It holds the inode until the buffer's own does: its number is no other's meanwhile, and one that is gone is told.
        let _held = self.inodes.path_fd(inode)?;
        Ok(self.buffer.known(inode.identity))
    }

    pub fn create(
        &self,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        flags: i32,
        caller: Caller,
    ) -> io::Result<(FileAttr, FileHandle)> {
        let share = self.shares.take(caller.user)?;
        let parent = self.inodes.get(parent)?;
        let path_fd = self.inodes.path_fd(&parent)?;
        let mut wanted = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if flags & libc::O_EXCL != 0 {
            wanted |= OFlags::EXCL;
        }
        let mode = Mode::from_raw_mode(mode & 0o7777);
        let opened = path_fd.directory(&self.buffer)?.open(name, wanted, mode)?;
        let path = self.reopen(opened.descriptor.as_fd(), OFlags::PATH)?;
        let file = self.buffer.adopt(opened.descriptor)?;
        let cuts = !opened.created && flags & libc::O_TRUNC != 0;
        let (inode, stat) = self.inodes.refer(path)?;
        if opened.created {
            inode.note_made(&stat);
        }
        let attributes = self
            .begin_created(&inode, &stat, cuts.then_some(&file), caller)
            .inspect_err(|_| self.inodes.forget(inode.id, 1))?;
        let opened = OpenFile {
            inode,
            file,
            caller,
            _share: share,
        };
        Ok((attributes, self.files.insert(opened)))
    }

    /// What a file shows that a create opened. One that was there already, `cut`, is emptied, which takes its
    /// privileges as any write does.
    fn begin_created(
        &self,
        inode: &Arc<Inode>,
        stat: &Stat,
        cut: Option<&Arc<BufferedFile>>,
        caller: Caller,
    ) -> io::Result<FileAttr> {
        let Some(file) = cut else {
            return self.shown(inode, stat);
        };
        self.drop_privileges(inode, caller.user)?;
        file.truncate(0)?;
        let path_fd = self.inodes.path_fd(inode)?;
        self.shown(inode, &rustix::fs::fstat(path_fd.descriptor())?)
    }

    /// Reads and hands the bytes to `answer`.
    pub fn read(
        &self,
        handle: FileHandle,
        offset: u64,
        size: u32,
        answer: impl FnOnce(io::Result<&[u8]>),
    ) {
        let size = size as usize;
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < size {
                buffer.resize(size, 0);
            }
            let done = self.read_into(handle, offset, &mut buffer[..size]);
            answer(done.map(|length| &buffer[..length]));
        });
    }

    /// Reads as much as there is, and returns how much that was.
    pub fn read_into(&self, handle: FileHandle, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        let open = self.files.get(handle)?;
        told("read", &open, open.file.read_at(offset, out))
    }

    /// The kernel has chosen the offset, for appends too: it alone knows the end while it holds the
    /// inode's lock, and its pages must match.
    pub fn write(
        &self,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        durable: bool,
        writer: Writer,
    ) -> io::Result<()> {
        let open = self.files.get(handle)?;
        // What the kernel's pages had gathered comes without the identity of its writer.
        let caller = writer.caller.unwrap_or(open.caller);
        let _on_behalf = OnBehalf::of(caller.user, caller.group);
        match writer.drops_privileges_of {
            Some(user) => self.drop_privileges(&open.inode, user)?,
            None => self.drop_capability(&open.inode)?,
        }
        told("write", &open, open.file.write_at(offset, data, durable))
    }

    pub fn sync(&self, handle: FileHandle, kind: SyncKind) -> io::Result<()> {
        let open = self.files.get(handle)?;
        told("sync", &open, open.file.sync(kind))
    }

    pub fn allocate(
        &self,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        caller: Caller,
    ) -> io::Result<()> {
        let open = self.files.get(handle)?;
        let _on_behalf = OnBehalf::of(caller.user, caller.group);
        self.drop_privileges(&open.inode, caller.user)?;
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        open.file.allocate(mode, offset, length)
    }

    pub fn seek(&self, handle: FileHandle, offset: i64, whence: i32) -> io::Result<u64> {
        let offset = u64::try_from(offset).map_err(|_| error_of(libc::ENXIO))?;
        let file = &self.files.get(handle)?.file;
        match whence {
            libc::SEEK_DATA => file.seek(offset, true),
            libc::SEEK_HOLE => file.seek(offset, false),
            _ => Err(error_of(libc::EINVAL)),
        }
    }

    /// Copies through memory: what the pool holds is not in the backing, where a copy could be shared.
    pub fn copy(
        &self,
        (from, from_offset): (FileHandle, u64),
        (to, to_offset): (FileHandle, u64),
        length: u64,
        caller: Caller,
    ) -> io::Result<u64> {
        let (from, to) = (self.files.get(from)?, self.files.get(to)?);
        let _on_behalf = OnBehalf::of(caller.user, caller.group);
        self.drop_privileges(&to.inode, caller.user)?;
        let length = length.min(COPY_BYTES_MAX);
        let mut step = vec![0; COPY_STEP_BYTES.min(length as usize)];
        let mut done = 0;
        while done < length {
            let wanted = (length - done).min(step.len() as u64) as usize;
            let copied = from
                .file
                .read_at(from_offset + done, &mut step[..wanted])
                .and_then(|found| {
                    to.file.write_at(to_offset + done, &step[..found], false)?;
                    Ok(found)
                });
            match copied {
                Ok(0) => break,
                Ok(found) => done += found as u64,
                // What was copied is reported first; the next call meets the error again.
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    pub fn release(&self, handle: FileHandle) -> Option<Arc<OpenFile>> {
        self.files.remove(handle)
    }
}

#[cfg(test)]
#[path = "bytes_tests.rs"]
mod tests;
