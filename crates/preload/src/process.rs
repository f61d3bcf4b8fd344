//! The library's state in this process: its settings, the pool while it has it, the files that it
//! covers. A child of `fork` begins with a new, empty one.
//!
//! Order of locks: the barrier, an open file's `life`, then any one of those in here.

#![allow(
    unsafe_code,
    reason = "one record for the process, replaced in a child; signals are blocked by thread"
)]

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use std::time::{Duration, Instant};

use forebay::{RegionOptions, RuntimeOptions};
use forebay_files::tally::Count;
use forebay_files::{FileBuffer, FileBufferOptions, FileIdentity, Marking};

use crate::inherited::Fork;
use crate::leases::LeaseThread;
use crate::locking::lock;
use crate::open_file::OpenFile;
use crate::record_locks::RecordLocks;
use crate::settings::Settings;
use crate::{descriptors, owner_mark, protection, table, tally};

/// Opening the pool is retried after this time.
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// How often opening is retried while the owner may be closing the pool.
const RECOVERY_TRIES: u32 = 3;
/// So long another process may take to recover the pool, and so often this one looks whether it has.
const OTHERS_RECOVERY_MAX: Duration = Duration::from_secs(60);
const OTHERS_RECOVERY_LOOK: Duration = Duration::from_millis(10);
/// So many closed files stay buffered; beyond that the one closed first becomes plain. The buffer
/// itself would keep a few more.
const CLOSED_FILES_MAX: usize = 48;

static PROCESS: AtomicPtr<Process> = AtomicPtr::new(ptr::null_mut());

/// The state of this process.
pub struct Process {
    pub settings: &'static Settings,
    session: Mutex<Session>,
    files: Mutex<HashMap<FileIdentity, &'static OpenFile>>,
    /// How many `files` holds; checked first, without the lock.
    tracked: AtomicUsize,
    /// Those of `files` that the program has closed, in this order.
    closed: Mutex<Vec<&'static OpenFile>>,
    free: Mutex<Vec<&'static OpenFile>>,
    /// The folders that the kernel has synced since this process has the pool, and how many changes of
    /// names had gone unseen before: what their names were then is durable.
    folders: Mutex<HashMap<FileIdentity, u64>>,
    /// Changes of names that the log does not know.
    unseen_names: AtomicU64,
    pub record_locks: RecordLocks,
    /// Read while a file becomes buffered, written while nothing may: across a fork, an exec, an exit.
    pub barrier: RwLock<()>,
    pub forks: Mutex<Vec<Fork>>,
    pub leases: OnceLock<LeaseThread>,
    /// What the thread of the leases does.
    keep_leases: fn(),
    /// The program bypasses us: nothing is buffered any more.
    is_off: AtomicBool,
    /// Syncs made while the process had no pool.
    syncs: AtomicU64,
}

#[derive(Default)]
struct Session {
    /// How often the pool had made something durable when it was open.
    persists_before: u64,
    buffer: Option<Arc<FileBuffer>>,
    /// The mark that this process has the pool; held for as long as it has.
    mark: Option<OwnedFd>,
    not_before: Option<Instant>,
}

/// The state, once the library has begun, and has a pool to work with.
#[inline]
pub fn get() -> Option<&'static Process> {
    // SAFETY: null, or a leaked box, which is never freed.
    unsafe { PROCESS.load(Ordering::Acquire).as_ref() }
}

