//! Requests of the kernel, each handed to the [`Tree`] and answered.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use forebay_files::SyncKind;
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, INodeNo,
    IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use crate::answers::{
    BELIEF, GENERATION, answer_attributes, answer_empty, answer_entry, answer_xattr, errno,
};
use crate::attributes;
use crate::bytes::Writer;
use crate::credentials::{Assumed, Caller};
use crate::negotiation;
use crate::opening::Opening;
use crate::options::MountOptions;
use crate::scheduler::Scheduler;
use crate::tree::{Change, Tree};

/// The file system that the kernel talks to.
pub struct MountedTree {
    /// Taken when the session ends, so that all is released before `on_end` is called.
    tree: Option<Arc<Tree>>,
    scheduler: Arc<Scheduler>,
    has_writeback_cache: bool,
    opening: Opening,
    on_end: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl MountedTree {
    pub fn new(
        tree: Tree,
        options: &MountOptions,
        scheduler: Arc<Scheduler>,
        on_end: impl FnOnce() + Send + Sync + 'static,
    ) -> MountedTree {
        MountedTree {
            tree: Some(Arc::new(tree)),
            scheduler,
            has_writeback_cache: options.writeback_cache,
            opening: Opening::default(),
            on_end: Some(Box::new(on_end)),
        }
    }

    fn tree(&self) -> &Arc<Tree> {
        self.tree
            .as_ref()
            .expect("requests end before the tree is released")
    }

    /// Serves a request on this thread, or on another one while something waits.
    fn serve(&self, request: impl FnOnce(&Tree) + Send + 'static) {
        self.scheduler.serve(
            request,
            |request| request(self.tree()),
            |request| {
                let tree = Arc::clone(self.tree());
                Box::new(move || request(&tree))
            },
        );
    }
}

impl Filesystem for MountedTree {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        negotiation::negotiate(config, self.has_writeback_cache);
        self.opening.negotiate(config, self.has_writeback_cache);
        Ok(())
    }

