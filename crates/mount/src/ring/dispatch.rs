//! A request in an entry's memory, handed to the [`Operations`], and its answer put there.

use std::io;
use std::path::Path;

use forebay_serve::fuse_ring::{Answer, Fields, ListedName, Request, opcode};
use fuser::{FopenFlags, INodeNo, WriteFlags};

use crate::attributes;
use crate::credentials::Caller;
use crate::listing::Listed;
use crate::operations::Operations;
use crate::tree::{Change, error_of};
use crate::xattrs;

/// `FUSE_FSYNC_FDATASYNC`.
const DATA_ONLY: u32 = 1;

/// Which fields of `struct fuse_setattr_in` count (`FATTR_*`).
mod valid {
    pub const MODE: u32 = 1 << 0;
    pub const USER: u32 = 1 << 1;
    pub const GROUP: u32 = 1 << 2;
    pub const SIZE: u32 = 1 << 3;
    pub const ACCESSED: u32 = 1 << 4;
    pub const MODIFIED: u32 = 1 << 5;
    pub const HANDLE: u32 = 1 << 6;
    pub const ACCESSED_NOW: u32 = 1 << 7;
    pub const MODIFIED_NOW: u32 = 1 << 8;
}

/// Carries the request out: how long the answer in its payload is.
///
/// # Errors
/// What the caller is to be told; `ENOSYS` for what is not offered, which the kernel remembers.
pub fn answer(operations: &Operations, request: Request<'_>) -> io::Result<usize> {
    match request.opcode {
        opcode::LOOKUP
        | opcode::MKNOD
        | opcode::MKDIR
        | opcode::SYMLINK
        | opcode::LINK
        | opcode::CREATE => made(operations, request),
        opcode::UNLINK | opcode::RMDIR | opcode::RENAME | opcode::RENAME2 => {
            unnamed(operations, request)
        }
        opcode::GETATTR
        | opcode::SETATTR
        | opcode::READLINK
        | opcode::STATFS
        | opcode::SETXATTR
        | opcode::GETXATTR
        | opcode::LISTXATTR
        | opcode::REMOVEXATTR => of_inode(operations, request),
        opcode::OPENDIR
        | opcode::READDIR
        | opcode::READDIRPLUS
        | opcode::RELEASEDIR
        | opcode::FSYNCDIR => of_directory(operations, request),
        opcode::IOCTL => Err(error_of(libc::ENOTTY)),
        _ => of_file(operations, request),
    }
}

fn caller_of(request: &Request<'_>) -> Caller {
    Caller {
        user: request.user,
        group: request.group,
    }
}

fn inode_of(request: &Request<'_>) -> INodeNo {
    INodeNo(request.inode)
}

/// Nothing but that it was done.
fn done(result: io::Result<()>) -> io::Result<usize> {
    result.map(|()| 0)
}

/// What is looked up, or made and then looked up: answered with an entry.
fn made(operations: &Operations, request: Request<'_>) -> io::Result<usize> {
    let (caller, parent) = (caller_of(&request), inode_of(&request));
    let mut arguments = request.arguments;
    let mut names = Fields::new(&request.payload[..request.given]);
    let found = match request.opcode {
        opcode::LOOKUP => operations.lookup(parent, names.name()?)?,
        opcode::MKNOD => {
            let (mode, device, umask) = (arguments.u32()?, arguments.u32()?, arguments.u32()?);
            operations.mknod((caller, umask), (parent, names.name()?), mode, device)?
        }
        opcode::MKDIR => {
            let (mode, umask) = (arguments.u32()?, arguments.u32()?);
            operations.mkdir((caller, umask), (parent, names.name()?), mode)?
        }
        opcode::SYMLINK => {
            let (name, target) = (names.name()?, names.text()?);
            operations.symlink(caller, (parent, name), Path::new(target))?
        }
        opcode::LINK => {
            let inode = arguments.inode()?;
            operations.link(caller, inode, (parent, names.name()?))?
        }
        _ => {
            let (flags, mode, umask) = (arguments.i32()?, arguments.u32()?, arguments.u32()?);
            let at = (parent, names.name()?);
            let (found, handle, flags) = operations.create((caller, umask), at, mode, flags)?;
            return Answer::new(request.payload).created(
                &found,
                operations.belief,
                (handle, flags),
            );
        }
    };
    Answer::new(request.payload).entry(&found, operations.belief)
}