/// Begins anew with these settings, and with what the thread of the leases is to do.
pub fn begin(settings: &'static Settings, keep_leases: fn()) -> &'static Process {
    let process = Box::leak(Box::new(Process {
        settings,
        session: Mutex::default(),
        files: Mutex::default(),
        tracked: AtomicUsize::new(0),
        closed: Mutex::default(),
        free: Mutex::default(),
        folders: Mutex::default(),
        unseen_names: AtomicU64::new(0),
        record_locks: RecordLocks::default(),
        barrier: RwLock::new(()),
        forks: Mutex::default(),
        leases: OnceLock::new(),
        keep_leases,
        is_off: AtomicBool::new(false),
        syncs: AtomicU64::new(0),
    }));
    PROCESS.store(process, Ordering::Release);
    process
}

impl Process {
    /// The buffer, if this process has it.
    pub fn buffer(&self) -> Option<Arc<FileBuffer>> {
        lock(&self.session).buffer.clone()
    }

    /// As [`Process::open_buffer`], for a sync; where earlier processes of the tree opened the pool for a few
    /// syncs only, not before this one has done some without.
    ///
    /// # Errors
    /// As what the file counts that is not buffered for that.
    pub fn open_buffer_if_worth(&'static self) -> Result<Option<Arc<FileBuffer>>, Count> {
        if let Some(buffer) = self.buffer() {
            return Ok(Some(buffer));
        }
        if self.syncs.fetch_add(1, Ordering::Relaxed) < tally::reluctance() {
            return Err(Count::Brief);
        }
        if self.is_off.load(Ordering::Relaxed) {
            return Err(Count::Other);
        }
        Ok(self.open_buffer())
    }

    /// The buffer; the pool is opened for it, which recovers what another process left in it.
    pub fn open_buffer(&'static self) -> Option<Arc<FileBuffer>> {
        if self.is_off.load(Ordering::Relaxed) {
            return None;
        }
        let mut session = lock(&self.session);
        if session.buffer.is_some() {
            return session.buffer.clone();
        }
        if session.not_before.is_some_and(|time| Instant::now() < time) {
            return None;
        }
        let runtime = RuntimeOptions::default()
            .region(RegionOptions::default().trust_owner(self.settings.trust_owner))
            .fill_on_read(false)
            // Rings would be made after the opening, at the program's low numbers, unknown as ours: the program could close one and
            // get its number for a file, which the ring's end would close.
            .read_rings(false);
        let options = FileBufferOptions::new(&self.settings.pool)
            .runtime(runtime)
            // Processes may be short and many; the command that began them reports when all is
            // written back.
            .marking(Marking::OnceABoot(self.settings.mark.clone()));
        // The pool's threads are made in there, and take no signal of the program's.
        let opened = with_signals_blocked(|| {
            protection::draw_key();
            let buffer =
                descriptors::opening_high(&self.paths_of_ours(), || FileBuffer::open(&options))?;
            buffer.keep_descriptors_by(descriptors::move_high)?;
            if let Err(error) = protection::protect(options.pool()) {
                let log = &self.settings.log;
                log.once("keys", &format!("the pool is not protected: {error}"));
            }
            self.leases
                .get_or_init(|| LeaseThread::start(self.keep_leases));
            let mark = owner_mark::make(&self.settings.owner_mark())?;
            io::Result::Ok((buffer, descriptors::move_high(mark)?))
        });
        match opened {
            Ok((buffer, mark)) => {
                self.settings.log.line("has the pool");
                tally::add(Count::Opens);
                session.persists_before = buffer.persists();
                session.buffer = Some(buffer);
                session.mark = Some(mark);
            }
            Err(error) => {
                let pool = self.settings.pool.display();
                self.settings.log.once(
                    "pool",
                    &format!("files are not buffered for now: {pool}: {error}"),
                );
                session.not_before = Some(Instant::now() + RETRY_AFTER);
            }
        }
        session.buffer.clone()
    }

    /// What the buffer keeps open: the pool, what lies beside it, and where all names begin.
    fn paths_of_ours(&self) -> Vec<PathBuf> {
        let pool = &self.settings.pool;
        let pool = pool.canonicalize().unwrap_or_else(|_| pool.clone());
        let mut side = pool.clone().into_os_string();
        side.push(".files");
        vec![pool, side.into(), "/".into()]
    }

    /// Another process died with the pool: brings the backing up to date before this one reads it, or waits until the process that
    /// has the pool by now has done so.
    ///
    /// # Errors
    /// `EIO`: it cannot be done, and what the backing has may be out of date.
    pub fn recover_after_owner(&'static self) -> io::Result<()> {
        if self.is_off.load(Ordering::Relaxed) {
            return Ok(());
        }
        let log = &self.settings.log;
        for _ in 0..RECOVERY_TRIES {
            if !owner_mark::is_there(self.settings) {
                return Ok(());
            }
            lock(&self.session).not_before = None;
            if self.open_buffer().is_some() {
                log.line("recovered what a process that died had left in the pool");
                return Ok(());
            }
            if self.has_owner() {
                return Ok(());
            }
        }
        log.once(
            "stale",
            "covered files cannot be opened: the pool has newer data of them",
        );
        Err(io::Error::from_raw_os_error(libc::EIO))
    }

    /// Whether another process has the pool, and the backing is up to date. One that recovers it is waited for.
    fn has_owner(&self) -> bool {
        let began = Instant::now();
        while self.is_pool_in_use() && began.elapsed() < OTHERS_RECOVERY_MAX {
            if owner_mark::is_held(&self.settings.owner_mark()) {
                return true;
            }
            std::thread::sleep(OTHERS_RECOVERY_LOOK);
        }
        false
    }

    /// Whether another process has the pool.
    fn is_pool_in_use(&self) -> bool {
        let Ok(pool) = std::fs::File::open(&self.settings.pool) else {
            return false;
        };
        let operation = rustix::fs::FlockOperation::NonBlockingLockShared;
        rustix::fs::flock(&pool, operation) == Err(rustix::io::Errno::WOULDBLOCK)
    }

    /// Closes the pool; `is_all_back` if no file has anything left in it.
    pub fn close_pool(&self, is_all_back: bool) {
        let mut session = lock(&self.session);
        let Some(buffer) = session.buffer.take() else {
            return;
        };
        let (persists_before, mark) = (session.persists_before, session.mark.take());
        drop(session);
        lock(&self.folders).clear();
        let persists = buffer.persists();
        if self.syncs.load(Ordering::Relaxed) > 0 {
            tally::note_use(persists.saturating_sub(persists_before));
        }
        let log = &self.settings.log;
        let is_empty = is_all_back && buffer.sync_backing().is_ok();
        if is_empty {
            // Before the pool is closed: afterwards the mark may be the next owner's. If it cannot be
            // removed, other processes recover needlessly.
            let _ = std::fs::remove_file(self.settings.owner_mark());
        }
        match buffer.close() {
            Ok(()) => log.line(&format!(
                "lets the pool go: {persists} times something was made durable since it was opened"
            )),
            Err(error) => log.line(&format!("the pool was left full: {error}")),
        }
        // Last: while another process finds it held, this one answers for the files.
        drop(mark);
    }

    /// Nothing is buffered from now on; false if that was so before.
    pub fn switch_off(&self) -> bool {
        !self.is_off.swap(true, Ordering::AcqRel)
    }

    /// Whether no file is buffered.
    #[inline]
    pub fn tracks_nothing(&self) -> bool {
        self.tracked.load(Ordering::Acquire) == 0
    }

    /// The buffered file of this inode.
    pub fn tracked(&self, identity: FileIdentity) -> Option<&'static OpenFile> {
        match self.tracks_nothing() {
            true => None,
            false => lock(&self.files).get(&identity).copied(),
        }
    }

    pub fn all_tracked(&self) -> Vec<&'static OpenFile> {
        lock(&self.files).values().copied().collect()
    }

    pub fn track(&self, identity: FileIdentity, file: &'static OpenFile) {
        let mut files = lock(&self.files);
        files.insert(identity, file);
        self.tracked.store(files.len(), Ordering::Release);
    }

    pub fn untrack(&self, identity: FileIdentity, file: &'static OpenFile) {
        let mut files = lock(&self.files);
        if files
            .get(&identity)
            .is_some_and(|known| ptr::eq(*known, file))
        {
            files.remove(&identity);
        }
        self.tracked.store(files.len(), Ordering::Release);
        drop(files);
        lock(&self.closed).retain(|closed| !ptr::eq(*closed, file));
    }

    /// A file that stays buffered was closed.
    pub fn enter_closed(&self, file: &'static OpenFile) {
        let mut closed = lock(&self.closed);
        closed.push(file);
        if closed.len() > CLOSED_FILES_MAX
            && let Some(leases) = self.leases.get()
        {
            leases.wake();
        }
    }

    /// A closed file is open again.
    pub fn leave_closed(&self, file: &'static OpenFile) {
        lock(&self.closed).retain(|closed| !ptr::eq(*closed, file));
    }

    /// The closed files that are more than may stay.
    pub fn closed_too_many(&self) -> Vec<&'static OpenFile> {
        let closed = lock(&self.closed);
        let surplus = closed.len().saturating_sub(CLOSED_FILES_MAX);
        closed[..surplus].to_vec()
    }

    /// A name has changed by a way that the log does not see: the next sync of each folder is the kernel's.
    ///
    /// Takes no lock: allocators may come here.
    pub fn names_unseen(&self) {
        self.unseen_names.fetch_add(1, Ordering::AcqRel);
    }

    /// Runs the kernel's sync of a folder, unless it has been done and all changes of names since then are
    /// in the log.
    ///
    /// # Errors
    /// The sync's.
    pub fn sync_folder_if_needed(
        &self,
        identity: FileIdentity,
        sync: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        // Before the sync: what goes unseen while it lasts is for the next one.
        let unseen = self.unseen_names.load(Ordering::Acquire);
        if lock(&self.folders).get(&identity) != Some(&unseen) {
            sync()?;
            lock(&self.folders).insert(identity, unseen);
        }
        Ok(())
    }

    /// An open file to fill.
    pub fn take_open_file(&self) -> &'static OpenFile {
        let free = lock(&self.free).pop();
        free.unwrap_or_else(|| Box::leak(Box::new(OpenFile::vacant())))
    }

    /// Gives one back that is vacant and that no descriptor names.
    pub fn give_back(&self, file: &'static OpenFile) {
        lock(&self.free).push(file);
    }
}

/// Runs with every signal of this thread blocked; threads that it makes keep them so.
fn with_signals_blocked<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: the sets are filled before they are used; the calls concern this thread alone.
    let before = unsafe {
        let mut all = std::mem::zeroed();
        let mut before = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        before
    };
    let result = work();
    // SAFETY: the set is the one that the first call filled, and concerns this thread alone.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut()) };
    result
}

/// In a child of `fork`: every descriptor is the kernel's alone, and nothing of the pool is left.
pub fn begin_as_child(kept: Option<OwnedFd>) -> Option<OwnedFd> {
    use std::os::fd::AsRawFd;
    let parent = get()?;
    let held: Vec<_> = table::descriptors().map(|(fd, _)| fd).collect();
    for fd in held {
        table::set(fd, None);
    }
    descriptors::close_ours(kept.as_ref().map(AsRawFd::as_raw_fd));
    begin(parent.settings, parent.keep_leases);
    kept
}
