//! A file in memory whose syncs take a stated time: the only file of a FUSE mount of this program. The kernel reads and writes it by
//! itself, past this program (FUSE passthrough); a sync is asked of us, and answered when the delayed disk would answer it.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use forebay_harness::Result;
use fuser::{
    BackgroundSession, BackingId, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType,
    Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig, LockOwner, MountOption,
    OpenFlags, ReplyAttr, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyXattr, Request, Session,
    SessionACL, TimeOrNow,
};
use rustix::mount::UnmountFlags;

use crate::delayed::Delay;
use crate::delayed::backlog::Backlog;

const NAME: &str = "disk";
const FILE_INODE: INodeNo = INodeNo(2);
/// The kernel asks each time: it does not see what is written past it.
const LIFETIME: Duration = Duration::ZERO;
const BLOCK_BYTES: u32 = 4096;
/// Before all programs that ask for nothing.
const FIRST_NICE: i32 = -20;
/// Between two looks at what has been written; so much of a second comes too late into the cache.
const LOOK_PERIOD: Duration = Duration::from_millis(10);
/// Of a block device's `stat`: the sectors written, of so many bytes each.
const WRITTEN_FIELD: usize = 6;
const SECTOR_BYTES: u64 = 512;

/// The cache of the disk, and where the kernel counts what is written to it.
struct Cache {
    backlog: Backlog,
    counter: Option<File>,
}

impl Cache {
    /// None where nothing counts.
    fn written_bytes(&self) -> Option<u64> {
        let mut text = [0; 512];
        let length = self.counter.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(&text[..length]).ok()?;
        let sectors: u64 = text.split_whitespace().nth(WRITTEN_FIELD)?.parse().ok()?;
        Some(sectors * SECTOR_BYTES)
    }

    fn look(&mut self) {
        if let Some(written_bytes) = self.written_bytes() {
            self.backlog.look(written_bytes, Instant::now());
        }
    }
}

fn locked(cache: &Mutex<Cache>) -> MutexGuard<'_, Cache> {
    // Plain numbers, whole at any moment.
    cache.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the kernel asks.
struct OneFile {
    file: Arc<File>,
    cache: Arc<Mutex<Cache>>,
    /// The file as the kernel knows it, from the first open on; all opens have the same.
    known: Mutex<Option<BackingId>>,
    /// That the one thread comes before programs.
    is_first: Once,
}

impl OneFile {
    fn attributes(&self, inode: INodeNo) -> io::Result<FileAttr> {
        let found = self.file.metadata()?;
        let (kind, perm, size, blocks) = match inode {
            INodeNo::ROOT => (FileType::Directory, 0o700, 0, 0),
            FILE_INODE => (FileType::RegularFile, 0o600, found.len(), found.blocks()),
            _ => return Err(rustix::io::Errno::NOENT.into()),
        };
        Ok(FileAttr {
            ino: inode,
            size,
            blocks,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: found.uid(),
            gid: found.gid(),
            rdev: 0,
            blksize: BLOCK_BYTES,
            flags: 0,
        })
    }
}

fn errno(error: &io::Error) -> Errno {
    let unknown = rustix::io::Errno::IO.raw_os_error();
    Errno::from_i32(error.raw_os_error().unwrap_or(unknown))
}

fn answer(result: io::Result<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(&error)),
    }
}

impl Filesystem for OneFile {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let lacks = "needs a kernel with FUSE passthrough (Linux 6.9, CONFIG_FUSE_PASSTHROUGH)";
        let unsupported = |_| io::Error::new(io::ErrorKind::Unsupported, lacks);
        config
            .add_capabilities(InitFlags::FUSE_PASSTHROUGH)
            .map_err(unsupported)?;
        // Ours lies on tmpfs, which is stacked on nothing.
        config
            .set_max_stack_depth(1)
            .map_err(|_| unsupported(InitFlags::empty()))?;
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let is_there = parent == INodeNo::ROOT && name == NAME;
        match self.attributes(FILE_INODE) {
            Ok(found) if is_there => reply.entry(&LIFETIME, &found, Generation(0)),
            Ok(_) => reply.error(Errno::ENOENT),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode) {
            Ok(found) => reply.attr(&LIFETIME, &found),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<std::time::SystemTime>,
        _: Option<FileHandle>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let found = self.attributes(inode);
        // A disk has one size.
        match found {
            Ok(found) if size.is_none_or(|size| size == found.size) => {
                reply.attr(&LIFETIME, &found);
            }
            Ok(_) => reply.error(Errno::EPERM),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn open(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        if inode != FILE_INODE {
            return reply.error(Errno::ENOENT);
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_none() {
            match reply.open_backing(&self.file) {
                Ok(made) => *known = Some(made),
                Err(error) => return reply.error(errno(&error)),
            }
        }
        let backing = known.as_ref().expect("it was made");
        reply.opened_passthrough(FileHandle(0), FopenFlags::empty(), backing);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // The kernel asks no more: a close syncs nothing.
        reply.error(Errno::ENOSYS);
    }

    /// The flush of the disk. One thread answers all, so that each is alone.
    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.is_first.call_once(come_first);
        let wait = {
            let mut cache = locked(&self.cache);
            let written_bytes = cache.written_bytes();
            cache.backlog.flush(written_bytes, Instant::now())
        };
        if !wait.is_zero() {
            thread::sleep(wait);
        }
        reply.ok();
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mode = rustix::fs::FallocateFlags::from_bits_retain(mode as u32);
        let done = rustix::fs::fallocate(&self.file, mode, offset, length);
        answer(done.map_err(io::Error::from), reply);
    }

    /// The kernel asks no more: it would before each write, for a capability that the write takes away.
    fn getxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }
}

/// A disk waits for no processor: what is busy on this machine must not make it slower than was asked for.
fn come_first() {
    let own = rustix::thread::gettid();
    // Refused where priorities are not ours to raise; the disk is then slower while the machine is busy, which is measured.
    let _ = rustix::process::setpriority_process(Some(own), FIRST_NICE);
}

/// The file, all hole when it is made. When it is dropped nobody new finds it; those that have it open keep it.
pub struct DelayedFile {
    front: PathBuf,
    file: Arc<File>,
    cache: Arc<Mutex<Cache>>,
    /// Ends with its last user.
    _session: BackgroundSession,
}

impl std::fmt::Debug for DelayedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DelayedFile")
            .field("front", &self.front)
            .finish_non_exhaustive()
    }
}