/// What loses or changes a name.
fn unnamed(operations: &Operations, request: Request<'_>) -> io::Result<usize> {
    let (caller, parent) = (caller_of(&request), inode_of(&request));
    let mut arguments = request.arguments;
    let mut names = Fields::new(&request.payload[..request.given]);
    let name = names.name()?;
    done(match request.opcode {
        opcode::UNLINK => operations.tree.unlink(parent, name),
        opcode::RMDIR => operations.tree.remove_directory(parent, name),
        code => {
            let new_parent = arguments.inode()?;
            let flags = match code {
                opcode::RENAME2 => arguments.u32()?,
                _ => 0,
            };
            let to = (new_parent, names.name()?);
            operations.rename(caller, (parent, name), to, flags)
        }
    })
}

/// Attributes of an inode, and what else concerns no open file.
fn of_inode(operations: &Operations, request: Request<'_>) -> io::Result<usize> {
    let (caller, inode) = (caller_of(&request), inode_of(&request));
    let mut arguments = request.arguments;
    let tree = &operations.tree;
    let mut given = Fields::new(&request.payload[..request.given]);
    match request.opcode {
        opcode::GETATTR => {
            let found = tree.attributes(inode)?;
            Answer::new(request.payload).attributes(&found, operations.belief)
        }
        opcode::SETATTR => setattr(operations, request),
        opcode::READLINK => {
            let target = tree.read_link(inode)?;
            Answer::new(request.payload).whole(&target)
        }
        opcode::STATFS => {
            let found = tree.statistics()?;
            Answer::new(request.payload).statistics(&found)
        }
        opcode::SETXATTR => {
            let (size, flags) = (arguments.u32()? as usize, arguments.i32()?);
            let attribute = (given.text()?, given.bytes(size)?);
            done(operations.setxattr(caller, inode, attribute, flags))
        }
        opcode::GETXATTR => {
            let size = arguments.u32()?;
            let found = operations.getxattr(caller, inode, given.text()?, size)?;
            xattr(request.payload, &found)
        }
        opcode::LISTXATTR => {
            let found = tree.list_xattrs(inode, arguments.u32()?, caller.user)?;
            xattr(request.payload, &found)
        }
        _ => done(tree.remove_xattr(inode, given.text()?, caller.user)),
    }
}

fn xattr(payload: &mut [u8], found: &xattrs::Answer) -> io::Result<usize> {
    let answer = Answer::new(payload);
    match found {
        xattrs::Answer::Length(length) => answer.count(*length),
        xattrs::Answer::Bytes(bytes) => answer.whole(bytes),
    }
}

fn setattr(operations: &Operations, request: Request<'_>) -> io::Result<usize> {
    let (caller, inode) = (caller_of(&request), inode_of(&request));
    let mut fields = request.arguments;
    let (valid, _padding) = (fields.u32()?, fields.u32()?);
    let has = |flag: u32| valid & flag != 0;
    let (handle, size_bytes, _lock_owner) = (fields.handle()?, fields.u64()?, fields.u64()?);
    let seconds = [fields.i64()?, fields.i64()?, fields.i64()?];
    let nanoseconds = [fields.u32()?, fields.u32()?, fields.u32()?];
    let (mode, _unused) = (fields.u32()?, fields.u32()?);
    let (user, group) = (fields.u32()?, fields.u32()?);
    let time = |index: usize, is_set: u32, is_now: u32| match (has(is_set), has(is_now)) {
        (false, _) => None,
        (true, true) => Some(fuser::TimeOrNow::Now),
        (true, false) => {
            let asked = attributes::asked(seconds[index], nanoseconds[index]);
            Some(fuser::TimeOrNow::SpecificTime(asked))
        }
    };
    let change = Change {
        mode: has(valid::MODE).then_some(mode),
        user: has(valid::USER).then_some(user),
        group: has(valid::GROUP).then_some(group),
        size_bytes: has(valid::SIZE).then_some(size_bytes),
        accessed: time(0, valid::ACCESSED, valid::ACCESSED_NOW),
        modified: time(1, valid::MODIFIED, valid::MODIFIED_NOW),
    };
    let handle = has(valid::HANDLE).then_some(handle);
    let found = operations.setattr(caller, inode, handle, &change)?;
    Answer::new(request.payload).attributes(&found, operations.belief)
}

