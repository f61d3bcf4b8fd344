//! What the files of a directory are, asked of one that never has a name there.

#![allow(unsafe_code, reason = "mappings are the system's own interface")]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::map::kind_of_file;
use crate::{MediaKind, PAGE_BYTES, PmemError};

/// A new file in the directory of `path`, without a name, so that it is gone when it is closed; and what it is. A file that were made
/// at `path` would be the same.
///
/// # Errors
/// There is no such directory, or its file system has no files without a name, or no room.
pub fn nameless_beside(path: &Path) -> Result<(File, MediaKind), PmemError> {
    let parent = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let mut options = File::options();
    options.read(true).write(true);
    options.mode(0o600).custom_flags(libc::O_TMPFILE);
    let made = options.open(parent);
    let failed = |error| PmemError::io("make a file without a name in it", parent, error);
    let file = made.map_err(failed)?;
    file.set_len(PAGE_BYTES as u64).map_err(failed)?;
    let kind = match kind_of_file(&file, path)? {
        MediaKind::PlainFile if is_dax(&file) => MediaKind::FsDax,
        kind => kind,
    };
    Ok((file, kind))
}

/// Whether a file that is there is mapped so that a store is durable, as its own attribute says, whatever the directory's other files are.
#[must_use]
pub fn is_dax_file(path: &Path) -> bool {
    let mut options = File::options();
    options.read(true).write(true);
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = options.open(path);
    file.is_ok_and(|file| file.metadata().is_ok_and(|found| found.is_file()) && is_dax(&file))
}

/// Whether the system maps the file so that a store that was flushed from the caches is durable.
fn is_dax(file: &File) -> bool {
    // SAFETY: a new mapping of our own descriptor at an address that the system chooses, which is taken away again and was never
    // touched.
    unsafe {
        let start = libc::mmap(
            std::ptr::null_mut(),
            PAGE_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC,
            file.as_raw_fd(),
            0,
        );
        let is_mapped = start != libc::MAP_FAILED;
        if is_mapped {
            libc::munmap(start, PAGE_BYTES);
        }
        is_mapped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_a_file_would_be_and_leaves_none() {
        let shared_memory = Path::new("/dev/shm");
        if shared_memory.is_dir() {
            let folder = tempfile::tempdir_in(shared_memory).unwrap();
            let (_, kind) = nameless_beside(&folder.path().join("pool")).unwrap();
            assert_eq!(kind, MediaKind::Shm);
            assert_eq!(folder.path().read_dir().unwrap().count(), 0);
        }
        let plain = tempfile::NamedTempFile::new_in(".").unwrap();
        assert!(!is_dax_file(plain.path()));
        let missing = Path::new("/there/is/no/such/directory/pool");
        assert!(nameless_beside(missing).is_err());
    }
}
