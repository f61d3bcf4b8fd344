//! The inodes that the kernel knows, and how each is reached again.
//!
//! An inode's number here is its number in the backing, so that programs see the same one; inodes of
//! other file systems below the directory get numbers of their own. Invariant: a known inode that lost
//! its last name through us is held by a descriptor, so that its number is not used again while the
//! kernel knows it. Of the others only so many are held by descriptors; the rest by file handles.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Weak};

use forebay_files::FileIdentity;
use fuser::INodeNo;
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{FileType, Mode, OFlags, Stat};

use crate::path_fd::{InodeHandle, PathFd};
use crate::suspicion::Suspicion;

/// From here on numbers are ours; no file system counts this far.
const OWN_NUMBERS: u64 = 1 << 63;

/// Bits of a mode by which a program runs with its owner's or group's rights.
pub const SET_ID_BITS: u32 = libc::S_ISUID | libc::S_ISGID;

/// How many path descriptors are examined for one to close.
const RELEASE_TRIES: usize = 8;

/// One inode.
#[derive(Debug)]
pub struct Inode {
    /// The kernel's name for it.
    pub id: INodeNo,
    /// Which inode of the backing.
    pub identity: FileIdentity,
    /// What it is; that never changes.
    pub kind: FileType,
    /// Whether a set-user-id or set-group-id bit may be there, for writes to clear.
    pub may_have_privileges: Suspicion,
    /// Whether a file capability may be there, for writes to remove; or set-id bits went that may come back with a power cut, which
    /// the kernel knows nothing of.
    pub may_have_capability: Suspicion,
    handle: Option<InodeHandle>,
    hold: Mutex<Hold>,
}

#[derive(Debug)]
struct Hold {
    path_fd: Option<Arc<PathFd>>,
    /// The path descriptor must stay: the inode has no handle, or may lose its last name.
    is_pinned: bool,
    /// Used since it was last examined.
    is_used: bool,
}

impl Inode {
    /// `device` is the one whose handles can be opened.
    fn new(
        id: INodeNo,
        identity: FileIdentity,
        kind: FileType,
        descriptor: OwnedFd,
        device: u64,
    ) -> Inode {
        let path_fd = PathFd::new(descriptor);
        let handle = match identity.device == device {
            true => InodeHandle::of(path_fd.descriptor()).ok(),
            false => None,
        };
        Inode {
            id,
            identity,
            kind,
            may_have_privileges: Suspicion::default(),
            may_have_capability: Suspicion::default(),
            hold: Mutex::new(Hold {
                is_pinned: handle.is_none(),
                path_fd: Some(Arc::new(path_fd)),
                is_used: true,
            }),
            handle,
        }
    }

    fn hold(&self) -> MutexGuard<'_, Hold> {
        self.hold.lock()
    }

    /// It was just made through us, and `stat` says how it is: no capability is there for the first write to take, nor
    /// a set-id bit that `stat` does not show.
    pub fn note_made(&self, stat: &Stat) {
        self.may_have_capability.begins_settled();
        if stat.st_mode & SET_ID_BITS == 0 {
            self.may_have_privileges.begins_settled();
        }
    }

    /// Lets the path descriptor go if it can be opened again and has not been used lately.
    fn release(&self) -> bool {
        let mut hold = self.hold();
        let in_use = hold
            .path_fd
            .as_ref()
            .is_some_and(|path_fd| Arc::strong_count(path_fd) > 1);
        if hold.is_pinned || in_use || std::mem::take(&mut hold.is_used) {
            return false;
        }
        hold.path_fd = None;
        true
    }

    /// Whether `descriptor`, of an inode with the same number, is this inode and not one that got the
    /// number after it.
    fn is_same(&self, descriptor: &OwnedFd) -> bool {
        let is_held = self.hold().path_fd.is_some();
        is_held || InodeHandle::of(descriptor.as_fd()).ok() == self.handle
    }
}

/// Every inode that the kernel knows.
#[derive(Debug)]
pub struct Inodes {
    root: Arc<Inode>,
    /// The root once more, in the form that handles are opened with.
    mount: OwnedFd,
    path_fds_max: usize,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    by_id: HashMap<u64, Entry>,
    by_identity: HashMap<FileIdentity, u64>,
    /// Inodes with a path descriptor, longest held first; what is gone may still be in it.
    with_path_fd: VecDeque<Weak<Inode>>,
    own_numbers_given: u64,
}

#[derive(Debug)]
struct Entry {
    inode: Arc<Inode>,
    /// The kernel's lookups of it, less those that it forgot.
    lookups: u64,
}