fn of_directory(operations: &Operations, request: Request<'_>) -> io::Result<usize> {
    let tree = &operations.tree;
    let mut arguments = request.arguments;
    if request.opcode == opcode::OPENDIR {
        let handle = tree.open_directory(inode_of(&request), request.user)?;
        return Answer::new(request.payload).opened(handle, FopenFlags::empty());
    }
    let handle = arguments.handle()?;
    match request.opcode {
        opcode::RELEASEDIR => {
            drop(tree.directories.remove(handle));
            Ok(0)
        }
        opcode::FSYNCDIR => done(tree.sync_directory(handle)),
        code => {
            let (offset, size) = (arguments.u64()?, arguments.u32()?);
            let mut answer = Answer::at_most(request.payload, size);
            match code {
                opcode::READDIRPLUS => {
                    tree.list_with_attributes(handle, offset, |listed, found| {
                        answer.listed(name_of(listed), Some((found, operations.belief)))
                    })?;
                }
                _ => tree.list(handle, offset, |listed| {
                    answer.listed(name_of(listed), None)
                })?,
            }
            answer.done()
        }
    }
}

fn name_of(listed: &Listed) -> ListedName<'_> {
    ListedName {
        number: listed.number,
        next_offset: listed.next_offset,
        kind: listed.kind,
        name: &listed.name,
    }
}

/// Open files and their bytes.
fn of_file(operations: &Operations, request: Request<'_>) -> io::Result<usize> {
    let tree = &operations.tree;
    let caller = caller_of(&request);
    let mut arguments = request.arguments;
    match request.opcode {
        opcode::OPEN => {
            let opened = operations.open(caller, inode_of(&request), arguments.i32()?)?;
            Answer::new(request.payload).opened(opened.0, opened.1)
        }
        opcode::READ => {
            let (handle, offset) = (arguments.handle()?, arguments.offset()?);
            let size = arguments.u32()? as usize;
            let out = request.payload.get_mut(..size);
            tree.read_into(handle, offset, out.ok_or_else(|| error_of(libc::EINVAL))?)
        }
        opcode::WRITE => {
            let at = (arguments.handle()?, arguments.offset()?);
            let (size, write_flags) = (arguments.u32()? as usize, arguments.u32()?);
            let (_lock_owner, flags) = (arguments.u64()?, arguments.i32()?);
            let data = Fields::new(&request.payload[..request.given]).bytes(size)?;
            let write_flags = WriteFlags::from_bits_retain(write_flags);
            let written = operations.write(caller, at, data, write_flags, flags)?;
            Answer::new(request.payload).count(written)
        }
        opcode::RELEASE => {
            drop(tree.release(arguments.handle()?));
            Ok(0)
        }
        opcode::FSYNC => {
            let (handle, flags) = (arguments.handle()?, arguments.u32()?);
            done(operations.fsync(handle, flags & DATA_ONLY != 0))
        }
        opcode::FALLOCATE => {
            let handle = arguments.handle()?;
            let (offset, length) = (arguments.offset()?, arguments.offset()?);
            done(tree.allocate(handle, offset, length, arguments.i32()?, caller))
        }
        opcode::LSEEK => {
            let (handle, offset) = (arguments.handle()?, arguments.i64()?);
            let found = operations.lseek(handle, offset, arguments.i32()?)?;
            Answer::new(request.payload).place(found)
        }
        opcode::COPY_FILE_RANGE => {
            let from = (arguments.handle()?, arguments.offset()?);
            let _inode = arguments.inode()?;
            let to = (arguments.handle()?, arguments.offset()?);
            let copied = tree.copy(from, to, arguments.u64()?, caller)?;
            Answer::new(request.payload).count(copied as u32)
        }
        // Also FLUSH: close has nothing to wait for.
        _ => Err(error_of(libc::ENOSYS)),
    }
}

#[cfg(test)]
#[path = "dispatch_tests.rs"]
mod tests;
