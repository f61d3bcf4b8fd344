//! Whether the file beside a pool lasts as long as the pool: a device's does not, since names of devices lie in memory.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

const TMPFS_MAGIC: u64 = 0x0102_1994;
const RAMFS_MAGIC: u64 = 0x8584_58F6;

/// Refuses to make `side` where it is gone with the next boot, and `pool`, a device, is not: the pool's blocks alone are no files. One
/// that is there is taken, with what it says of the pool's files.
///
/// # Errors
/// See above.
pub(crate) fn check_lasts(pool: &Path, side: &Path) -> io::Result<()> {
    let is_device = std::fs::metadata(pool).is_ok_and(|found| {
        let kind = found.file_type();
        kind.is_block_device() || kind.is_char_device()
    });
    if !is_device || side.symlink_metadata().is_ok() {
        return Ok(());
    }
    let folder = side.parent().unwrap_or(Path::new("/"));
    if !is_in_memory(folder)? {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!(
            "{}: a pool of files needs {} beside it, which is not there, and would lie in memory and be gone after a reboot, while the \
             pool is not; use a pool in a file (forebay create /ssd/pool) for mount and run, and the device for disks. If this pool has \
             files, bring its own {} back",
            pool.display(),
            side.display(),
            side.file_name().unwrap_or_default().display()
        ),
    ))
}

fn is_in_memory(folder: &Path) -> io::Result<bool> {
    let kind = rustix::fs::statfs(folder)?.f_type as u64;
    Ok([TMPFS_MAGIC, RAMFS_MAGIC].contains(&kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_with_the_next_boot_is_not_made_beside_a_device() {
        if !is_in_memory(Path::new("/dev")).expect("it is there") {
            eprintln!(
                "skipped what_goes_with_the_next_boot: names of devices do not lie in memory here"
            );
            return;
        }
        let device = Path::new("/dev/null");
        let error = check_lasts(device, Path::new("/dev/null.files")).expect_err("it is refused");
        assert!(error.to_string().contains("/dev/null.files"), "{error}");
        // What is there is taken; on a disk it may be made; a pool in a file is as its folder is.
        check_lasts(device, Path::new("/dev/zero")).expect("it is there");
        check_lasts(device, Path::new("/proc/null.files")).expect("no memory");
        let folder = tempfile::tempdir().expect("a folder");
        let pool = folder.path().join("pool");
        std::fs::write(&pool, b"").expect("a file");
        check_lasts(&pool, &folder.path().join("pool.files")).expect("a file");
    }
}
