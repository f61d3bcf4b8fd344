//! A request that the rings brought, handed to the [`Disk`], and its answer put where the kernel looks for it.

use std::io;

use fuser::{FileHandle, FopenFlags, INodeNo};

use super::disk::{Change, Disk};
use super::filesystem::ATTRIBUTE_LIFETIME;
use crate::block_device::BlockDevice;
use crate::fuse_ring::{Answer, Fields, Request, Service, opcode};

/// Which fields of `struct fuse_setattr_in` count (`FATTR_*`).
mod valid {
    pub const MODE: u32 = 1 << 0;
    pub const USER: u32 = 1 << 1;
    pub const GROUP: u32 = 1 << 2;
    pub const SIZE: u32 = 1 << 3;
}

impl<D: BlockDevice> Service for Disk<D> {
    fn answer(&self, request: Request<'_>) -> io::Result<usize> {
        let inode = INodeNo(request.inode);
        let mut arguments = request.arguments;
        match request.opcode {
            opcode::READ => {
                let (_handle, offset) = (arguments.handle()?, arguments.offset()?);
                let length = self.readable(inode, offset, arguments.u32()?)?;
                let out = request.payload.get_mut(..length).ok_or_else(invalid)?;
                self.read_into(offset, out)?;
                Ok(length)
            }
            opcode::WRITE => {
                let (_handle, offset) = (arguments.handle()?, arguments.offset()?);
                let (length, _write_flags) = (arguments.u32()?, arguments.u32()?);
                let (_owner, flags) = (arguments.u64()?, arguments.i32()?);
                let data = Fields::new(&request.payload[..request.given]).bytes(length as usize)?;
                self.write(inode, offset, data, flags)?;
                Answer::new(request.payload).count(length)
            }
            opcode::FSYNC => self.sync(inode).map(|()| 0),
            opcode::FALLOCATE => {
                let _handle = arguments.handle()?;
                let (offset, length) = (arguments.offset()?, arguments.offset()?);
                let allocated = self.allocate(inode, offset, length, arguments.i32()?);
                allocated.map(|()| 0)
            }
            _ => self.answer_rest(request),
        }
    }
}

impl<D: BlockDevice> Disk<D> {
    /// What moves no bytes of the disk.
    fn answer_rest(&self, request: Request<'_>) -> io::Result<usize> {
        let inode = INodeNo(request.inode);
        let mut arguments = request.arguments;
        let opened = |answer: Answer<'_>, flags| answer.opened(FileHandle(0), flags);
        match request.opcode {
            opcode::LOOKUP => {
                let found = self.look_up(
                    inode,
                    Fields::new(&request.payload[..request.given]).name()?,
                )?;
                Answer::new(request.payload).entry(&found, ATTRIBUTE_LIFETIME)
            }
            opcode::GETATTR => {
                let found = self.attributes(inode)?;
                Answer::new(request.payload).attributes(&found, ATTRIBUTE_LIFETIME)
            }
            opcode::SETATTR => {
                let (valid, _padding) = (arguments.u32()?, arguments.u32()?);
                let (_handle, size_bytes) = (arguments.handle()?, arguments.u64()?);
                let change = Change {
                    size_bytes: (valid & valid::SIZE != 0).then_some(size_bytes),
                    has_more: valid & (valid::MODE | valid::USER | valid::GROUP) != 0,
                };
                let found = self.change(inode, change)?;
                Answer::new(request.payload).attributes(&found, ATTRIBUTE_LIFETIME)
            }
            opcode::OPEN => opened(Answer::new(request.payload), self.open(inode)?),
            opcode::OPENDIR => opened(Answer::new(request.payload), FopenFlags::empty()),
            opcode::RELEASE | opcode::RELEASEDIR => Ok(0),
            opcode::LSEEK => {
                let (_handle, offset) = (arguments.handle()?, arguments.i64()?);
                let found = self.seek(offset, arguments.i32()?)?;
                Answer::new(request.payload).place(found)
            }
            opcode::READDIR => {
                let (_handle, offset) = (arguments.handle()?, arguments.u64()?);
                let mut answer = Answer::at_most(request.payload, arguments.u32()?);
                self.list(inode, offset, |listed| answer.listed(listed, None))?;
                answer.done()
            }
            opcode::STATFS => Answer::new(request.payload).statistics(&self.statistics()),
            opcode::SYMLINK | opcode::LINK => Err(io::Error::from_raw_os_error(libc::EPERM)),
            // Also FLUSH and GETXATTR: the kernel asks once and remembers.
            _ => Err(io::Error::from_raw_os_error(libc::ENOSYS)),
        }
    }
}

fn invalid() -> io::Error {
    io::Error::from_raw_os_error(libc::EINVAL)
}
