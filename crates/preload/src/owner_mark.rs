//! The mark beside the pool, `POOL.owner`: a process has the pool, or died with it, and the backing may
//! lack what the pool holds.
//!
//! Invariants:
//! - While the pool holds anything that was acknowledged, the mark is durable.
//! - Its maker holds its lock, from after its recovery until it has closed the pool or is dead. So a process that has the pool
//!   while the mark is there, and not its lock, has not brought the backing up to date yet.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::settings::Settings;

/// A process that is killed, or one that asks whether the lock is held, has it for a moment still: so often it is tried.
const LOCK_TRIES: u32 = 1000;
const LOCK_AGAIN_AFTER: Duration = Duration::from_millis(1);

/// Makes the mark, durably: a power cut must not leave the pool's data without it. The process that has the pool keeps what this returns.
pub fn make(path: &Path) -> io::Result<OwnedFd> {
    let mut mark = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        // Pools often lie where every user may create names.
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)?;
    hold(&mark)?;
    // The process id is for people only; where the pool has filled its file system, an empty mark does as
    // well.
    let _ = mark.set_len(0);
    let _ = mark.write_all(std::process::id().to_string().as_bytes());
    let made_durable = mark.sync_all().and_then(|()| match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    });
    if made_durable.is_err() {
        // The pool was just recovered and will not be used: nothing is to be marked.
        let _ = std::fs::remove_file(path);
    }
    made_durable.map(|()| mark.into())
}

fn hold(mark: &File) -> io::Result<()> {
    for _ in 0..LOCK_TRIES {
        match flock(mark, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => std::thread::sleep(LOCK_AGAIN_AFTER),
            locked => return Ok(locked?),
        }
    }
    Err(Errno::WOULDBLOCK.into())
}

/// Whether the mark's maker lives and has the pool. Where this user may not ask, that is assumed.
pub fn is_held(path: &Path) -> bool {
    let mark = File::options()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path);
    match mark {
        Ok(mark) => flock(&mark, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
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
        let held = make(&path).unwrap();
        assert!(is_held(&path));
        drop(held);
        // A child that another test was starting may have it for a moment.
        while is_held(&path) {
            std::thread::yield_now();
        }
        drop(make(&path).unwrap());
        let mark = path.metadata().unwrap();
        assert_eq!(mark.mode() & 0o777, 0o600);
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(folder.path().join("other"), &path).unwrap();
        make(&path).unwrap_err();
        assert!(!folder.path().join("other").exists());
    }
}
