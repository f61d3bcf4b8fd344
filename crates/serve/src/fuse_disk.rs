//! A [`BlockDevice`] exported as one file, `disk`, in a FUSE mount.
//!
//! Guarantees: a write the kernel saw acknowledged is in the device; the kernel caches nothing of
//! ours, so that another user of the device never reads stale bytes; fsync costs nothing, because
//! there is nothing left to do. A request that comes whole goes down whole; the kernel splits what
//! is longer than [`MAX_REQUEST_BYTES`] or its own limit.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use forebay::internals::AlignedBuffer;
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr, Request, SessionACL, TimeOrNow, WriteFlags,
};

use crate::allocator::no_memory;
use crate::block_device::{BlockDevice, DeviceError};
use crate::mount_point::{self, MOUNT_SOURCE, MountIdentity};

/// The largest read or write that is asked for in one request: the most that one transaction holds.
/// The kernel has a limit of its own, 256 pages unless `fs.fuse.max_pages_limit` says more.
pub const MAX_REQUEST_BYTES: u32 = 4 << 20;

/// Requests the kernel may have under way in the background; asynchronous direct I/O counts here.
const MAX_BACKGROUND_REQUESTS: u16 = 128;

/// Names and attributes never change while the disk is mounted; short, so that a dead mount shows.
const ATTRIBUTE_LIFETIME: Duration = Duration::from_secs(1);

const DISK_NAME: &str = "disk";
const DISK_INODE: INodeNo = INodeNo(2);

/// How a disk is exported.
#[derive(Debug, Clone)]
pub struct DiskOptions {
    /// Threads that serve requests; a request that waits for the backing occupies one.
    pub threads: usize,
    /// Let users other than the daemon's own (and root) use the mount.
    pub allow_other: bool,
}

impl Default for DiskOptions {
    fn default() -> Self {
        DiskOptions {
            threads: 8,
            allow_other: false,
        }
    }
}

/// A mounted disk. Dropping it unmounts where that is possible.
#[derive(Debug)]
pub struct DiskMount {
    identity: MountIdentity,
    session: BackgroundSession,
}

impl DiskMount {
    /// Mounts `device` on `directory` and serves it from background threads.
    ///
    /// `on_end` is called once when the mount has ended, no matter what unmounted it. The mount's
    /// own reference to `device` is dropped before that.
    pub fn new(
        device: impl BlockDevice,
        directory: &Path,
        options: &DiskOptions,
        on_end: impl FnOnce() + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let directory = mount_point::prepare(directory)?;
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName(MOUNT_SOURCE.to_owned()),
            MountOption::NoExec,
            MountOption::NoAtime,
        ];
        config.acl = if options.allow_other {
            SessionACL::All
        } else {
            SessionACL::Owner
        };
        config.n_threads = Some(options.threads.max(1));
        config.clone_fd = true;
        let disk = FuseDisk {
            device: Some(device),
            on_end: Some(Box::new(on_end)),
            mounted_at: SystemTime::now(),
            owner: (
                rustix::process::geteuid().as_raw(),
                rustix::process::getegid().as_raw(),
            ),
        };
        let session = fuser::spawn_mount(disk, &directory, &config).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!(
                    "the disk could not be mounted on {} through /dev/fuse ({error}); run as root, or install fuse3",
                    directory.display()
                ),
            )
        })?;
        let identity = MountIdentity::of(&directory)?;
        Ok(DiskMount { identity, session })
    }

    /// The directory the disk is mounted on, absolute.
    pub fn directory(&self) -> &Path {
        &self.identity.directory
    }

    /// What tells this mount from any other at the same place.
    pub fn identity(&self) -> &MountIdentity {
        &self.identity
    }

    /// The path of the exported file.
    pub fn disk_path(&self) -> PathBuf {
        self.identity.directory.join(DISK_NAME)
    }

    /// Unmounts; fails with [`io::ErrorKind::ResourceBusy`] while the disk is in use, unless
    /// `lazily`: then the mount vanishes at once and its users get errors when the daemon exits.
    /// Fails with [`io::ErrorKind::NotFound`] where it has been unmounted already, and leaves alone
    /// what has been mounted over it.
    pub fn unmount(&self, lazily: bool) -> io::Result<()> {
        self.identity.unmount(lazily)
    }

    /// Waits until the mount has ended, and returns the session's error if it had one.
    pub fn join(self) -> io::Result<()> {
        mount_point::session_end(self.session.join())
    }
}

struct FuseDisk<D> {
    /// Taken when the session ends, so that the device is released before `on_end` is called.
    device: Option<D>,
    on_end: Option<Box<dyn FnOnce() + Send + Sync>>,
    mounted_at: SystemTime,
    owner: (u32, u32),
}

thread_local! {
    /// One read buffer a worker, as large as the largest request it has seen. What a read brings past the page cache goes straight
    /// into it, since it begins on a page.
    static READ_BUFFER: RefCell<AlignedBuffer> = RefCell::new(AlignedBuffer::new(0));
}

