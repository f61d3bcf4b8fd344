//! What tells a file system from another that is mounted at the same place later: the root's inode has
//! the same number and generation on all of a kind.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, StatxFlags};
use rustix::ioctl::{Getter, ioctl, opcode};

/// Bytes of a mark in the log, behind its sort.
pub(super) const MARK_BYTES: usize = 16;

/// See the module. Two of different sorts cannot be compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mark {
    /// The file system's UUID.
    Uuid([u8; MARK_BYTES]),
    /// When the directory was made that all others are under, in nanoseconds; for a file system that
    /// tells no UUID.
    RootBirth([u8; MARK_BYTES]),
}

impl Mark {
    /// Whether the marks are of two file systems.
    pub(super) fn differs(&self, other: &Mark) -> bool {
        let (sort, _) = self.parts();
        other.parts().0 == sort && self != other
    }

    /// Its sort's number and its bytes, for the log.
    pub(super) fn parts(&self) -> (u8, [u8; MARK_BYTES]) {
        match self {
            Mark::Uuid(bytes) => (1, *bytes),
            Mark::RootBirth(bytes) => (2, *bytes),
        }
    }

    /// What [`Mark::parts`] gave; none if it cannot have.
    pub(super) fn from_parts(sort: u8, bytes: [u8; MARK_BYTES]) -> Option<Mark> {
        match sort {
            1 => Some(Mark::Uuid(bytes)),
            2 => Some(Mark::RootBirth(bytes)),
            _ => None,
        }
    }

    /// When the open directory was made, if its file system tells.
    pub(super) fn of_birth(root: BorrowedFd<'_>) -> io::Result<Option<Mark>> {
        let stat = rustix::fs::statx(root, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME)?;
        let has_birth = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
        let seconds = i128::from(stat.stx_btime.tv_sec);
        let born_ns = seconds * 1_000_000_000 + i128::from(stat.stx_btime.tv_nsec);
        Ok(has_birth.then(|| Mark::RootBirth(born_ns.to_le_bytes())))
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mark::Uuid(bytes) => {
                let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                let hex = hex.concat();
                let groups = [
                    &hex[..8],
                    &hex[8..12],
                    &hex[12..16],
                    &hex[16..20],
                    &hex[20..],
                ];
                write!(f, "of UUID {}", groups.join("-"))
            }
            Mark::RootBirth(bytes) => {
                let born_s = i128::from_le_bytes(*bytes) / 1_000_000_000;
                write!(f, "whose root was made {born_s} s after 1970")
            }
        }
    }
}

/// `struct fsuuid2` of `linux/fs.h`.
#[repr(C)]
struct FileSystemUuid {
    len: u8,
    uuid: [u8; MARK_BYTES],
}
const _: () = assert!(size_of::<FileSystemUuid>() == 17, "as the kernel has it");

/// `FS_IOC_GETFSUUID` (since Linux 6.9).
const GET_UUID: rustix::ioctl::Opcode = opcode::read::<FileSystemUuid>(0x15, 0);

/// The UUID of the file system that an open file or directory lies on, if it tells one.
#[allow(unsafe_code, reason = "rustix has no call for it")]
pub(super) fn uuid_of(open: BorrowedFd<'_>) -> Option<Mark> {
    // SAFETY: this request writes one `struct fsuuid2`, laid out as the kernel's, bytes of any value.
    let found = unsafe {
        let request = Getter::<GET_UUID, FileSystemUuid>::new();
        ioctl(open, request)
    };
    let found = found.ok()?;
    let is_there = usize::from(found.len) == MARK_BYTES && found.uuid != [0; MARK_BYTES];
    is_there.then_some(Mark::Uuid(found.uuid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_compared_with_their_like_only() {
        let (one, other) = (Mark::Uuid([1; 16]), Mark::Uuid([2; 16]));
        let birth = Mark::RootBirth([2; 16]);
        assert!(one.differs(&other) && !one.differs(&one));
        assert!(!other.differs(&birth) && !birth.differs(&one));
        for mark in [one, other, birth] {
            let (sort, bytes) = mark.parts();
            assert_eq!(Mark::from_parts(sort, bytes), Some(mark));
        }
        assert_eq!(Mark::from_parts(3, [0; 16]), None);
        let text = one.to_string();
        assert_eq!(text, "of UUID 01010101-0101-0101-0101-010101010101");
    }
}