impl Inodes {
    /// A table with the root, an open directory, which is never forgotten.
    pub fn new(mount: OwnedFd, path_fds_max: usize) -> io::Result<Inodes> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(&mount, c".", flags, Mode::empty())?;
        let identity = FileIdentity::of(&root)?;
        let kind = FileType::Directory;
        let root = Inode::new(INodeNo::ROOT, identity, kind, root, identity.device);
        root.hold().is_pinned = true;
        Ok(Inodes {
            root: Arc::new(root),
            mount,
            path_fds_max,
            known: Mutex::default(),
        })
    }

    /// A known inode.
    ///
    /// # Errors
    /// `ESTALE` if the kernel was never told of it.
    pub fn get(&self, id: INodeNo) -> io::Result<Arc<Inode>> {
        if id == INodeNo::ROOT {
            return Ok(Arc::clone(&self.root));
        }
        let known = self.known();
        let entry = known.by_id.get(&id.0);
        entry
            .map(|entry| Arc::clone(&entry.inode))
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ESTALE))
    }

    /// The inode with this identity, if the kernel knows it.
    pub fn find(&self, identity: FileIdentity) -> Option<Arc<Inode>> {
        if identity == self.root.identity {
            return Some(Arc::clone(&self.root));
        }
        let known = self.known();
        let id = known.by_identity.get(&identity)?;
        known.by_id.get(id).map(|entry| Arc::clone(&entry.inode))
    }

    /// The inode of an `O_PATH` descriptor, which the kernel is about to be told of once more.
    pub fn refer(&self, descriptor: OwnedFd) -> io::Result<(Arc<Inode>, Stat)> {
        let stat = rustix::fs::fstat(&descriptor)?;
        let identity = FileIdentity {
            device: stat.st_dev,
            inode: stat.st_ino,
        };
        if identity == self.root.identity {
            return Ok((Arc::clone(&self.root), stat));
        }
        let mut known = self.known();
        if let Some(entry) = known
            .by_identity
            .get(&identity)
            .copied()
            .and_then(|id| known.by_id.get_mut(&id))
            && entry.inode.is_same(&descriptor)
        {
            entry.lookups += 1;
            return Ok((Arc::clone(&entry.inode), stat));
        }
        let id = known.number_for(identity, self.root.identity.device);
        let kind = FileType::from_raw_mode(stat.st_mode);
        let device = self.root.identity.device;
        let inode = Inode::new(INodeNo(id), identity, kind, descriptor, device);
        let inode = Arc::new(inode);
        known.by_identity.insert(identity, id);
        let entry = Entry {
            inode: Arc::clone(&inode),
            lookups: 1,
        };
        known.by_id.insert(id, entry);
        self.note_path_fd(&mut known, &inode);
        Ok((inode, stat))
    }

    /// The kernel forgot `lookups` of what it was told.
    pub fn forget(&self, id: INodeNo, lookups: u64) {
        if id == INodeNo::ROOT {
            return;
        }
        let mut known = self.known();
        let Some(entry) = known.by_id.get_mut(&id.0) else {
            return;
        };
        entry.lookups = entry.lookups.saturating_sub(lookups);
        if entry.lookups == 0 {
            let identity = entry.inode.identity;
            known.by_id.remove(&id.0);
            if known.by_identity.get(&identity) == Some(&id.0) {
                known.by_identity.remove(&identity);
            }
        }
    }

    /// A descriptor of the inode, opened again if it was closed.
    ///
    /// # Errors
    /// `ESTALE` where the inode was removed behind our back.
    pub fn path_fd(&self, inode: &Arc<Inode>) -> io::Result<Arc<PathFd>> {
        let mut hold = inode.hold();
        hold.is_used = true;
        if let Some(path_fd) = &hold.path_fd {
            return Ok(Arc::clone(path_fd));
        }
        let stale = || io::Error::from_raw_os_error(libc::ESTALE);
        let handle = inode.handle.as_ref().ok_or_else(stale)?;
        let path_fd = Arc::new(PathFd::new(handle.open(self.mount.as_fd())?));
        hold.path_fd = Some(Arc::clone(&path_fd));
        drop(hold);
        self.note_path_fd(&mut self.known(), inode);
        Ok(path_fd)
    }

    /// Holds the inode by a descriptor from now on: it may lose its last name.
    pub fn pin(&self, inode: &Arc<Inode>) -> io::Result<Arc<PathFd>> {
        inode.hold().is_pinned = true;
        self.path_fd(inode)
    }

    /// The inode has a name after all.
    pub fn unpin(&self, inode: &Arc<Inode>) {
        if inode.id != INodeNo::ROOT {
            inode.hold().is_pinned = inode.handle.is_none();
        }
    }

    fn note_path_fd(&self, known: &mut Known, inode: &Arc<Inode>) {
        known.with_path_fd.push_back(Arc::downgrade(inode));
        for _ in 0..RELEASE_TRIES {
            if known.with_path_fd.len() <= self.path_fds_max {
                return;
            }
            let oldest = known.with_path_fd.pop_front();
            if let Some(oldest) = oldest.and_then(|oldest| oldest.upgrade())
                && !oldest.release()
            {
                known.with_path_fd.push_back(Arc::downgrade(&oldest));
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }
}

impl Known {
    /// The backing's number where that is free and tells the inode from all others.
    fn number_for(&mut self, identity: FileIdentity, root_device: u64) -> u64 {
        let number = identity.inode;
        let is_ordinary = identity.device == root_device
            && number > INodeNo::ROOT.0
            && number < OWN_NUMBERS
            && !self.by_id.contains_key(&number);
        if is_ordinary {
            return number;
        }
        self.own_numbers_given += 1;
        OWN_NUMBERS + self.own_numbers_given
    }
}
