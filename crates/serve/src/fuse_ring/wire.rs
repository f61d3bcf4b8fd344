//! FUSE's structures as the rings carry them: a request's fields one after the other, and those of an answer.
//!
//! Numbers are in the machine's order (`include/uapi/linux/fuse.h`). The kernel is trusted to mean what it
//! says; a length that does not fit is still an error (`EINVAL`, `EIO`) and never a panic.

use std::ffi::{CStr, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileHandle, FileType, FopenFlags, INodeNo};
use rustix::fs::StatVfs;

/// Inode numbers are not used again while the kernel knows them.
const GENERATION: u64 = 0;

/// What the kernel asks for (`enum fuse_opcode`).
#[allow(missing_docs)] // The kernel's own names.
pub mod opcode {
    pub const LOOKUP: u32 = 1;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const READLINK: u32 = 5;
    pub const SYMLINK: u32 = 6;
    pub const MKNOD: u32 = 8;
    pub const MKDIR: u32 = 9;
    pub const UNLINK: u32 = 10;
    pub const RMDIR: u32 = 11;
    pub const RENAME: u32 = 12;
    pub const LINK: u32 = 13;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const SETXATTR: u32 = 21;
    pub const GETXATTR: u32 = 22;
    pub const LISTXATTR: u32 = 23;
    pub const REMOVEXATTR: u32 = 24;
    pub const OPENDIR: u32 = 27;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const FSYNCDIR: u32 = 30;
    pub const CREATE: u32 = 35;
    pub const IOCTL: u32 = 39;
    pub const FALLOCATE: u32 = 43;
    pub const READDIRPLUS: u32 = 44;
    pub const RENAME2: u32 = 45;
    pub const LSEEK: u32 = 46;
    pub const COPY_FILE_RANGE: u32 = 47;
}

fn error_of(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

/// What is left of a request's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// All of these are left.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Fields(bytes)
    }

    /// The next `length` bytes.
    ///
    /// # Errors
    /// `EINVAL`: there are fewer, here as below.
    pub fn bytes(&mut self, length: usize) -> io::Result<&'a [u8]> {
        let (bytes, left) = self
            .0
            .split_at_checked(length)
            .ok_or_else(|| error_of(libc::EINVAL))?;
        self.0 = left;
        Ok(bytes)
    }

    fn array<const LENGTH: usize>(&mut self) -> io::Result<[u8; LENGTH]> {
        let bytes = self.bytes(LENGTH)?;
        bytes.try_into().map_err(|_| error_of(libc::EINVAL))
    }

    /// The next number, here as below.
    pub fn u32(&mut self) -> io::Result<u32> {
        Ok(u32::from_ne_bytes(self.array()?))
    }

    /// The next number.
    pub fn u64(&mut self) -> io::Result<u64> {
        Ok(u64::from_ne_bytes(self.array()?))
    }

    /// Flags of `open(2)` and the like, which are signed there.
    pub fn i32(&mut self) -> io::Result<i32> {
        Ok(i32::from_ne_bytes(self.array()?))
    }

    /// The next number.
    pub fn i64(&mut self) -> io::Result<i64> {
        Ok(i64::from_ne_bytes(self.array()?))
    }

    /// The number of an inode.
    pub fn inode(&mut self) -> io::Result<INodeNo> {
        self.u64().map(INodeNo)
    }

    /// What opening it gave.
    pub fn handle(&mut self) -> io::Result<FileHandle> {
        self.u64().map(FileHandle)
    }

    /// A place in a file, or a length: one beyond the largest file is `EINVAL`.
    pub fn offset(&mut self) -> io::Result<u64> {
        let offset = self.i64()?;
        u64::try_from(offset).map_err(|_| error_of(libc::EINVAL))
    }

    /// Text with the 0 that ends it.
    pub fn text(&mut self) -> io::Result<&'a OsStr> {
        let text = CStr::from_bytes_until_nul(self.0).map_err(|_| error_of(libc::EINVAL))?;
        self.0 = &self.0[text.count_bytes() + 1..];
        Ok(OsStr::from_bytes(text.to_bytes()))
    }

    /// The name of something in a directory, and so of nothing elsewhere.
    pub fn name(&mut self) -> io::Result<&'a OsStr> {
        let name = self.text()?;
        match name.is_empty() || name.as_bytes().contains(&b'/') {
            true => Err(error_of(libc::EINVAL)),
            false => Ok(name),
        }
    }
}