impl DelayedFile {
    /// So many bytes below the folder `memory`, mounted at the folder `front`.
    ///
    /// # Errors
    /// It cannot be made or mounted here.
    pub fn serve(delay: Delay, bytes: u64, memory: &Path, front: &Path) -> Result<DelayedFile> {
        let file = Arc::new(tempfile::tempfile_in(memory)?);
        file.set_len(bytes)?;
        let cache = Arc::new(Mutex::new(Cache {
            backlog: Backlog::new(delay.0, Instant::now()),
            counter: None,
        }));
        let served = OneFile {
            file: Arc::clone(&file),
            cache: Arc::clone(&cache),
            known: Mutex::new(None),
            is_first: Once::new(),
        };
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("forebay-delayed".to_owned())];
        config.acl = SessionACL::Owner;
        config.n_threads = Some(1);
        let session = Session::new(served, front, &config).and_then(Session::spawn);
        let session =
            session.map_err(|error| format!("delayed disk at {}: {error}", front.display()))?;
        look_from_time_to_time(Arc::downgrade(&cache))?;
        Ok(DelayedFile {
            front: front.to_owned(),
            file,
            cache,
            _session: session,
        })
    }

    pub fn path(&self) -> PathBuf {
        self.front.join(NAME)
    }

    /// From now on what is written to this block device over the file counts.
    ///
    /// # Errors
    /// The kernel does not say what it counts.
    pub fn count(&self, device: &str) -> Result<()> {
        let name = Path::new(device).file_name().ok_or("no block device")?;
        let path = Path::new("/sys/block").join(name).join("stat");
        let mut cache = locked(&self.cache);
        cache.counter = Some(File::open(&path)?);
        let written_bytes = cache.written_bytes();
        let written_bytes = written_bytes.ok_or_else(|| {
            let path = path.display();
            format!("{path} does not say how much was written, as it does since Linux 2.6")
        })?;
        cache.backlog.begin(written_bytes, Instant::now());
        Ok(())
    }

    /// A new disk in the place of this one. Nothing may use it.
    ///
    /// # Errors
    /// It cannot be emptied.
    pub fn replace(&self) -> Result<()> {
        let bytes = self.file.metadata()?.len();
        self.file.set_len(0)?;
        Ok(self.file.set_len(bytes)?)
    }
}

impl Drop for DelayedFile {
    fn drop(&mut self) {
        // Other namespaces may have it too; it ends with the last of them. What fails here is gone already.
        let _ = rustix::mount::unmount(&self.front, UnmountFlags::DETACH);
    }
}

/// As long as the disk is there.
fn look_from_time_to_time(cache: Weak<Mutex<Cache>>) -> io::Result<()> {
    let look = move || {
        while let Some(cache) = cache.upgrade() {
            locked(&cache).look();
            drop(cache);
            thread::sleep(LOOK_PERIOD);
        }
    };
    let name = "delayed-disk".to_owned();
    thread::Builder::new().name(name).spawn(look).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_a_sync_waits() {
        if let Some(obstacle) = forebay_harness::mount_obstacle() {
            eprintln!("skipped a delayed file: {obstacle}");
            return;
        }
        let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
        let front = folder.path().join("front");
        std::fs::create_dir(&front).expect("made");
        let delay = Delay(Duration::from_millis(2));
        let disk = match DelayedFile::serve(delay, 1 << 20, folder.path(), &front) {
            Ok(disk) => disk,
            Err(error) => {
                eprintln!("skipped a delayed file: {error}");
                return;
            }
        };
        let found = std::fs::metadata(disk.path()).expect("there");
        assert_eq!((found.len(), found.blocks()), (1 << 20, 0));
        let options = File::options().read(true).write(true).to_owned();
        let file = options.open(disk.path()).expect("opened");
        file.write_all_at(&[7; 4096], 8192).expect("written");
        let began = Instant::now();
        file.sync_data().expect("synced");
        assert!(began.elapsed() >= delay.0);
        let other = File::open(disk.path()).expect("opened again");
        let mut read = [0; 4096];
        other.read_exact_at(&mut read, 8192).expect("read");
        assert_eq!(read, [7; 4096]);
        drop((file, other));
        disk.replace().expect("emptied");
        let found = std::fs::metadata(disk.path()).expect("there");
        assert_eq!((found.len(), found.blocks()), (1 << 20, 0));
    }
}
