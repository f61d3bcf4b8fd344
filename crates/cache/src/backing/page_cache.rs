//! What the system keeps in memory of a file or device, dropped and looked for.
//!
//! After a failed sync the system keeps the pages that it could not write and calls them clean: reads
//! show what the medium lacks, and no later sync writes it. Once they are dropped, reads show the medium.
//! A look costs by what is cached, not by the size of the file, where the kernel has cachestat (6.5);
//! older ones are asked page by page.
#![allow(unsafe_code)] // System calls that std does not have.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

const PAGE_BYTES: u64 = 4096;
/// The number of cachestat(2), the same on every architecture.
const CACHESTAT: libc::c_long = 451;
/// What is kept is told in pieces of no less than this, and no less than this share of the file.
const PIECE_BYTES_MIN: u64 = 1 << 20;
const PIECES_MAX: u64 = 1024;
/// Bytes of a file that are mapped at once to be looked at.
const WINDOW_BYTES: u64 = 1 << 30;

/// Drops what is cached of the first bytes of a synced file, and returns the ranges of which something
/// is, or may be, still cached.
pub(super) fn forget(file: &File, size_bytes: u64) -> Vec<Range<u64>> {
    if is_memory(file) {
        return Vec::new();
    }
    // SAFETY: the call takes no pointers, and `file` keeps the descriptor open throughout.
    // What it returns does not matter: the look tells what is left.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    let piece_bytes = (size_bytes / PIECES_MAX)
        .max(PIECE_BYTES_MIN)
        .next_multiple_of(PAGE_BYTES);
    let mut kept = Vec::new();
    look(file, 0..size_bytes, piece_bytes, &mut kept);
    kept
}

/// Whether the file system has no other medium than the system's memory: nothing it keeps can differ.
/// A device's name may lie in such a file system; what it keeps in memory is another matter.
fn is_memory(file: &File) -> bool {
    const TMPFS_MAGIC: i64 = 0x0102_1994;
    const RAMFS_MAGIC: i64 = 0x8584_58F6;
    file.metadata().is_ok_and(|metadata| metadata.is_file())
        && file_system(file).is_some_and(|kind| [TMPFS_MAGIC, RAMFS_MAGIC].contains(&kind))
}

/// The number of the file system that the file's name lies in.
fn file_system(file: &File) -> Option<i64> {
    // SAFETY: an all-zero statfs is valid, and is filled by the call.
    let (result, status) = unsafe {
        let mut status: libc::statfs = std::mem::zeroed();
        (libc::fstatfs(file.as_raw_fd(), &mut status), status)
    };
    (result == 0).then_some(status.f_type)
}

/// Adds what is cached of the range, halving it down to pieces.
fn look(file: &File, bytes: Range<u64>, piece_bytes: u64, kept: &mut Vec<Range<u64>>) {
    let len = bytes.end - bytes.start;
    let pages = match cached_pages(file, &bytes) {
        Ok(pages) => pages,
        Err(_) if len > WINDOW_BYTES => 1,
        Err(_) => resident_pages(file, &bytes).unwrap_or(1),
    };
    if pages == 0 {
        return;
    }
    if len <= piece_bytes || pages >= len.div_ceil(PAGE_BYTES) {
        match kept.last_mut() {
            Some(last) if last.end == bytes.start => last.end = bytes.end,
            _ => kept.push(bytes),
        }
        return;
    }
    let middle = bytes.start + (len / 2).next_multiple_of(PAGE_BYTES);
    look(file, bytes.start..middle, piece_bytes, kept);
    look(file, middle..bytes.end, piece_bytes, kept);
}

