//! The tree of names: what each request about a name or an inode does to the backing and the buffer.
//!
//! Every change of a name goes through [`forebay_files::Directory`], every byte and size of a file
//! through [`forebay_files::BufferedFile`]; attributes are the backing's own, but for the size.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use forebay_files::{AttributeChange, BufferedFile, Directory, FileBuffer, FileIdentity, SyncKind};
use fuser::{FileAttr, INodeNo, Notifier, TimeOrNow};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat, StatVfs};

use crate::attributes;
use crate::credentials::Caller;
use crate::inodes::{Inode, Inodes, SET_ID_BITS};
use crate::listing::OpenDirectory;
use crate::open_files::OpenTable;
use crate::path_fd::PathFd;
use crate::shares::{Share, Shares};

/// An open file of the kernel's.
#[derive(Debug)]
pub struct OpenFile {
    /// The inode, which outlives its name.
    pub inode: Arc<Inode>,
    /// Its bytes.
    pub file: Arc<BufferedFile>,
    /// The caller that opened it.
    pub caller: Caller,
    /// Counted for its user.
    pub _share: Option<Share>,
}

/// What is to change of an inode.
#[derive(Debug, Default)]
pub struct Change {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub user: Option<u32>,
    /// Group.
    pub group: Option<u32>,
    /// Size in bytes.
    pub size_bytes: Option<u64>,
    /// Access time.
    pub accessed: Option<TimeOrNow>,
    /// Modification time.
    pub modified: Option<TimeOrNow>,
}

impl Change {
    fn sets_times(&self) -> bool {
        self.accessed.is_some() || self.modified.is_some()
    }
}

/// The whole tree with what is open in it.
#[derive(Debug)]
pub struct Tree {
    pub(crate) buffer: Arc<FileBuffer>,
    pub(crate) inodes: Inodes,
    pub(crate) files: OpenTable<OpenFile>,
    pub(crate) directories: OpenTable<OpenDirectory>,
    pub(crate) shares: Arc<Shares>,
    /// Tells the kernel what it does not know, once there is a session.
    kernel: Arc<OnceLock<Notifier>>,
}

/// What a write takes from a file (`capabilities(7)`).
pub(crate) const CAPABILITY: &str = "security.capability";

