//! A plain FUSE passthrough with the mount's own settings and no Forebay: what a buffered write costs
//! through FUSE at all, for comparisons. Files and directories only; runs until it is unmounted.
//!
//!     passthrough DATA MOUNT [--threads N] [--writeback-cache]

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, RenameFlags,
    ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyWrite, ReplyXattr, Request, SessionACL, TimeOrNow, WriteFlags,
};
use rustix::fs::{AtFlags, Mode, OFlags, Stat};

const BELIEF: Duration = Duration::from_secs(1);
const OPENED: FopenFlags = FopenFlags::FOPEN_KEEP_CACHE;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

struct Passthrough {
    inodes: RwLock<HashMap<u64, Arc<OwnedFd>>>,
    files: RwLock<HashMap<u64, Arc<File>>>,
    next: AtomicU64,
    has_writeback_cache: bool,
}

fn errno(error: io::Error) -> Errno {
    Errno::from_i32(error.raw_os_error().unwrap_or(libc::EIO))
}

fn attributes(stat: &Stat) -> FileAttr {
    let time = |seconds: i64, nanoseconds| -> SystemTime {
        UNIX_EPOCH + Duration::new(seconds.max(0) as u64, nanoseconds as u32)
    };
    FileAttr {
        ino: INodeNo(stat.st_ino),
        size: stat.st_size as u64,
        blocks: stat.st_blocks as u64,
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
        crtime: UNIX_EPOCH,
        kind: match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
            rustix::fs::FileType::Directory => FileType::Directory,
            rustix::fs::FileType::Symlink => FileType::Symlink,
            _ => FileType::RegularFile,
        },
        perm: (stat.st_mode & 0o7777) as u16,
        nlink: stat.st_nlink as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: stat.st_rdev as u32,
        blksize: stat.st_blksize as u32,
        flags: 0,
    }
}

impl Passthrough {
    fn inode(&self, inode: INodeNo) -> io::Result<Arc<OwnedFd>> {
        let found = self.inodes.read().unwrap().get(&inode.0).cloned();
        found.ok_or_else(|| io::ErrorKind::StaleNetworkFileHandle.into())
    }

    fn file(&self, handle: FileHandle) -> io::Result<Arc<File>> {
        let found = self.files.read().unwrap().get(&handle.0).cloned();
        found.ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))
    }

    fn enter(&self, file: File) -> FileHandle {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.files.write().unwrap().insert(number, Arc::new(file));
        FileHandle(number)
    }

    fn find(&self, parent: INodeNo, name: &OsStr) -> io::Result<FileAttr> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = rustix::fs::openat(self.inode(parent)?, name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&found)?;
        let mut inodes = self.inodes.write().unwrap();
        inodes.entry(stat.st_ino).or_insert_with(|| Arc::new(found));
        Ok(attributes(&stat))
    }

    fn reopen(&self, inode: INodeNo, flags: OFlags) -> io::Result<File> {
        let path = format!("/proc/self/fd/{}", self.inode(inode)?.as_raw_fd());
        Ok(rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())?.into())
    }

    fn stat(&self, inode: INodeNo) -> io::Result<FileAttr> {
        Ok(attributes(&rustix::fs::fstat(self.inode(inode)?)?))
    }
}

fn access(flags: i32) -> OFlags {
    let cut = if flags & libc::O_TRUNC != 0 {
        OFlags::TRUNC
    } else {
        OFlags::empty()
    };
    match flags & libc::O_ACCMODE {
        libc::O_RDONLY => OFlags::RDONLY | cut,
        _ => OFlags::RDWR | cut,
    }
}

fn empty(result: io::Result<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}

fn entry(result: io::Result<FileAttr>, reply: ReplyEntry) {
    match result {
        Ok(found) => reply.entry(&BELIEF, &found, Generation(0)),
        Err(error) => reply.error(errno(error)),
    }
}

