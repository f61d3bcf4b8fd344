//! Requests that come by `/dev/fuse`, each handed to the [`Operations`] and answered.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use forebay_serve::fuse_ring::Rings;
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, INodeNo,
    IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use crate::answers::{
    GENERATION, answer_attributes, answer_empty, answer_entry, answer_xattr, errno,
};
use crate::credentials::Caller;
use crate::negotiation;
use crate::operations::Operations;
use crate::scheduler::Scheduler;
use crate::tree::Change;

/// The file system that the kernel talks to.
pub struct MountedTree {
    /// Taken when the session ends, so that all is released before `on_end` is called.
    operations: Option<Arc<Operations>>,
    scheduler: Arc<Scheduler>,
    rings: Arc<Rings>,
    on_end: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl MountedTree {
    pub fn new(
        operations: Arc<Operations>,
        scheduler: Arc<Scheduler>,
        rings: Arc<Rings>,
        on_end: impl FnOnce() + Send + Sync + 'static,
    ) -> MountedTree {
        MountedTree {
            operations: Some(operations),
            scheduler,
            rings,
            on_end: Some(Box::new(on_end)),
        }
    }

    fn operations(&self) -> &Arc<Operations> {
        self.operations
            .as_ref()
            .expect("requests end before the tree is released")
    }

    /// Serves a request on this thread, or on another one while something waits.
    fn serve(&self, request: impl FnOnce(&Operations) + Send + 'static) {
        self.scheduler.serve(
            request,
            |request| request(self.operations()),
            |request| {
                let operations = Arc::clone(self.operations());
                Box::new(move || request(&operations))
            },
        );
    }
}

impl Filesystem for MountedTree {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let operations = self.operations();
        negotiation::negotiate(config, operations.has_writeback_cache);
        operations
            .opening
            .negotiate(config, operations.has_writeback_cache);
        self.rings.negotiate(config)
    }

    fn destroy(&mut self) {
        // The mount is gone, and with it what the rings' threads wait for.
        self.rings.join();
        self.operations = None;
        if let Some(on_end) = self.on_end.take() {
            on_end();
        }
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = name.to_owned();
        self.serve(move |operations| {
            answer_entry(operations.belief, operations.lookup(parent, &name), reply)
        });
    }

    fn forget(&self, _request: &Request, inode: INodeNo, lookups: u64) {
        self.operations().tree.inodes.forget(inode, lookups);
    }

