//! What the names module asks of a file system: directories by handle, names in them, and which
//! inode is behind a name. [`super::real::RealSpace`] is the kernel's; tests have a tree that forgets.

use std::ffi::{OsStr, OsString};
use std::io;

use super::attributes::AttributeChange;
use super::file_system::Mark;
pub(super) use super::seen::PRIVILEGE_BITS;
pub(crate) use super::seen::{Identity, KIND_BITS, Seen, is_directory};
use crate::metadata::FileId;

/// A name in a directory.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Place {
    pub parent: FileId,
    pub name: OsString,
}

/// Which mounting of a file system, of all that ever were. While it lasts the kernel forgets nothing
/// that was done, whatever became of the processes that did it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mounting {
    /// The boot's id.
    pub boot: [u8; BOOT_BYTES],
    /// The mount's, which no other of the boot has.
    pub mount: u64,
}

/// Bytes of a boot's id.
pub(crate) const BOOT_BYTES: usize = 16;

/// Where an inode is that has none of the names it should.
pub(crate) enum Sought<H> {
    /// Somewhere.
    Held(H),
    /// It does not exist, or has no name.
    Nowhere,
    /// The file system cannot say, or not to us.
    Unknown,
}

/// Everything that is needed to make an inode anew, but for its content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Creation {
    /// Kind and permissions.
    pub mode: u32,
    pub user: u32,
    pub group: u32,
    /// What a device node stands for.
    pub device: u64,
    /// Where a symbolic link leads; else empty.
    pub target: OsString,
}

impl Creation {
    /// As the inode is now.
    pub(crate) fn of(seen: &Seen, target: OsString) -> Creation {
        Creation {
            mode: seen.mode,
            user: seen.user,
            group: seen.group,
            device: seen.node_device,
            target,
        }
    }
}

/// What a rename does about the new name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Renaming {
    /// Replaces what has it.
    Replace,
    /// Fails if something has it.
    NoReplace,
    /// Gives it the old one.
    Exchange,
}

/// A tree of names. No call follows a symbolic link.
pub(crate) trait NameSpace {
    /// Holds an inode, whatever becomes of its names.
    type Handle: Clone;

    /// The directory that all names are under.
    fn root(&self) -> Self::Handle;
    /// The identity of what is held.
    fn seen(&self, handle: &Self::Handle) -> io::Result<Seen>;
    /// The identity of what has the name now.
    fn look(&self, directory: &Self::Handle, name: &OsStr) -> io::Result<Option<Seen>>;
    /// Holds what has the name.
    fn hold(&self, directory: &Self::Handle, name: &OsStr) -> io::Result<Self::Handle>;
    /// Names from the root to a held inode, the root's own without any.
    fn path(&self, handle: &Self::Handle) -> io::Result<Vec<OsString>>;
    /// The names that begin with `prefix`.
    fn names(&self, directory: &Self::Handle, prefix: &str) -> io::Result<Vec<OsString>>;
    /// Whether the directory of this name has no name in it.
    fn is_empty(&self, directory: &Self::Handle, name: &OsStr) -> io::Result<bool>;
    /// Whether the caller may change the name in this directory.
    fn check_removable(&self, directory: &Self::Handle, victim: &Seen) -> io::Result<()>;
    /// Where a symbolic link leads.
    fn target(&self, directory: &Self::Handle, name: &OsStr) -> io::Result<OsString>;
    /// Makes an inode, with owner and mode.
    fn make(&self, directory: &Self::Handle, name: &OsStr, creation: &Creation) -> io::Result<()>;
    /// Gives an inode one more name.
    fn link(
        &self,
        from: (&Self::Handle, &OsStr),
        directory: &Self::Handle,
        name: &OsStr,
    ) -> io::Result<()>;
    /// Changes a name.
    fn rename(
        &self,
        from: (&Self::Handle, &OsStr),
        to: (&Self::Handle, &OsStr),
        how: Renaming,
    ) -> io::Result<()>;
    /// Changes attributes of a held inode.
    fn change(&self, handle: &Self::Handle, change: &AttributeChange<'_>) -> io::Result<()>;
    /// The value of an extended attribute, if it is there.
    fn value(&self, handle: &Self::Handle, name: &OsStr) -> io::Result<Option<Vec<u8>>>;
    /// Whether recovery will find the inode by its identity wherever it is, and may give it any attribute, for all that can
    /// be told: only then attributes of it are recorded.
    fn finds(&self, identity: &Identity) -> bool;
    /// Which mounting of its file system an inode is on; none where changes could be forgotten while that
    /// lasts.
    fn mounting(&self, handle: &Self::Handle) -> io::Result<Option<Mounting>>;
    /// Which file system something lies on; none if it does not tell.
    fn mark(&self, handle: &Self::Handle) -> io::Result<Option<Mark>>;
    /// Finds an inode, by what it is, on the file system of a directory.
    fn seek(
        &self,
        directory: &Self::Handle,
        identity: &Identity,
    ) -> io::Result<Sought<Self::Handle>>;
    /// Whether all directories below the root may be looked through.
    fn is_searchable(&self) -> bool;
    /// Removes a name; a directory has to be empty.
    fn remove(&self, directory: &Self::Handle, name: &OsStr, is_directory: bool) -> io::Result<()>;
    /// Makes one inode, its names and those of the directories on the way to it durable.
    fn sync_inode(&self, handle: &Self::Handle) -> io::Result<()>;
    /// Makes everything durable.
    fn sync_all(&self) -> io::Result<()>;
    /// What was made before this moment is durable even without a sync.
    fn durable_before_ns(&self) -> i128;
    /// Which boot of the machine this is, and when it began, by the clock that times of change are taken from.
    fn boot(&self) -> [u8; BOOT_BYTES];
    /// See [`NameSpace::boot`].
    fn booted_ns(&self) -> i128;
    /// What that clock says.
    fn change_clock_ns(&self) -> i128;
    /// The clock that inodes' times are taken from, in nanoseconds since 1970.
    fn now_ns(&self) -> i128;
}