#[cfg(test)]
thread_local! {
    /// How often this thread opened an inode of the backing again.
    pub(crate) static REOPENED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

pub(crate) fn error_of(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

/// The path by which an open inode is reached again with other rights.
pub(crate) fn magic_link(descriptor: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}

impl Tree {
    /// The tree below an open directory.
    pub fn new(
        buffer: Arc<FileBuffer>,
        directory: OwnedFd,
        path_fds_max: usize,
        shares: Arc<Shares>,
    ) -> io::Result<Tree> {
        Ok(Tree {
            buffer,
            inodes: Inodes::new(directory, path_fds_max)?,
            files: OpenTable::default(),
            directories: OpenTable::default(),
            shares,
            kernel: Arc::default(),
        })
    }

    /// Where the session's notifier goes when there is one.
    pub fn kernel(&self) -> Arc<OnceLock<Notifier>> {
        Arc::clone(&self.kernel)
    }

    /// Opens an open inode again.
    pub(crate) fn reopen(&self, descriptor: BorrowedFd<'_>, flags: OFlags) -> io::Result<OwnedFd> {
        #[cfg(test)]
        REOPENED.set(REOPENED.get() + 1);
        let path = magic_link(descriptor);
        Ok(rustix::fs::open(
            path,
            flags | OFlags::CLOEXEC,
            Mode::empty(),
        )?)
    }

    fn path_fd_of(&self, inode: INodeNo) -> io::Result<Arc<PathFd>> {
        self.inodes.path_fd(&self.inodes.get(inode)?)
    }

    /// Runs `change` on the directory `parent`.
    fn in_directory<T>(
        &self,
        parent: INodeNo,
        change: impl FnOnce(&Directory) -> io::Result<T>,
    ) -> io::Result<T> {
        change(self.path_fd_of(parent)?.directory(&self.buffer)?)
    }

    /// What the kernel is told of an inode whose backing says `stat`.
    pub(crate) fn shown(&self, inode: &Inode, stat: &Stat) -> io::Result<FileAttr> {
        // Only the root has another number here than in the backing, and no entry shows it.
        let number = match inode.id {
            INodeNo::ROOT => INodeNo(stat.st_ino),
            id => id,
        };
        let mut attributes = attributes::of(stat, number);
        if inode.kind == FileType::RegularFile
            && let Some(facts) = self.buffer.facts(inode.identity)?
        {
            attributes.size = facts.size_bytes;
            attributes.blocks = attributes.blocks.saturating_sub(facts.spare_bytes / 512);
            attributes.mtime = facts.modified.unwrap_or(attributes.mtime);
            let changed = attributes.ctime;
            attributes.ctime = facts.written.map_or(changed, |at| at.max(changed));
        }
        Ok(attributes)
    }

    pub fn look_up(&self, parent: INodeNo, name: &OsStr) -> io::Result<FileAttr> {
        let path_fd = self.path_fd_of(parent)?;
        self.look_up_in(path_fd.descriptor(), name)
    }

    /// Tells the kernel of the inode that a name leads to; it counts as told once more.
    pub(crate) fn look_up_in(
        &self,
        directory: BorrowedFd<'_>,
        name: &OsStr,
    ) -> io::Result<FileAttr> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let descriptor = rustix::fs::openat(directory, name, flags, Mode::empty())?;
        let (inode, stat) = self.inodes.refer(descriptor)?;
        self.shown(&inode, &stat)
            .inspect_err(|_| self.inodes.forget(inode.id, 1))
    }

    pub fn attributes(&self, inode: INodeNo) -> io::Result<FileAttr> {
        let inode = self.inodes.get(inode)?;
        let path_fd = self.inodes.path_fd(&inode)?;
        let stat = rustix::fs::fstat(path_fd.descriptor())?;
        self.shown(&inode, &stat)
    }

    /// Changes what `change` names. `user` asks; only root may keep the set-user-id bits of a file
    /// that it cuts.
    pub fn change(
        &self,
        inode: INodeNo,
        open: Option<&OpenFile>,
        change: &Change,
        user: u32,
    ) -> io::Result<FileAttr> {
        let inode = self.inodes.get(inode)?;
        let path_fd = self.inodes.path_fd(&inode)?;
        let descriptor = path_fd.descriptor();
        let result = self.apply(&inode, descriptor, open, change, user);
        // Also where it failed half-way.
        if change.sets_times() {
            self.buffer.times_changed(inode.identity);
        }
        result?;
        let stat = rustix::fs::fstat(descriptor)?;
        self.shown(&inode, &stat)
    }

    fn apply(
        &self,
        inode: &Arc<Inode>,
        descriptor: BorrowedFd<'_>,
        open: Option<&OpenFile>,
        change: &Change,
        user: u32,
    ) -> io::Result<()> {
        let set = |change| self.set_rights(inode, descriptor, &change);
        if change.user.is_some() || change.group.is_some() {
            set(AttributeChange::Owner {
                user: change.user,
                group: change.group,
            })?;
        }
        if let Some(mode) = change.mode {
            set(AttributeChange::Mode(mode))?;
        }
        if let Some(size_bytes) = change.size_bytes {
            self.drop_privileges(inode, user)?;
            match open {
                Some(open) => open.file.truncate(size_bytes)?,
                None => self.buffered(inode, OFlags::RDWR)?.truncate(size_bytes)?,
            }
        }
        if change.sets_times() {
            let times = attributes::timestamps(change.accessed, change.modified);
            rustix::fs::utimensat(descriptor, c"", &times, AtFlags::EMPTY_PATH)?;
        }
        if change.modified.is_some() {
            self.modified_chosen(inode)?;
        }
        Ok(())
    }

    /// Changes mode or owner. A file's writes that come meanwhile wait, and take or make durable what it left.
    fn set_rights(
        &self,
        inode: &Inode,
        descriptor: BorrowedFd<'_>,
        change: &AttributeChange<'_>,
    ) -> io::Result<()> {
        inode.may_have_privileges.arise_by(|| {
            let mode = rustix::fs::fstat(descriptor)?.st_mode;
            self.change_mode_or_owner(inode, descriptor, mode, change)
        })
    }

    /// Where set-id bits may go, and may not be recorded as gone, the next write makes that durable before it is: the kernel, which
    /// sees none any more, will not ask for it.
    fn change_mode_or_owner(
        &self,
        inode: &Inode,
        descriptor: BorrowedFd<'_>,
        mode_before: u32,
        change: &AttributeChange<'_>,
    ) -> io::Result<()> {
        let set = || self.buffer.change_attributes(descriptor, change).map(drop);
        match inode.kind == FileType::RegularFile && mode_before & SET_ID_BITS != 0 {
            true => inode.may_have_capability.arise_by(set),
            false => set(),
        }
    }

    /// The time of modification was set in the backing: what the pool writes there later is no reason
    /// to move it.
    fn modified_chosen(&self, inode: &Inode) -> io::Result<()> {
        let known = self.buffer.known(inode.identity);
        known.map_or(Ok(()), |file| file.modified_chosen())
    }

    /// The bytes of an inode.
    pub(crate) fn buffered(
        &self,
        inode: &Arc<Inode>,
        access: OFlags,
    ) -> io::Result<Arc<BufferedFile>> {
        let path_fd = self.inodes.path_fd(inode)?;
        self.buffer
            .adopt(self.reopen(path_fd.descriptor(), access)?)
    }

    /// Before `user` changes a file's bytes: takes the set-user-id and set-group-id bits, which only
    /// root's changes leave, and the capability. The kernel leaves that to us (`FUSE_HANDLE_KILLPRIV_V2`).
    pub(crate) fn drop_privileges(&self, inode: &Arc<Inode>, user: u32) -> io::Result<()> {
        self.drop_capability(inode)?;
        match user {
            0 => Ok(()),
            _ => inode.may_have_privileges.settle(|| self.take_set_id(inode)),
        }
    }

    fn take_set_id(&self, inode: &Arc<Inode>) -> io::Result<()> {
        let path_fd = self.inodes.path_fd(inode)?;
        let mode = Mode::from_raw_mode(rustix::fs::fstat(path_fd.descriptor())?.st_mode & 0o7777);
        let mut left = mode - Mode::SUID;
        // Without the group's right to execute it is an old mark for mandatory locks.
        if mode.contains(Mode::XGRP) {
            left -= Mode::SGID;
        }
        if left != mode {
            let change = AttributeChange::Mode(left.as_raw_mode());
            let descriptor = path_fd.descriptor();
            self.change_mode_or_owner(inode, descriptor, mode.as_raw_mode(), &change)?;
            self.forget_attributes(inode);
        }
        self.taken_durably(inode)
    }

    /// Blocks that the pool has reach the backing late, and with them what would remove it there.
    pub(crate) fn drop_capability(&self, inode: &Arc<Inode>) -> io::Result<()> {
        inode
            .may_have_capability
            .settle(|| self.take_capability(inode))
    }

    fn take_capability(&self, inode: &Arc<Inode>) -> io::Result<()> {
        let path_fd = self.inodes.path_fd(inode)?;
        let descriptor = path_fd.descriptor();
        let change = AttributeChange::Remove(OsStr::new(CAPABILITY));
        match self.buffer.change_attributes(descriptor, &change) {
            // None there, none possible, or not ours to remove: then no file of ours can have one.
            Err(error) if is_no_capability(&error) => {}
            removed => drop(removed?),
        }
        self.taken_durably(inode)
    }

    /// What the pool acknowledges next is durable at once: after a crash the file must not have its new bytes with the privileges
    /// that it had with the old ones. An earlier try may have taken them and failed to sync.
    fn taken_durably(&self, inode: &Arc<Inode>) -> io::Result<()> {
        if !self.buffer.awaits_backing(inode.identity) {
            return Ok(());
        }
        // A daemon without root's rights may not open every file that was opened by its writer.
        let file = match self.buffer.known(inode.identity) {
            Some(file) => Ok(file),
            None => self
                .buffered(inode, OFlags::RDWR)
                .or_else(|_| self.buffered(inode, OFlags::RDONLY)),
        };
        match file {
            Ok(file) => file.sync(SyncKind::All),
            Err(_) => self.sync_file_system(inode),
        }
    }

    /// For what cannot be opened.
    fn sync_file_system(&self, inode: &Inode) -> io::Result<()> {
        let root = self.inodes.get(INodeNo::ROOT)?;
        if inode.identity.device != root.identity.device {
            // No descriptor that a sync takes is at hand of the one that it is in.
            rustix::fs::sync();
            return Ok(());
        }
        let path_fd = self.inodes.path_fd(&root)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let directory = self.reopen(path_fd.descriptor(), flags)?;
        Ok(rustix::fs::syncfs(directory)?)
    }

    /// The kernel asks again before it next believes what it knows of the inode's attributes.
    fn forget_attributes(&self, inode: &Inode) {
        const ATTRIBUTES_ONLY: i64 = -1;
        if let Some(kernel) = self.kernel.get() {
            // It may not know the inode any more.
            let _ = kernel.inval_inode(inode.id, ATTRIBUTES_ONLY, 0);
        }
    }

    /// The backing's sizes.
    pub fn statistics(&self) -> io::Result<StatVfs> {
        let path_fd = self.path_fd_of(INodeNo::ROOT)?;
        Ok(rustix::fs::fstatvfs(path_fd.descriptor())?)
    }

    pub fn read_link(&self, inode: INodeNo) -> io::Result<Vec<u8>> {
        let path_fd = self.path_fd_of(inode)?;
        let target = rustix::fs::readlinkat(path_fd.descriptor(), c"", Vec::new())?;
        Ok(target.into_bytes())
    }

    pub fn make_node(
        &self,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        device: u32,
    ) -> io::Result<FileAttr> {
        let kind = FileType::from_raw_mode(mode);
        let mode = Mode::from_raw_mode(mode & 0o7777);
        self.in_directory(parent, |directory| {
            directory.make_node(name, kind, mode, u64::from(device))
        })?;
        self.look_up(parent, name)
    }

    pub fn make_directory(&self, parent: INodeNo, name: &OsStr, mode: u32) -> io::Result<FileAttr> {
        let mode = Mode::from_raw_mode(mode & 0o7777);
        self.in_directory(parent, |directory| directory.make_directory(name, mode))?;
        self.look_up(parent, name)
    }

    pub fn make_symbolic_link(
        &self,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
    ) -> io::Result<FileAttr> {
        self.in_directory(parent, |directory| {
            directory.make_symbolic_link(name, target.as_os_str())
        })?;
        self.look_up(parent, name)
    }

    pub fn link(&self, inode: INodeNo, parent: INodeNo, name: &OsStr) -> io::Result<FileAttr> {
        let inode = self.inodes.get(inode)?;
        let path_fd = self.inodes.path_fd(&inode)?;
        self.in_directory(parent, |directory| {
            directory.link_open(path_fd.descriptor(), name)
        })?;
        self.look_up(parent, name)
    }

    pub fn unlink(&self, parent: INodeNo, name: &OsStr) -> io::Result<()> {
        let losing = self.expect_loss(parent, name)?;
        let result = self.in_directory(parent, |directory| directory.unlink(name));
        self.unpin_if_linked(losing);
        result
    }

    pub fn remove_directory(&self, parent: INodeNo, name: &OsStr) -> io::Result<()> {
        let losing = self.expect_loss(parent, name)?;
        let result = self.in_directory(parent, |directory| directory.remove_directory(name));
        self.unpin_if_linked(losing);
        result
    }

    pub fn rename(
        &self,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
    ) -> io::Result<()> {
        let losing = self.expect_loss(new_parent, new_name)?;
        let to = self.path_fd_of(new_parent)?;
        let result = self.in_directory(parent, |directory| {
            directory.rename(name, to.directory(&self.buffer)?, new_name, flags)
        });
        self.unpin_if_linked(losing);
        result
    }

    /// Before a name goes: holds on to the inode that may lose its last name with it.
    fn expect_loss(&self, parent: INodeNo, name: &OsStr) -> io::Result<Option<Losing>> {
        let path_fd = self.path_fd_of(parent)?;
        let directory = path_fd.descriptor();
        let Ok(stat) = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else {
            return Ok(None);
        };
        let identity = FileIdentity {
            device: stat.st_dev,
            inode: stat.st_ino,
        };
        let Some(inode) = self.inodes.find(identity) else {
            return Ok(None);
        };
        let path_fd = self.inodes.pin(&inode)?;
        Ok(Some(Losing { inode, path_fd }))
    }

    /// After the name went, or did not.
    fn unpin_if_linked(&self, losing: Option<Losing>) {
        if let Some(Losing { inode, path_fd }) = losing {
            let stat = rustix::fs::fstat(path_fd.descriptor());
            if stat.is_ok_and(|stat| stat.st_nlink > 0) {
                self.inodes.unpin(&inode);
            }
        }
    }
}

fn is_no_capability(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENODATA | libc::EOPNOTSUPP | libc::EPERM)
    )
}

/// An inode that may be losing its last name.
struct Losing {
    inode: Arc<Inode>,
    path_fd: Arc<PathFd>,
}
