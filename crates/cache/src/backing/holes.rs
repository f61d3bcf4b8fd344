//! Which parts of a file have never been written or were punched out (`SEEK_DATA`, `SEEK_HOLE`).
#![allow(unsafe_code)] // std has no seeking for holes.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// A run of bytes that are all a hole, which reads as zeroes, or all may hold anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackingRun {
    /// At least 1.
    pub len_bytes: u64,
    /// Whether it is a hole.
    pub is_hole: bool,
}

impl BackingRun {
    /// Nothing is known of these bytes.
    pub fn unknown(len_bytes: u64) -> BackingRun {
        BackingRun {
            len_bytes,
            is_hole: false,
        }
    }
}

/// The run that starts at `offset`, at most `len_bytes` of it. Where the file system cannot tell, or
/// the file ends, nothing is known.
pub(super) fn run_at(file: &File, offset: u64, len_bytes: u64) -> BackingRun {
    let data = match seek(file, offset, libc::SEEK_DATA) {
        Ok(data) => data,
        // No data until the end; but what lies past the end is no hole that can be read.
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {
            file.metadata().map_or(offset, |metadata| metadata.len())
        }
        Err(_) => offset,
    };
    if data > offset {
        return BackingRun {
            len_bytes: len_bytes.min(data - offset),
            is_hole: true,
        };
    }
    match seek(file, offset, libc::SEEK_HOLE) {
        Ok(hole) if hole > offset => BackingRun::unknown(len_bytes.min(hole - offset)),
        _ => BackingRun::unknown(len_bytes),
    }
}

/// Moves the descriptor's position, which no other code relies on.
fn seek(file: &File, offset: u64, whence: i32) -> io::Result<u64> {
    let Ok(offset) = libc::off64_t::try_from(offset) else {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    };
    // SAFETY: the call takes no pointers, and `file` keeps the descriptor open throughout.
    let found = unsafe { libc::lseek64(file.as_raw_fd(), offset, whence) };
    u64::try_from(found).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_hole_is_found_between_data_and_none_past_the_end() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(3 << 20).unwrap();
        file.write_all_at(&[1; 4096], 1 << 20).unwrap();
        let head = run_at(&file, 0, 3 << 20);
        if !head.is_hole {
            eprintln!("skipped holes: the file system of the temporary folder does not tell them");
            return;
        }
        assert_eq!(head.len_bytes, 1 << 20);
        assert!(!run_at(&file, 1 << 20, 4096).is_hole);
        let tail = run_at(&file, 2 << 20, 8 << 20);
        assert_eq!((tail.len_bytes, tail.is_hole), (1 << 20, true));
        assert_eq!(run_at(&file, 3 << 20, 4096), BackingRun::unknown(4096));
        assert_eq!(run_at(&file, u64::MAX, 4096), BackingRun::unknown(4096));
    }
}