impl Filesystem for Passthrough {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let _ = config.set_max_write(1 << 20);
        let _ = config.set_max_background(64);
        for capability in [
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_ATOMIC_O_TRUNC,
            InitFlags::FUSE_EXPLICIT_INVAL_DATA,
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
            InitFlags::FUSE_PARALLEL_DIROPS,
        ] {
            let _ = config.add_capabilities(capability);
        }
        if self.has_writeback_cache {
            let _ = config.add_capabilities(InitFlags::FUSE_WRITEBACK_CACHE);
        }
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(self.find(parent, name), reply);
    }

    fn getattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        match self.stat(inode) {
            Ok(found) => reply.attr(&BELIEF, &found),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn setattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let result = size
            .map_or(Ok(()), |size| {
                self.reopen(inode, OFlags::RDWR)?.set_len(size)
            })
            .and_then(|()| self.stat(inode));
        match result {
            Ok(found) => reply.attr(&BELIEF, &found),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn mkdir(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let made = self.inode(parent).and_then(|parent| {
            let mode = Mode::from_raw_mode(mode);
            Ok(rustix::fs::mkdirat(parent, name, mode)?)
        });
        entry(made.and_then(|()| self.find(parent, name)), reply);
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let result = self
            .inode(parent)
            .and_then(|parent| Ok(rustix::fs::unlinkat(parent, name, AtFlags::empty())?));
        empty(result, reply);
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let result = self
            .inode(parent)
            .and_then(|parent| Ok(rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)?));
        empty(result, reply);
    }

    fn rename(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        _flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let result = self.inode(parent).and_then(|from| {
            let to = self.inode(new_parent)?;
            Ok(rustix::fs::renameat(from, name, to, new_name)?)
        });
        empty(result, reply);
    }

    fn open(&self, _request: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.reopen(inode, access(flags.0)) {
            Ok(file) => reply.opened(self.enter(file), OPENED),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn create(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let made = self.inode(parent).and_then(|directory| {
            let flags = access(flags) | OFlags::CREATE | OFlags::CLOEXEC;
            let file = rustix::fs::openat(directory, name, flags, Mode::from_raw_mode(mode))?;
            Ok((self.find(parent, name)?, File::from(file)))
        });
        match made {
            Ok((found, file)) => {
                let handle = self.enter(file);
                reply.created(&BELIEF, &found, Generation(0), handle, OPENED);
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn read(
        &self,
        _request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        BUFFER.with_borrow_mut(|buffer| {
            buffer.resize(buffer.len().max(size as usize), 0);
            let out = &mut buffer[..size as usize];
            let read = self.file(handle).and_then(|file| file.read_at(out, offset));
            match read {
                Ok(length) => reply.data(&buffer[..length]),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn write(
        &self,
        _request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self
            .file(handle)
            .and_then(|file| file.write_all_at(data, offset));
        match written {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn flush(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::ENOSYS);
    }

    fn release(
        &self,
        _request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        drop(self.files.write().unwrap().remove(&handle.0));
        reply.ok();
    }

    fn fsync(
        &self,
        _request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        is_data_only: bool,
        reply: ReplyEmpty,
    ) {
        let synced = self.file(handle).and_then(|file| match is_data_only {
            true => file.sync_data(),
            false => file.sync_all(),
        });
        empty(synced, reply);
    }

    fn readdir(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self
            .reopen(inode, OFlags::RDONLY | OFlags::DIRECTORY)
            .and_then(|directory| Ok(rustix::fs::Dir::read_from(directory)?));
        let Ok(listed) = listed else {
            return reply.error(Errno::EIO);
        };
        for (index, name) in listed.flatten().enumerate().skip(offset as usize) {
            use std::os::unix::ffi::OsStrExt;
            let kind = match name.file_type() {
                rustix::fs::FileType::Directory => FileType::Directory,
                _ => FileType::RegularFile,
            };
            let text = OsStr::from_bytes(name.file_name().to_bytes());
            if reply.add(INodeNo(name.ino()), index as u64 + 1, kind, text) {
                break;
            }
        }
        reply.ok();
    }

    fn getxattr(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _name: &OsStr,
        _size: u32,
        reply: ReplyXattr,
    ) {
        reply.error(Errno::ENOSYS);
    }
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [data, mount, options @ ..] = arguments.as_slice() else {
        eprintln!("passthrough DATA MOUNT [--threads N] [--writeback-cache]");
        std::process::exit(2);
    };
    let threads = options
        .iter()
        .position(|option| option == "--threads")
        .and_then(|at| options.get(at + 1)?.parse().ok());
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(data, flags, Mode::empty())?;
    rustix::process::umask(Mode::empty());
    let tree = Passthrough {
        inodes: RwLock::new(HashMap::from([(INodeNo::ROOT.0, Arc::new(root))])),
        files: RwLock::default(),
        next: AtomicU64::new(1),
        has_writeback_cache: options.iter().any(|option| option == "--writeback-cache"),
    };
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("passthrough".to_owned()),
        MountOption::DefaultPermissions,
    ];
    config.acl = SessionACL::All;
    config.n_threads = Some(threads.unwrap_or(4));
    config.clone_fd = true;
    fuser::mount(tree, PathBuf::from(mount), &config)
}
