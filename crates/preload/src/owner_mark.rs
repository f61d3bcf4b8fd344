//! The mark beside the pool, `POOL.owner`: a process has the pool, or died with it, and the backing may
//! lack what the pool holds.
//!
//! Invariant: while the pool holds anything that was acknowledged, the mark is durable.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::settings::Settings;

/// Makes the mark, durably: a power cut must not leave the pool's data without it.
pub fn make(path: &Path) -> io::Result<()> {
    let mut mark = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        // Pools often lie where every user may create names.
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)?;
    // The process id is for people only; where the pool has filled its file system, an empty mark does as
    // well.
    let _ = mark.write_all(std::process::id().to_string().as_bytes());
    let made_durable = mark.sync_all().and_then(|()| match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    });
    if made_durable.is_err() {
        // The pool was just recovered and will not be used: nothing is to be marked.
        let _ = std::fs::remove_file(path);
    }
    made_durable
}

/// Whether the mark is there, made by a user that may open the pool.
pub fn is_there(settings: &Settings) -> bool {
    let Ok(mark) = std::fs::symlink_metadata(settings.owner_mark()) else {
        return false;
    };
    let is_pools_owner = || {
        // Where the pool's owner cannot be read, assume so: a needless recovery is better than
        // stale data.
        std::fs::metadata(&settings.pool).map_or(true, |pool| pool.uid() == mark.uid())
    };
    mark.is_file()
        && (mark.uid() == 0
            || mark.uid() == rustix::process::geteuid().as_raw()
            || is_pools_owner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_private_and_follows_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool.owner");
        make(&path).unwrap();
        make(&path).unwrap();
        let mark = path.metadata().unwrap();
        assert_eq!(mark.mode() & 0o777, 0o600);
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(folder.path().join("other"), &path).unwrap();
        make(&path).unwrap_err();
        assert!(!folder.path().join("other").exists());
    }
}