impl<D: BlockDevice> FuseDisk<D> {
    fn device(&self) -> &D {
        self.device
            .as_ref()
            .expect("requests end before the device is released")
    }

    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let (kind, perm, nlink, size) = match inode {
            INodeNo::ROOT => (FileType::Directory, 0o755, 2, 0),
            DISK_INODE => (FileType::RegularFile, 0o600, 1, self.device().size_bytes()),
            _ => return None,
        };
        Some(FileAttr {
            ino: inode,
            size,
            blocks: size.div_ceil(512),
            atime: self.mounted_at,
            mtime: self.mounted_at,
            ctime: self.mounted_at,
            crtime: self.mounted_at,
            kind,
            perm,
            nlink,
            uid: self.owner.0,
            gid: self.owner.1,
            rdev: 0,
            blksize: self.device().block_size(),
            flags: 0,
        })
    }

    fn read_into_reply(&self, offset: u64, size: u32, reply: ReplyData) {
        // Past the end a file reads short; it is not an error as it is on the device.
        let left = self.device().size_bytes().saturating_sub(offset);
        let length = u64::from(size).min(left) as usize;
        READ_BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < length {
                let Some(larger) = AlignedBuffer::try_new(length) else {
                    let error = DeviceError::from(no_memory(length));
                    return reply.error(report("read", offset, length as u64, &error));
                };
                *buffer = larger;
            }
            let bytes = &mut buffer[..length];
            match self.device().read_at(offset, bytes) {
                Ok(()) => reply.data(bytes),
                Err(error) => reply.error(report("read", offset, length as u64, &error)),
            }
        });
    }

    fn allocate(&self, offset: u64, length: u64, mode: i32) -> Result<(), DeviceError> {
        let device = self.device();
        match mode & !libc::FALLOC_FL_KEEP_SIZE {
            0 => device.check_range(offset, length),
            libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE => {
                // What lies past the end reads as nothing already.
                let end = offset.saturating_add(length).min(device.size_bytes());
                let length = end.saturating_sub(offset);
                if length == 0 {
                    Ok(())
                } else if mode & libc::FALLOC_FL_PUNCH_HOLE != 0 {
                    device.discard(offset, length)
                } else {
                    device.write_zeroes(offset, length)
                }
            }
            _ => Err(DeviceError::Unsupported {
                operation: "this mode of fallocate",
            }),
        }
    }
}

/// Says in the log what went wrong, since the kernel only carries a number.
fn report(operation: &str, offset: u64, length: u64, error: &DeviceError) -> Errno {
    if !matches!(error, DeviceError::Unsupported { .. }) {
        tracing::error!(operation, offset, length, %error, "a request of the FUSE disk failed");
    }
    Errno::from_i32(error.errno())
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
        Ok(())
    }

    fn destroy(&mut self) {
        self.device = None;
        if let Some(on_end) = self.on_end.take() {
            on_end();
        }
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(DISK_INODE) {
            Some(attributes) if parent == INodeNo::ROOT && name == DISK_NAME => {
                reply.entry(&ATTRIBUTE_LIFETIME, &attributes, Generation(0));
            }
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        _fh: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        match self.attributes(inode) {
            Some(attributes) => reply.attr(&ATTRIBUTE_LIFETIME, &attributes),
            None => reply.error(Errno::ENOENT),
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
        let Some(attributes) = self.attributes(inode) else {
            return reply.error(Errno::ENOENT);
        };
        let keeps_size = size.is_none_or(|size| size == attributes.size);
        if keeps_size && mode.is_none() && uid.is_none() && gid.is_none() {
            reply.attr(&ATTRIBUTE_LIFETIME, &attributes);
        } else {
            // A disk has one size; a program that truncates must be told, not obeyed in part.
            reply.error(Errno::EPERM);
        }
    }

    fn open(&self, _request: &Request, inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        if inode != DISK_INODE {
            return reply.error(Errno::EISDIR);
        }
        reply.opened(
            FileHandle(0),
            FopenFlags::FOPEN_DIRECT_IO
                | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
                | FopenFlags::FOPEN_NOFLUSH,
        );
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
        if inode == DISK_INODE {
            self.read_into_reply(offset, size, reply);
        } else {
            reply.error(Errno::EISDIR);
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
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        if inode != DISK_INODE {
            return reply.error(Errno::EISDIR);
        }
        match self.device().write_at(offset, data) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(report("write", offset, data.len() as u64, &error)),
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
        // Acknowledged writes are durable already: after the first confirmation, ENOSYS makes the
        // kernel succeed at once and spares every later fsync the round trip.
        match self.device().flush() {
            Ok(()) if inode == DISK_INODE => reply.error(Errno::ENOSYS),
            Ok(()) => reply.ok(),
            Err(error) => reply.error(report("flush", 0, self.device().size_bytes(), &error)),
        }
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
        if inode != DISK_INODE {
            return reply.error(Errno::EISDIR);
        }
        match self.allocate(offset, length, mode) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(report("fallocate", offset, length, &error)),
        }
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
        // The whole disk is data; the only hole is the one every file has at its end.
        let size_bytes = self.device().size_bytes() as i64;
        match whence {
            _ if offset < 0 || offset >= size_bytes => reply.error(Errno::ENXIO),
            libc::SEEK_DATA => reply.offset(offset),
            libc::SEEK_HOLE => reply.offset(size_bytes),
            _ => reply.error(Errno::EINVAL),
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
        if inode != INodeNo::ROOT {
            return reply.error(Errno::ENOTDIR);
        }
        let entries = [
            (INodeNo::ROOT, FileType::Directory, "."),
            (INodeNo::ROOT, FileType::Directory, ".."),
            (DISK_INODE, FileType::RegularFile, DISK_NAME),
        ];
        for (index, (inode, kind, name)) in entries.into_iter().enumerate().skip(offset as usize) {
            if reply.add(inode, index as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _request: &Request, _inode: INodeNo, reply: ReplyStatfs) {
        let block_size = self.device().block_size();
        let blocks = self.device().size_bytes() / u64::from(block_size);
        reply.statfs(blocks, 0, 0, 1, 0, block_size, 255, block_size);
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
