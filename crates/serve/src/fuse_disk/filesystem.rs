//! Requests that come by `/dev/fuse`, each handed to the [`Disk`] and answered.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use forebay::internals::AlignedBuffer;
use fuser::{
    Errno, FileHandle, Filesystem, Generation, INodeNo, InitFlags, KernelConfig, LockOwner,
    OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use super::disk::{Change, Disk, report};
use super::waiting::WaitingReads;
use crate::allocator::no_memory;
use crate::block_device::{BlockDevice, DeviceError};
use crate::fuse_ring::Rings;

/// The largest read or write that is asked for in one request: the most that one transaction holds.
/// The kernel has a limit of its own, 256 pages unless `fs.fuse.max_pages_limit` says more.
pub const MAX_REQUEST_BYTES: u32 = 4 << 20;

/// Requests the kernel may have under way in the background; asynchronous direct I/O counts here.
const MAX_BACKGROUND_REQUESTS: u16 = 128;

/// Names and attributes never change while the disk is mounted; short, so that a dead mount shows.
pub const ATTRIBUTE_LIFETIME: Duration = Duration::from_secs(1);

/// The file system that the kernel talks to.
pub struct FuseDisk<D> {
    /// Taken when the session ends, so that the device is released before `on_end` is called.
    disk: Option<Arc<Disk<D>>>,
    /// Reads that wait for the backing; none where each keeps its thread, as it does where the rings bring them.
    waiting: Option<WaitingReads>,
    rings: Arc<Rings>,
    on_end: Option<Box<dyn FnOnce() + Send + Sync>>,
}

thread_local! {
    /// One read buffer a worker, as large as the largest request it has seen. What a read brings past the page cache goes straight
    /// into it, since it begins on a page.
    static READ_BUFFER: RefCell<AlignedBuffer> = RefCell::new(AlignedBuffer::new(0));
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_i32(error.raw_os_error().unwrap_or(libc::EIO))
}

fn answer_empty(result: io::Result<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(&error)),
    }
}

impl<D: BlockDevice> FuseDisk<D> {
    pub fn new(
        disk: Arc<Disk<D>>,
        rings: Arc<Rings>,
        on_end: impl FnOnce() + Send + Sync + 'static,
    ) -> FuseDisk<D> {
        FuseDisk {
            waiting: None,
            disk: Some(disk),
            rings,
            on_end: Some(Box::new(on_end)),
        }
    }

    fn disk(&self) -> &Disk<D> {
        self.disk
            .as_ref()
            .expect("requests end before the device is released")
    }

    fn read_into_reply(&self, offset: u64, length: usize, reply: ReplyData) {
        READ_BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < length {
                let Some(larger) = AlignedBuffer::try_new(length) else {
                    let error = DeviceError::from(no_memory(length));
                    let error = report("read", offset, length as u64, &error);
                    return reply.error(errno(&error));
                };
                *buffer = larger;
            }
            let bytes = &mut buffer[..length];
            match self.disk().read_into(offset, bytes) {
                Ok(()) => reply.data(bytes),
                Err(error) => reply.error(errno(&error)),
            }
        });
    }
}

impl<D: BlockDevice> Filesystem for FuseDisk<D> {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // The setters only fail by answering the nearest value that would do.
        if let Err(nearest) = config.set_max_write(MAX_REQUEST_BYTES) {
            let _ = config.set_max_write(nearest);
        }
        let _ = config.set_max_background(MAX_BACKGROUND_REQUESTS);
        // Each is requested by itself: an older kernel lacks some and works without them.
        for capability in [
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
        ] {
            let _ = config.add_capabilities(capability);
        }
        self.rings.negotiate(config)?;
        if !self.rings.are_agreed() {
            self.waiting = WaitingReads::start(&self.disk().device);
        }
        Ok(())
    }

    fn destroy(&mut self) {
        // The mount is gone, and with it what the rings' threads wait for.
        self.rings.join();
        self.waiting = None;
        self.disk = None;
        if let Some(on_end) = self.on_end.take() {
            on_end();
        }
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.disk().look_up(parent, name) {
            Ok(found) => reply.entry(&ATTRIBUTE_LIFETIME, &found, Generation(0)),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn getattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        _fh: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        match self.disk().attributes(inode) {
            Ok(attributes) => reply.attr(&ATTRIBUTE_LIFETIME, &attributes),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn setattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = Change {
            size_bytes: size,
            has_more: mode.is_some() || uid.is_some() || gid.is_some(),
        };
        match self.disk().change(inode, change) {
            Ok(attributes) => reply.attr(&ATTRIBUTE_LIFETIME, &attributes),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn open(&self, _request: &Request, inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        match self.disk().open(inode) {
            Ok(flags) => reply.opened(FileHandle(0), flags),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn read(
        &self,
        _request: &Request,
        inode: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let length = match self.disk().readable(inode, offset, size) {
            Ok(length) => length,
            Err(error) => return reply.error(errno(&error)),
        };
        let left = match &self.waiting {
            Some(waiting) => waiting.take(offset, length, reply),
            None => Some(reply),
        };
        if let Some(reply) = left {
            self.read_into_reply(offset, length, reply);
        }
    }

    fn write(
        &self,
        _request: &Request,
        inode: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.disk().write(inode, offset, data, flags.0) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn flush(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        // ENOSYS makes the kernel succeed at once from now on, without asking again.
        reply.error(Errno::ENOSYS);
    }

    fn fsync(
        &self,
        _request: &Request,
        inode: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        answer_empty(self.disk().sync(inode), reply);
    }

    fn fallocate(
        &self,
        _request: &Request,
        inode: INodeNo,
        _fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        answer_empty(self.disk().allocate(inode, offset, length, mode), reply);
    }

    fn lseek(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        match self.disk().seek(offset, whence) {
            Ok(found) => reply.offset(found as i64),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn readdir(
        &self,
        _request: &Request,
        inode: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self.disk().list(inode, offset, |listed| {
            !reply.add(
                INodeNo(listed.number),
                listed.next_offset,
                listed.kind,
                listed.name,
            )
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn statfs(&self, _request: &Request, _inode: INodeNo, reply: ReplyStatfs) {
        let found = self.disk().statistics();
        let (block_bytes, name_max) = (found.f_bsize as u32, found.f_namemax as u32);
        let (files, blocks) = (found.f_files, found.f_blocks);
        reply.statfs(blocks, 0, 0, files, 0, block_bytes, name_max, block_bytes);
    }

    fn getxattr(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _name: &OsStr,
        _size: u32,
        reply: ReplyXattr,
    ) {
        // Answered here only to stay silent: the kernel asks once and remembers.
        reply.error(Errno::ENOSYS);
    }
}