/// Pages of the range that the system has in memory.
///
/// # Errors
/// The kernel's, which may be too old to know; an overlay, which keeps nothing itself, so that the answer
/// would be none whatever the file system below keeps.
fn cached_pages(file: &File, bytes: &Range<u64>) -> io::Result<u64> {
    const OVERLAYFS_MAGIC: i64 = 0x794C_7630;
    if file_system(file) == Some(OVERLAYFS_MAGIC) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let range = [bytes.start, bytes.end - bytes.start];
    // Cached, dirty, under write-back, evicted, recently evicted.
    let mut found = [0u64; 5];
    // SAFETY: both pointers are to locals that are as the call wants them: two and five 64-bit words.
    let result = unsafe {
        libc::syscall(
            CACHESTAT,
            file.as_raw_fd(),
            range.as_ptr(),
            found.as_mut_ptr(),
            0,
        )
    };
    match result {
        0 => Ok(found[0]),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The same by mincore(2), for a window of the file that starts on a page.
fn resident_pages(file: &File, bytes: &Range<u64>) -> io::Result<u64> {
    let len = (bytes.end - bytes.start) as usize;
    let offset = libc::off_t::try_from(bytes.start).map_err(io::Error::other)?;
    let mut pages = vec![0u8; len.div_ceil(PAGE_BYTES as usize)];
    // SAFETY: a mapping at an address that the kernel chooses, never accessed and removed again; the
    // vector has a byte for each of its pages, or more where pages are larger.
    let result = unsafe {
        let start = libc::mmap(
            std::ptr::null_mut(),
            len,
            libc::PROT_READ,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            offset,
        );
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let result = libc::mincore(start, len, pages.as_mut_ptr());
        let error = io::Error::last_os_error();
        libc::munmap(start, len);
        match result {
            0 => Ok(()),
            _ => Err(error),
        }
    };
    result.map(|()| pages.iter().filter(|page| **page & 1 != 0).count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    const LEN: u64 = 8 << 20;

    /// A file whose pages are all cached and clean; none where there is no disk to be had.
    fn cached_file() -> Option<File> {
        let file = tempfile::tempfile().unwrap();
        if is_memory(&file) {
            eprintln!("skipped page cache: the temporary folder is memory");
            return None;
        }
        file.write_all_at(&vec![7; LEN as usize], 0).unwrap();
        file.sync_all().unwrap();
        Some(file)
    }

    fn resident(file: &File) -> u64 {
        resident_pages(file, &(0..LEN)).unwrap()
    }

    #[test]
    fn pages_that_a_failed_sync_may_have_left_are_gone_after_forgetting() {
        let Some(file) = cached_file() else { return };
        assert_eq!(resident(&file), LEN / PAGE_BYTES);
        if let Ok(pages) = cached_pages(&file, &(0..LEN)) {
            assert_eq!(pages, LEN / PAGE_BYTES);
        }
        assert_eq!(forget(&file, LEN), []);
        assert_eq!(resident(&file), 0);
        assert_eq!(forget(&file, LEN), []);
    }

    #[test]
    fn a_device_is_not_taken_for_memory_because_its_name_lies_in_memory() {
        // Devices' names lie in devtmpfs, which calls itself tmpfs.
        assert!(!is_memory(&File::open("/dev/null").unwrap()));
    }

    /// Runs this program's test of forgetting again, in a folder of an overlay that only it sees.
    #[test]
    fn an_overlay_that_keeps_nothing_itself_is_not_believed() {
        const NO_OVERLAY: i32 = 77;
        let folder = tempfile::tempdir().unwrap();
        let script = "mkdir lower upper work over && mount -t overlay overlay \
                      -o lowerdir=lower,upperdir=upper,workdir=work over || exit 77; \
                      TMPDIR=$PWD/over exec \"$0\" --exact \"$1\"";
        let test = "backing::page_cache::tests::\
                    pages_that_a_failed_sync_may_have_left_are_gone_after_forgetting";
        let output = std::process::Command::new("unshare")
            .args(["--mount", "sh", "-c", script])
            .arg(std::env::current_exe().unwrap())
            .arg(test)
            .current_dir(folder.path())
            .output();
        let Ok(output) = output else {
            eprintln!("skipped overlays: there is no unshare");
            return;
        };
        let told = String::from_utf8_lossy(&output.stdout);
        if output.status.code() == Some(NO_OVERLAY) || output.status.code() == Some(1) {
            eprintln!("skipped overlays: none can be mounted");
            return;
        }
        assert!(output.status.success(), "{told}");
        assert!(told.contains("1 passed"), "{told}");
    }

    #[test]
    fn pages_that_cannot_be_dropped_are_told() {
        let Some(file) = cached_file() else { return };
        // The pages that some process has mapped and used stay.
        let len = 1 << 20;
        // SAFETY: a mapping at an address that the kernel chooses, of pages that the file has; each is
        // read once, and the mapping lives until the end of the test's process.
        let sum: u64 = unsafe {
            let start = libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                3 << 20,
            );
            assert_ne!(start, libc::MAP_FAILED);
            let bytes = start.cast::<u8>();
            let pages = (0..len).step_by(PAGE_BYTES as usize);
            pages
                .map(|at| u64::from(bytes.add(at).read_volatile()))
                .sum()
        };
        assert_eq!(sum, 7 * len as u64 / PAGE_BYTES);
        let kept = forget(&file, LEN);
        assert!(
            kept.iter()
                .any(|kept| kept.start <= 3 << 20 && 4 << 20 <= kept.end),
            "{kept:?}"
        );
        assert!(kept.iter().all(|kept| kept.end <= 5 << 20), "{kept:?}");
    }
}