/// One name of a directory.
#[derive(Clone, Copy, Debug)]
pub struct ListedName<'a> {
    /// The inode's number.
    pub number: u64,
    /// Where the next name is.
    pub next_offset: u64,
    /// What it is.
    pub kind: FileType,
    /// The name.
    pub name: &'a OsStr,
}

/// An answer as it grows in the memory that the kernel reads it from.
#[derive(Debug)]
pub struct Answer<'a> {
    memory: &'a mut [u8],
    length: usize,
}

impl<'a> Answer<'a> {
    /// One of as many bytes as there are.
    #[must_use]
    pub fn new(memory: &'a mut [u8]) -> Self {
        Answer { memory, length: 0 }
    }

    /// One of at most `length` bytes.
    pub fn at_most(memory: &'a mut [u8], length: u32) -> Self {
        let length = memory.len().min(length as usize);
        Answer::new(&mut memory[..length])
    }

    /// Appends the bytes, or nothing where they do not fit: whether they did.
    #[must_use]
    fn push(&mut self, bytes: &[u8]) -> bool {
        let room = self.memory.get_mut(self.length..self.length + bytes.len());
        let Some(room) = room else {
            return false;
        };
        room.copy_from_slice(bytes);
        self.length += bytes.len();
        true
    }

    /// The whole answer is this: its length.
    ///
    /// # Errors
    /// `EIO`: it does not fit, here as below.
    pub fn whole(mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.push(bytes) {
            true => Ok(self.length),
            false => Err(error_of(libc::EIO)),
        }
    }

    /// What was appended.
    pub fn done(self) -> io::Result<usize> {
        Ok(self.length)
    }

    /// What a name leads to, which the kernel may believe for so long.
    pub fn entry(self, found: &FileAttr, belief: Duration) -> io::Result<usize> {
        self.whole(entry(found, belief).bytes())
    }

    /// The attributes of an inode.
    pub fn attributes(self, found: &FileAttr, belief: Duration) -> io::Result<usize> {
        let head = Words::default().u64(belief.as_secs());
        let head = head.u32(belief.subsec_nanos()).u32(0);
        self.whole(attributes(head, found).bytes())
    }

    /// What was opened, and how the kernel is to treat it.
    pub fn opened(self, handle: FileHandle, flags: FopenFlags) -> io::Result<usize> {
        self.whole(opened(Words::default(), handle, flags).bytes())
    }

    /// What was made, and opened.
    pub fn created(
        self,
        found: &FileAttr,
        belief: Duration,
        (handle, flags): (FileHandle, FopenFlags),
    ) -> io::Result<usize> {
        self.whole(opened(entry(found, belief), handle, flags).bytes())
    }

    /// How many bytes were written, or an attribute has.
    pub fn count(self, count: u32) -> io::Result<usize> {
        self.whole(Words::default().u32(count).u32(0).bytes())
    }

    /// A place in a file.
    pub fn place(self, offset: u64) -> io::Result<usize> {
        self.whole(&offset.to_ne_bytes())
    }

    /// What a file system has.
    pub fn statistics(self, found: &StatVfs) -> io::Result<usize> {
        let counts = [
            found.f_blocks,
            found.f_bfree,
            found.f_bavail,
            found.f_files,
            found.f_ffree,
        ];
        let words = counts.into_iter().fold(Words::default(), Words::u64);
        let words = words
            .u32(found.f_bsize as u32)
            .u32(found.f_namemax as u32)
            .u32(found.f_frsize as u32)
            .u32(0);
        // Spare words.
        let words = (0..6).fold(words, |words, _| words.u32(0));
        self.whole(words.bytes())
    }

