//! For checkers that cut the power of a buffer over a real directory: tells when the backing was
//! synced, lets it fail, and gives inodes other identities than the file system does. Not for programs
//! that keep data.

use std::cell::RefCell;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::identity::FileIdentity;

/// What was made durable in the backing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Synced {
    /// A file, as `fdatasync` does.
    Data(FileIdentity),
    /// A file or directory, as `fsync` does.
    All(FileIdentity),
    /// A whole file system.
    Everything,
}

/// The identity that an inode is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeenIdentity {
    /// The inode's number.
    pub inode: u64,
    /// What tells it from others that had the number.
    pub generation: u64,
}

/// Watches what a thread does.
pub trait Observer {
    /// The identity of this inode; the file system's own answer if none.
    fn identity(&self, real: FileIdentity) -> Option<SeenIdentity>;
    /// Which mounting of the backing this is said to be: another number after each loss of what was not
    /// synced.
    fn mounting(&self) -> u64;
    /// When the inode was last changed, in place of what the file system says.
    fn changed_ns(&self, _real: FileIdentity, real_ns: i128) -> i128 {
        real_ns
    }
    /// What the clock says that those times are taken from; the file system's own if none.
    fn change_clock_ns(&self) -> Option<i128> {
        None
    }
    /// When the machine is said to have started, by that clock: after everything that was done before.
    fn booted_ns(&self) -> i128 {
        i128::MAX
    }
    /// The backing is about to be synced.
    fn before_sync(&self);
    /// All of it is, while nothing is locked.
    fn before_sync_of_all(&self) {}
    /// It was.
    fn synced(&self, what: Synced);
    /// What is about to be written to the file, or synced, fails with this instead.
    fn failure(&self, _file: FileIdentity) -> Option<io::Error> {
        None
    }
    /// These pages of the file were made dirty once more.
    fn redirtied(&self, _file: FileIdentity, _bytes: Range<u64>) {}
}

/// Threads that are watched now.
static WATCHED_THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static OBSERVER: RefCell<Option<Rc<dyn Observer>>> = const { RefCell::new(None) };
}

/// Sets or clears the observer of what this thread does.
pub fn set_observer(observer: Option<Rc<dyn Observer>>) {
    let is_new = observer.is_some();
    let before = OBSERVER.with(|slot| slot.replace(observer)).is_some();
    match (before, is_new) {
        (false, true) => drop(WATCHED_THREADS.fetch_add(1, Ordering::Relaxed)),
        (true, false) => drop(WATCHED_THREADS.fetch_sub(1, Ordering::Relaxed)),
        _ => {}
    }
}

fn observer() -> Option<Rc<dyn Observer>> {
    if WATCHED_THREADS.load(Ordering::Relaxed) == 0 {
        return None;
    }
    OBSERVER.with(|slot| slot.borrow().clone())
}

/// The identity that the observer gives an inode, if any.
pub(crate) fn identity(real: FileIdentity) -> Option<SeenIdentity> {
    observer()?.identity(real)
}

/// Which mounting of the backing the observer says this is, if any.
pub(crate) fn mounting() -> Option<u64> {
    Some(observer()?.mounting())
}

/// When the inode was last changed, as the observer says.
pub(crate) fn changed_ns(real: FileIdentity, real_ns: i128) -> i128 {
    observer().map_or(real_ns, |observer| observer.changed_ns(real, real_ns))
}

/// What the observer says that the clock of those times says, if it does.
pub(crate) fn change_clock_ns() -> Option<i128> {
    observer()?.change_clock_ns()
}

/// When the observer says that the machine started, if there is one.
pub(crate) fn booted_ns() -> Option<i128> {
    Some(observer()?.booted_ns())
}

/// Fails if a write-back to the file is to fail.
pub(crate) fn before_write_back(file: FileIdentity) -> io::Result<()> {
    let failure = observer().and_then(|observer| observer.failure(file));
    failure.map_or(Ok(()), Err)
}

/// Pages of the file were made dirty once more.
pub(crate) fn redirtied(file: FileIdentity, bytes: Range<u64>) {
    if let Some(observer) = observer() {
        observer.redirtied(file, bytes);
    }
}

/// `fdatasync`.
pub(crate) fn sync_data(file: impl AsFd) -> io::Result<()> {
    watch(
        || Ok(rustix::fs::fdatasync(&file)?),
        || Ok(Synced::Data(FileIdentity::of(&file)?)),
    )
}

/// `fsync`.
pub(crate) fn sync_all(file: impl AsFd) -> io::Result<()> {
    watch(
        || Ok(rustix::fs::fsync(&file)?),
        || Ok(Synced::All(FileIdentity::of(&file)?)),
    )
}

/// `syncfs`.
pub(crate) fn sync_file_system(file: impl AsFd) -> io::Result<()> {
    if let Some(observer) = observer() {
        observer.before_sync_of_all();
    }
    watch(|| Ok(rustix::fs::syncfs(&file)?), || Ok(Synced::Everything))
}

fn watch(
    sync: impl FnOnce() -> io::Result<()>,
    what: impl FnOnce() -> io::Result<Synced>,
) -> io::Result<()> {
    let Some(observer) = observer() else {
        return sync();
    };
    observer.before_sync();
    let what = what()?;
    if let Synced::Data(file) | Synced::All(file) = what
        && let Some(error) = observer.failure(file)
    {
        return Err(error);
    }
    sync()?;
    observer.synced(what);
    Ok(())
}