    fn getattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        self.serve(move |operations| {
            answer_attributes(operations.belief, operations.tree.attributes(inode), reply)
        });
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
        self.serve(move |operations| {
            answer_attributes(
                operations.belief,
                operations.setattr(caller, inode, handle, &change),
                reply,
            );
        });
    }

    fn readlink(&self, _request: &Request, inode: INodeNo, reply: ReplyData) {
        match self.operations().tree.read_link(inode) {
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
        self.serve(move |operations| {
            let made = operations.mknod((caller, umask), (parent, &name), mode, device);
            answer_entry(operations.belief, made, reply);
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
        self.serve(move |operations| {
            let made = operations.mkdir((caller, umask), (parent, &name), mode);
            answer_entry(operations.belief, made, reply);
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
        self.serve(move |operations| {
            answer_entry(
                operations.belief,
                operations.symlink(caller, (parent, &name), &target),
                reply,
            );
        });
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.to_owned();
        self.serve(move |operations| answer_empty(operations.tree.unlink(parent, &name), reply));
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.to_owned();
        self.serve(move |operations| {
            answer_empty(operations.tree.remove_directory(parent, &name), reply);
        });
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
        let (name, new_name) = (name.to_owned(), new_name.to_owned());
        let caller = Caller::from(request);
        self.serve(move |operations| {
            let (from, to) = (
                (parent, name.as_os_str()),
                (new_parent, new_name.as_os_str()),
            );
            answer_empty(operations.rename(caller, from, to, flags.bits()), reply);
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
        self.serve(move |operations| {
            answer_entry(
                operations.belief,
                operations.link(caller, inode, (parent, &name)),
                reply,
            );
        });
    }

    fn open(&self, request: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let caller = Caller::from(request);
        self.serve(
            move |operations| match operations.open(caller, inode, flags.0) {
                Ok((handle, opened)) => reply.opened(handle, opened),
                Err(error) => reply.error(errno(&error)),
            },
        );
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
        self.serve(move |operations| {
            match operations.create((caller, umask), (parent, &name), mode, flags) {
                Ok((found, handle, opened)) => {
                    reply.created(&operations.belief, &found, GENERATION, handle, opened);
                }
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
        self.serve(move |operations| {
            let tree = &operations.tree;
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
        let caller = Caller::from(request);
        let serve = move |operations: &Operations, data: &[u8]| {
            let at = (handle, offset);
            match operations.write(caller, at, data, write_flags, flags.0) {
                Ok(written) => reply.written(written),
                Err(error) => reply.error(errno(&error)),
            }
        };
        self.scheduler.serve(
            serve,
            |serve| serve(self.operations(), data),
            |serve| {
                // The session reads its next request into the same memory.
                let (operations, data) = (Arc::clone(self.operations()), data.to_vec());
                Box::new(move || serve(&operations, &data))
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
        self.serve(move |operations| {
            drop(operations.tree.release(handle));
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
        self.serve(move |operations| answer_empty(operations.fsync(handle, is_data_only), reply));
    }

    fn opendir(&self, request: &Request, inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let user = request.uid();
        self.serve(
            move |operations| match operations.tree.open_directory(inode, user) {
                Ok(handle) => reply.opened(handle, FopenFlags::empty()),
                Err(error) => reply.error(errno(&error)),
            },
        );
    }

    fn readdir(
        &self,
        _request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        self.serve(move |operations| {
            let result = operations.tree.list(handle, offset, |listed| {
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
        self.serve(move |operations| {
            let tree = &operations.tree;
            let result = tree.list_with_attributes(handle, offset, |listed, found| {
                let number = INodeNo(listed.number);
                let (next, name) = (listed.next_offset, &listed.name);
                !reply.add(number, next, name, &operations.belief, found, GENERATION)
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
        drop(self.operations().tree.directories.remove(handle));
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
        self.serve(move |operations| answer_empty(operations.tree.sync_directory(handle), reply));
    }

    fn statfs(&self, _request: &Request, _inode: INodeNo, reply: ReplyStatfs) {
        match self.operations().tree.statistics() {
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
        let (caller, name, value) = (Caller::from(request), name.to_owned(), value.to_vec());
        self.serve(move |operations| {
            let result = operations.setxattr(caller, inode, (&name, &value), flags);
            answer_empty(result, reply);
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
        let result = self
            .operations()
            .getxattr(Caller::from(request), inode, name, size);
        answer_xattr(result, reply);
    }

    fn listxattr(&self, request: &Request, inode: INodeNo, size: u32, reply: ReplyXattr) {
        let user = request.uid();
        let result = self.operations().tree.list_xattrs(inode, size, user);
        answer_xattr(result, reply);
    }

    fn removexattr(&self, request: &Request, inode: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (user, name) = (request.uid(), name.to_owned());
        self.serve(move |operations| {
            answer_empty(operations.tree.remove_xattr(inode, &name, user), reply);
        });
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
        self.serve(move |operations| {
            let result = operations
                .tree
                .allocate(handle, offset, length, mode, caller);
            answer_empty(result, reply);
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
        self.serve(
            move |operations| match operations.lseek(handle, offset, whence) {
                Ok(found) => reply.offset(found as i64),
                Err(error) => reply.error(errno(&error)),
            },
        );
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
        self.serve(
            move |operations| match operations.tree.copy(from, to, length, caller) {
                Ok(copied) => reply.written(copied as u32),
                Err(error) => reply.error(errno(&error)),
            },
        );
    }
}