    /// One name more of a directory, with what a lookup of it says where that is wanted: whether there was room.
    #[must_use]
    pub fn listed(&mut self, listed: ListedName<'_>, found: Option<(&FileAttr, Duration)>) -> bool {
        let (head, kind, number) = match found {
            Some((found, belief)) => (entry(found, belief), found.kind, found.ino.0),
            None => (Words::default(), listed.kind, listed.number),
        };
        let name = listed.name.as_bytes();
        let words = head.u64(number).u64(listed.next_offset);
        let words = words.u32(name.len() as u32).u32(mode_of(kind) >> 12);
        let padding = &[0; 7][..name.len().next_multiple_of(8) - name.len()];
        let length = words.length + name.len() + padding.len();
        // All of it or nothing.
        let has_room = length <= self.memory.len() - self.length;
        has_room && self.push(words.bytes()) && self.push(name) && self.push(padding)
    }
}

/// Numbers one after the other; those of the longest structure, an entry with what names a file in a list, are
/// 152 bytes.
#[derive(Debug)]
struct Words {
    memory: [u8; 160],
    length: usize,
}

impl Default for Words {
    fn default() -> Self {
        Words {
            memory: [0; 160],
            length: 0,
        }
    }
}

impl Words {
    fn u32(mut self, value: u32) -> Self {
        self.push(&value.to_ne_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.push(&value.to_ne_bytes());
        self
    }

    fn push(&mut self, bytes: &[u8]) {
        self.memory[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[..self.length]
    }
}

fn entry(found: &FileAttr, belief: Duration) -> Words {
    let head = Words::default()
        .u64(found.ino.0)
        .u64(GENERATION)
        .u64(belief.as_secs())
        .u64(belief.as_secs())
        .u32(belief.subsec_nanos())
        .u32(belief.subsec_nanos());
    attributes(head, found)
}

fn attributes(head: Words, found: &FileAttr) -> Words {
    let times = [found.atime, found.mtime, found.ctime].map(parts_of);
    let words = head.u64(found.ino.0).u64(found.size).u64(found.blocks);
    let words = times
        .iter()
        .fold(words, |words, (seconds, _)| words.u64(*seconds as u64));
    let words = times
        .iter()
        .fold(words, |words, (_, nanoseconds)| words.u32(*nanoseconds));
    words
        .u32(mode_of(found.kind) | u32::from(found.perm))
        .u32(found.nlink)
        .u32(found.uid)
        .u32(found.gid)
        .u32(found.rdev)
        .u32(found.blksize)
        .u32(0)
}

/// Seconds, and nanoseconds after them, as the kernel has times.
fn parts_of(time: SystemTime) -> (i64, u32) {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => (since.as_secs() as i64, since.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            let seconds = -(before.as_secs() as i64);
            match before.subsec_nanos() {
                0 => (seconds, 0),
                nanoseconds => (seconds - 1, 1_000_000_000 - nanoseconds),
            }
        }
    }
}

fn opened(head: Words, handle: FileHandle, flags: FopenFlags) -> Words {
    head.u64(handle.0).u32(flags.bits()).u32(0)
}

/// The bits of a mode that say what an inode is.
fn mode_of(kind: FileType) -> u32 {
    match kind {
        FileType::NamedPipe => libc::S_IFIFO,
        FileType::CharDevice => libc::S_IFCHR,
        FileType::BlockDevice => libc::S_IFBLK,
        FileType::Directory => libc::S_IFDIR,
        FileType::RegularFile => libc::S_IFREG,
        FileType::Symlink => libc::S_IFLNK,
        FileType::Socket => libc::S_IFSOCK,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BELIEF: Duration = Duration::from_secs(1);

    fn found() -> FileAttr {
        FileAttr {
            ino: INodeNo(0x11),
            size: 0x22,
            blocks: 0x33,
            atime: UNIX_EPOCH + Duration::new(5, 7),
            mtime: UNIX_EPOCH - Duration::new(0, 1),
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: FileType::RegularFile,
            perm: 0o644,
            nlink: 2,
            uid: 3,
            gid: 4,
            rdev: 5,
            blksize: 4096,
            flags: 0,
        }
    }

    /// The kernel takes an answer only if it is exactly as long as its structure.
    #[test]
    fn answers_are_as_long_as_the_kernel_s_structures() {
        let mut memory = [0; 4096];
        let mut answer = |made: &dyn Fn(Answer<'_>) -> io::Result<usize>| {
            made(Answer::new(&mut memory)).unwrap()
        };
        let (handle, flags) = (FileHandle(1), FopenFlags::empty());
        assert_eq!(answer(&|answer| answer.entry(&found(), BELIEF)), 128);
        assert_eq!(answer(&|answer| answer.attributes(&found(), BELIEF)), 104);
        assert_eq!(answer(&|answer| answer.opened(handle, flags)), 16);
        assert_eq!(
            answer(&|answer| answer.created(&found(), BELIEF, (handle, flags))),
            144
        );
        assert_eq!(answer(&|answer| answer.count(1)), 8);
        assert_eq!(answer(&|answer| answer.place(1)), 8);
        let statistics = rustix::fs::statvfs("/").unwrap();
        assert_eq!(answer(&|answer| answer.statistics(&statistics)), 80);
    }

    #[test]
    fn times_before_the_epoch_have_their_nanoseconds_after_the_second() {
        for (seconds, nanoseconds) in [(0, 0), (5, 999_999_999), (-1, 1), (-7, 0), (-7, 500)] {
            let whole = Duration::from_secs(i64::unsigned_abs(seconds));
            let second = match seconds < 0 {
                true => UNIX_EPOCH - whole,
                false => UNIX_EPOCH + whole,
            };
            let time = second + Duration::from_nanos(u64::from(nanoseconds));
            assert_eq!(parts_of(time), (seconds, nanoseconds));
        }
    }

    #[test]
    fn an_entry_has_its_fields_where_the_kernel_looks_for_them() {
        let mut memory = [0; 128];
        Answer::new(&mut memory).entry(&found(), BELIEF).unwrap();
        let mut fields = Fields::new(&memory);
        let head: Vec<u64> = (0..4).map(|_| fields.u64().unwrap()).collect();
        assert_eq!(head, [0x11, 0, 1, 1]);
        assert_eq!((fields.u32().unwrap(), fields.u32().unwrap()), (0, 0));
        let wide: Vec<u64> = (0..3).map(|_| fields.u64().unwrap()).collect();
        assert_eq!(wide, [0x11, 0x22, 0x33]);
        let seconds: Vec<i64> = (0..3).map(|_| fields.i64().unwrap()).collect();
        assert_eq!(seconds, [5, -1, 0]);
        let rest: Vec<u32> = (0..10).map(|_| fields.u32().unwrap()).collect();
        let mode = libc::S_IFREG | 0o644;
        assert_eq!(rest, [7, 999_999_999, 0, mode, 2, 3, 4, 5, 4096, 0]);
        assert!(fields.u32().is_err());
    }

    #[test]
    fn names_are_listed_while_there_is_room_and_end_at_a_multiple_of_eight() {
        let listed = |name: &'static str| ListedName {
            number: 9,
            next_offset: 10,
            kind: FileType::Directory,
            name: OsStr::new(name),
        };
        let mut memory = [0xff; 100];
        let mut answer = Answer::at_most(&mut memory, 72);
        assert!(answer.listed(listed("a"), None), "32 bytes");
        assert!(answer.listed(listed("ninechars"), None), "and 40");
        assert!(!answer.listed(listed("a"), None));
        assert_eq!(answer.done().unwrap(), 72);
        let mut fields = Fields::new(&memory);
        assert_eq!((fields.u64().unwrap(), fields.u64().unwrap()), (9, 10));
        assert_eq!(fields.u32().unwrap(), 1);
        assert_eq!(fields.u32().unwrap(), libc::S_IFDIR >> 12);
        assert_eq!(fields.bytes(8).unwrap(), b"a\0\0\0\0\0\0\0");
    }

    #[test]
    fn damaged_requests_are_errors() {
        let mut fields = Fields::new(b"name without an end");
        assert_eq!(
            fields.name().unwrap_err().raw_os_error(),
            Some(libc::EINVAL)
        );
        for name in [&b"/etc/name\0"[..], b"\0"] {
            let error = Fields::new(name).name().unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        }
        assert_eq!(
            fields.bytes(99).unwrap_err().raw_os_error(),
            Some(libc::EINVAL)
        );
        let negative = (-1i64).to_ne_bytes();
        let error = Fields::new(&negative).offset().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        let mut memory = [0; 8];
        assert!(Answer::new(&mut memory).entry(&found(), BELIEF).is_err());
    }
}