    fn destroy(&mut self) {
        self.tree = None;
        if let Some(on_end) = self.on_end.take() {
            on_end();
        }
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = name.to_owned();
        self.serve(move |tree| match tree.look_up(parent, &name) {
            // The kernel remembers that there is no such name.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {
                reply.entry(&BELIEF, &attributes::nothing(), GENERATION);
            }
            result => answer_entry(result, reply),
        });
    }

    fn forget(&self, _request: &Request, inode: INodeNo, lookups: u64) {
        self.tree().inodes.forget(inode, lookups);
    }

    fn getattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        self.serve(move |tree| answer_attributes(tree.attributes(inode), reply));
    }

    fn setattr(
        &self,
        request: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size_bytes: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _changed: Option<SystemTime>,
        handle: Option<FileHandle>,
        _created: Option<SystemTime>,
        _change_time: Option<SystemTime>,
        _backup_time: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let caller = Caller::from(request);
        let change = Change {
            mode,
            user,
            group,
            size_bytes,
            accessed,
            modified,
        };
        self.serve(move |tree| {
            let open = handle.and_then(|handle| tree.files.get(handle).ok());
            // Another group's quota is the caller's to fill, too.
            let _assumed = Assumed::of(caller, 0);
            let result = tree.change(inode, open.as_deref(), &change, caller.user);
            answer_attributes(result, reply);
        });
    }

    fn readlink(&self, _request: &Request, inode: INodeNo, reply: ReplyData) {
        match self.tree().read_link(inode) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let (caller, name) = (Caller::from(request), name.to_owned());
        self.serve(move |tree| {
            let _assumed = Assumed::of(caller, umask);
            answer_entry(tree.make_node(parent, &name, mode, device), reply);
        });
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let (caller, name) = (Caller::from(request), name.to_owned());
        self.serve(move |tree| {
            let _assumed = Assumed::of(caller, umask);
            answer_entry(tree.make_directory(parent, &name, mode), reply);
        });
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let (caller, name) = (Caller::from(request), name.to_owned());
        let target = target.to_owned();
        self.serve(move |tree| {
            let _assumed = Assumed::of(caller, 0);
            answer_entry(tree.make_symbolic_link(parent, &name, &target), reply);
        });
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.to_owned();
        self.serve(move |tree| answer_empty(tree.unlink(parent, &name), reply));
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.to_owned();
        self.serve(move |tree| answer_empty(tree.remove_directory(parent, &name), reply));
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
        let (name, new_name) = (name.to_owned(), new_name.to_owned());
        let caller = Caller::from(request);
        self.serve(move |tree| {
            let _assumed = Assumed::of(caller, 0);
            let result = tree.rename(parent, &name, new_parent, &new_name, flags);
            answer_empty(result, reply);
        });
    }

    fn link(
        &self,
        request: &Request,
        inode: INodeNo,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        let (caller, name) = (Caller::from(request), name.to_owned());
        self.serve(move |tree| {
            let _assumed = Assumed::of(caller, 0);
            answer_entry(tree.link(inode, parent, &name), reply);
        });
    }

    fn open(&self, request: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let caller = Caller::from(request);
        let opened = self.opening.how(flags.0);
        self.serve(move |tree| match tree.open(inode, flags.0, caller) {
            Ok(handle) => reply.opened(handle, opened),
            Err(error) => reply.error(errno(&error)),
        });
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let (caller, name) = (Caller::from(request), name.to_owned());
        let opened = self.opening.how(flags);
        self.serve(move |tree| {
            let _assumed = Assumed::of(caller, umask);
            match tree.create(parent, &name, mode, flags, caller) {
                Ok((found, handle)) => reply.created(&BELIEF, &found, GENERATION, handle, opened),
                Err(error) => reply.error(errno(&error)),
            }
        });
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
        self.serve(move |tree| {
            tree.read(handle, offset, size, |result| match result {
                Ok(data) => reply.data(data),
                Err(error) => reply.error(errno(&error)),
            });
        });
    }

    fn write(
        &self,
        request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let has = |flag| write_flags.contains(flag);
        let writer = Writer {
            caller: (!has(WriteFlags::FUSE_WRITE_CACHE)).then(|| Caller::from(request)),
            drops_privileges_of: has(WriteFlags::FUSE_WRITE_KILL_SUIDGID).then(|| request.uid()),
        };
        let is_durable = flags.0 & libc::O_DSYNC != 0;
        let serve = move |tree: &Tree, data: &[u8]| match tree
            .write(handle, offset, data, is_durable, writer)
        {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(errno(&error)),
        };
        self.scheduler.serve(
            serve,
            |serve| serve(self.tree(), data),
            |serve| {
                // The session reads its next request into the same memory.
                let (tree, data) = (Arc::clone(self.tree()), data.to_vec());
                Box::new(move || serve(&tree, &data))
            },
        );
    }

    fn flush(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        // Close has nothing to wait for. ENOSYS makes the kernel succeed at once from now on.
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
        self.serve(move |tree| {
            drop(tree.release(handle));
            reply.ok();
        });
    }

    fn fsync(
        &self,
        _request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        is_data_only: bool,
        reply: ReplyEmpty,
    ) {
        let kind = if is_data_only {
            SyncKind::Data
        } else {
            SyncKind::All
        };
        self.serve(move |tree| answer_empty(tree.sync(handle, kind), reply));
    }

    fn opendir(&self, request: &Request, inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let user = request.uid();
        self.serve(move |tree| match tree.open_directory(inode, user) {
            Ok(handle) => reply.opened(handle, FopenFlags::empty()),
            Err(error) => reply.error(errno(&error)),
        });
    }

    fn readdir(
        &self,
        _request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        self.serve(move |tree| {
            let result = tree.list(handle, offset, |listed| {
                let number = INodeNo(listed.number);
                !reply.add(number, listed.next_offset, listed.kind, &listed.name)
            });
            match result {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(errno(&error)),
            }
        });
    }

    fn readdirplus(
        &self,
        _request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        self.serve(move |tree| {
            let result = tree.list_with_attributes(handle, offset, |listed, found| {
                let number = INodeNo(listed.number);
                let (next, name) = (listed.next_offset, &listed.name);
                !reply.add(number, next, name, &BELIEF, found, GENERATION)
            });
            match result {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(errno(&error)),
            }
        });
    }

    fn releasedir(
        &self,
        _request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        drop(self.tree().directories.remove(handle));
        reply.ok();
    }

    fn fsyncdir(
        &self,
        _request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        _is_data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.serve(move |tree| answer_empty(tree.sync_directory(handle), reply));
    }

    fn statfs(&self, _request: &Request, _inode: INodeNo, reply: ReplyStatfs) {
        match self.tree().statistics() {
            Ok(found) => reply.statfs(
                found.f_blocks,
                found.f_bfree,
                found.f_bavail,
                found.f_files,
                found.f_ffree,
                found.f_bsize as u32,
                found.f_namemax as u32,
                found.f_frsize as u32,
            ),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn setxattr(
        &self,
        request: &Request,
        inode: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let caller = Caller::from(request);
        let (name, value) = (name.to_owned(), value.to_vec());
        // It may wait for the log, and for its file.
        self.serve(move |tree| {
            let _assumed = Assumed::of(caller, 0);
            let set = tree.set_xattr(inode, &name, &value, flags, caller.user);
            answer_empty(set, reply);
        });
    }

    fn getxattr(
        &self,
        request: &Request,
        inode: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        answer_xattr(
            self.tree().get_xattr(inode, name, size, request.uid()),
            reply,
        );
    }

    fn listxattr(&self, request: &Request, inode: INodeNo, size: u32, reply: ReplyXattr) {
        let user = request.uid();
        answer_xattr(self.tree().list_xattrs(inode, size, user), reply);
    }

    fn removexattr(&self, request: &Request, inode: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (user, name) = (request.uid(), name.to_owned());
        self.serve(move |tree| answer_empty(tree.remove_xattr(inode, &name, user), reply));
    }

    fn ioctl(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _flags: IoctlFlags,
        _command: u32,
        _in_data: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(Errno::ENOTTY);
    }

    fn fallocate(
        &self,
        request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let caller = Caller::from(request);
        self.serve(move |tree| {
            answer_empty(tree.allocate(handle, offset, length, mode, caller), reply);
        });
    }

    fn lseek(
        &self,
        _request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        if self.has_writeback_cache {
            // The kernel does not send its dirty pages first, so the backing's holes may be data.
            // Without an answer it takes everything for data.
            return reply.error(Errno::ENOSYS);
        }
        self.serve(move |tree| match tree.seek(handle, offset, whence) {
            Ok(found) => reply.offset(found as i64),
            Err(error) => reply.error(errno(&error)),
        });
    }

    fn copy_file_range(
        &self,
        request: &Request,
        _inode_in: INodeNo,
        handle_in: FileHandle,
        offset_in: u64,
        _inode_out: INodeNo,
        handle_out: FileHandle,
        offset_out: u64,
        length: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let (from, to) = ((handle_in, offset_in), (handle_out, offset_out));
        let caller = Caller::from(request);
        self.serve(move |tree| match tree.copy(from, to, length, caller) {
            Ok(copied) => reply.written(copied as u32),
            Err(error) => reply.error(errno(&error)),
        });
    }
}
