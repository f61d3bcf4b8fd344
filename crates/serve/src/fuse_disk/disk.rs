//! What each request of the kernel does with the disk, whichever transport brought it.

use std::ffi::OsStr;
use std::io;
use std::time::SystemTime;

use fuser::{FileAttr, FileType, FopenFlags, INodeNo};
use rustix::fs::{StatVfs, StatVfsMountFlags};

use crate::block_device::{BlockDevice, DeviceError};
use crate::fuse_ring::ListedName;

/// The name of the one file.
pub const DISK_NAME: &str = "disk";

const DISK_INODE: INodeNo = INodeNo(2);

/// A device, seen as a directory with one file.
pub struct Disk<D> {
    pub(super) device: D,
    mounted_at: SystemTime,
    owner: (u32, u32),
}

/// What an attribute's change asks for.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    pub size_bytes: Option<u64>,
    /// Mode, user or group.
    pub has_more: bool,
}

fn error_of(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

/// Says in the log what went wrong, since the kernel only carries a number.
pub fn report(operation: &str, offset: u64, length: u64, error: &DeviceError) -> io::Error {
    if !matches!(error, DeviceError::Unsupported { .. }) {
        tracing::error!(operation, offset, length, %error, "a request of the FUSE disk failed");
    }
    error_of(error.errno())
}

impl<D: BlockDevice> Disk<D> {
    pub fn new(device: D) -> Disk<D> {
        Disk {
            device,
            mounted_at: SystemTime::now(),
            owner: (
                rustix::process::geteuid().as_raw(),
                rustix::process::getegid().as_raw(),
            ),
        }
    }

    /// # Errors
    /// Here as below, what the kernel is told, by its number.
    pub fn attributes(&self, inode: INodeNo) -> io::Result<FileAttr> {
        let (kind, perm, nlink, size) = match inode {
            INodeNo::ROOT => (FileType::Directory, 0o755, 2, 0),
            DISK_INODE => (FileType::RegularFile, 0o600, 1, self.device.size_bytes()),
            _ => return Err(error_of(libc::ENOENT)),
        };
        Ok(FileAttr {
            ino: inode,
            size,
            blocks: size.div_ceil(512),
            atime: self.mounted_at,
            mtime: self.mounted_at,
            ctime: self.mounted_at,
            crtime: self.mounted_at,
            kind,
            perm,
            nlink,
            uid: self.owner.0,
            gid: self.owner.1,
            rdev: 0,
            blksize: self.device.block_size(),
            flags: 0,
        })
    }

    pub fn look_up(&self, parent: INodeNo, name: &OsStr) -> io::Result<FileAttr> {
        match parent == INodeNo::ROOT && name == DISK_NAME {
            true => self.attributes(DISK_INODE),
            false => Err(error_of(libc::ENOENT)),
        }
    }

    pub fn change(&self, inode: INodeNo, change: Change) -> io::Result<FileAttr> {
        let attributes = self.attributes(inode)?;
        let keeps_size = change.size_bytes.is_none_or(|size| size == attributes.size);
        match keeps_size && !change.has_more {
            true => Ok(attributes),
            // A disk has one size; a program that truncates must be told, not obeyed in part.
            false => Err(error_of(libc::EPERM)),
        }
    }

    pub fn open(&self, inode: INodeNo) -> io::Result<FopenFlags> {
        self.check_is_disk(inode)?;
        Ok(FopenFlags::FOPEN_DIRECT_IO
            | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
            | FopenFlags::FOPEN_NOFLUSH)
    }

    fn check_is_disk(&self, inode: INodeNo) -> io::Result<()> {
        match inode == DISK_INODE {
            true => Ok(()),
            false => Err(error_of(libc::EISDIR)),
        }
    }

    /// How much of `size` bytes at `offset` there is: past the end a file reads short, which is no error as it is on
    /// the device.
    pub fn readable(&self, inode: INodeNo, offset: u64, size: u32) -> io::Result<usize> {
        self.check_is_disk(inode)?;
        let left = self.device.size_bytes().saturating_sub(offset);
        Ok(u64::from(size).min(left) as usize)
    }

    /// Reads what was found readable.
    pub fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let read = self.device.read_at(offset, out);
        read.map_err(|error| report("read", offset, out.len() as u64, &error))
    }

    /// Writes by a descriptor with these flags of `open`: a synchronous one waits until it is durable, as a flush would.
    pub fn write(&self, inode: INodeNo, offset: u64, data: &[u8], flags: i32) -> io::Result<()> {
        self.check_is_disk(inode)?;
        let is_synced = flags & libc::O_DSYNC != 0;
        let written = match is_synced || !self.device.has_volatile_cache() {
            true => self.device.write_at(offset, data),
            false => self.device.write_unsynced_at(offset, data),
        };
        written.map_err(|error| report("write", offset, data.len() as u64, &error))
    }

    /// Without a volatile cache acknowledged writes are durable already: after the first confirmation, `ENOSYS` makes the
    /// kernel succeed at once and spares every later fsync the round trip.
    pub fn sync(&self, inode: INodeNo) -> io::Result<()> {
        let is_last = inode == DISK_INODE && !self.device.has_volatile_cache();
        match self.device.flush() {
            Ok(()) if is_last => Err(error_of(libc::ENOSYS)),
            Ok(()) => Ok(()),
            Err(error) => Err(report("flush", 0, self.device.size_bytes(), &error)),
        }
    }

    pub fn allocate(&self, inode: INodeNo, offset: u64, length: u64, mode: i32) -> io::Result<()> {
        self.check_is_disk(inode)?;
        let allocated = self.allocate_on_device(offset, length, mode);
        allocated.map_err(|error| report("fallocate", offset, length, &error))
    }

    fn allocate_on_device(&self, offset: u64, length: u64, mode: i32) -> Result<(), DeviceError> {
        let device = &self.device;
        match mode & !libc::FALLOC_FL_KEEP_SIZE {
            0 => device.check_range(offset, length),
            libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE => {
                // What lies past the end reads as nothing already.
                let end = offset.saturating_add(length).min(device.size_bytes());
                let length = end.saturating_sub(offset);
                if length == 0 {
                    Ok(())
                } else if mode & libc::FALLOC_FL_PUNCH_HOLE != 0 {
                    device.discard(offset, length)
                } else {
                    device.write_zeroes(offset, length)
                }
            }
            _ => Err(DeviceError::Unsupported {
                operation: "this mode of fallocate",
            }),
        }
    }

    /// The whole disk is data; the only hole is the one every file has at its end.
    pub fn seek(&self, offset: i64, whence: i32) -> io::Result<u64> {
        let size_bytes = self.device.size_bytes();
        match (u64::try_from(offset), whence) {
            (Ok(offset), libc::SEEK_DATA) if offset < size_bytes => Ok(offset),
            (Ok(offset), libc::SEEK_HOLE) if offset < size_bytes => Ok(size_bytes),
            (Ok(offset), _) if offset < size_bytes => Err(error_of(libc::EINVAL)),
            _ => Err(error_of(libc::ENXIO)),
        }
    }

    /// Calls `add` with the names from `offset` on until it has no room for one.
    pub fn list(
        &self,
        inode: INodeNo,
        offset: u64,
        mut add: impl FnMut(ListedName<'_>) -> bool,
    ) -> io::Result<()> {
        if inode != INodeNo::ROOT {
            return Err(error_of(libc::ENOTDIR));
        }
        let entries = [
            (INodeNo::ROOT, FileType::Directory, "."),
            (INodeNo::ROOT, FileType::Directory, ".."),
            (DISK_INODE, FileType::RegularFile, DISK_NAME),
        ];
        let entries = entries.into_iter().zip(1..).skip(offset as usize);
        for ((inode, kind, name), next_offset) in entries {
            let listed = ListedName {
                number: inode.0,
                next_offset,
                kind,
                name: OsStr::new(name),
            };
            if !add(listed) {
                break;
            }
        }
        Ok(())
    }

    pub fn statistics(&self) -> StatVfs {
        let block_bytes = u64::from(self.device.block_size());
        StatVfs {
            f_bsize: block_bytes,
            f_frsize: block_bytes,
            f_blocks: self.device.size_bytes() / block_bytes,
            f_bfree: 0,
            f_bavail: 0,
            f_files: 1,
            f_ffree: 0,
            f_favail: 0,
            f_fsid: 0,
            f_flag: StatVfsMountFlags::empty(),
            f_namemax: 255,
        }
    }
}
