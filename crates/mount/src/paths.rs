//! Which directory may be mounted where: never in itself, never twice, never with its pool inside.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use forebay_serve::mount_point;
use rustix::fs::{FlockOperation, Mode, OFlags};

fn refuse(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

/// The directory to serve, absolute.
pub fn data_directory(data: &Path) -> io::Result<PathBuf> {
    let explain = |found: String| {
        refuse(format!(
            "the directory {} cannot be served ({found}); name an existing directory",
            data.display()
        ))
    };
    let resolved = fs::canonicalize(data).map_err(|error| explain(error.to_string()))?;
    if !resolved.is_dir() {
        return Err(explain("it is not a directory".to_owned()));
    }
    Ok(resolved)
}

/// Which directory it is, whatever path leads to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryIdentity {
    /// The number of its file system's device.
    pub device: u64,
    /// Its inode's number there.
    pub inode: u64,
}

impl DirectoryIdentity {
    /// That of an open one.
    pub(crate) fn of(directory: &OwnedFd) -> io::Result<DirectoryIdentity> {
        let status = rustix::fs::fstat(directory)?;
        Ok(DirectoryIdentity {
            device: status.st_dev,
            inode: status.st_ino,
        })
    }

    /// Refuses a path that leads to another one by now.
    pub(crate) fn check(self, path: &Path) -> io::Result<()> {
        let metadata = fs::metadata(path)?;
        if (metadata.dev(), metadata.ino()) == (self.device, self.inode) {
            return Ok(());
        }
        let message = format!(
            "{} has become another directory while the pool was opened; run it again",
            path.display()
        );
        Err(io::Error::new(io::ErrorKind::ResourceBusy, message))
    }
}

/// Refuses a mount point that would hide the data, or show it within itself, and a pool inside the
/// data. All paths are absolute.
pub fn check_places(data: &Path, mount_point: &Path, pool: &Path) -> io::Result<()> {
    if is_same_or_inside(mount_point, data)? {
        return Err(refuse(format!(
            "the mount point {} lies in {}, which it would show within itself; choose a directory \
             outside of it",
            mount_point.display(),
            data.display()
        )));
    }
    if is_same_or_inside(data, mount_point)? {
        return Err(refuse(format!(
            "mounting on {} would hide {}, which it is to show; choose a directory beside it",
            mount_point.display(),
            data.display()
        )));
    }
    check_pool_outside(data, "the directory", pool)?;
    check_pool_outside(mount_point, "the mount point", pool)
}

/// Refuses a pool inside of `place`, which messages call what is `shown`.
pub fn check_pool_outside(place: &Path, shown: &str, pool: &Path) -> io::Result<()> {
    let is_inside =
        |folder: &Path| folder.exists() && is_same_or_inside(folder, place).unwrap_or(false);
    if pool.parent().is_some_and(is_inside) {
        return Err(refuse(format!(
            "the pool {} lies in {shown} {}, where programs could write into it; put it elsewhere",
            pool.display(),
            place.display()
        )));
    }
    Ok(())
}

/// By identity, not by name: a bind mount has two names.
fn is_same_or_inside(inner: &Path, outer: &Path) -> io::Result<bool> {
    let identity = |path: &Path| -> io::Result<(u64, u64)> {
        let metadata = fs::metadata(path)?;
        Ok((metadata.dev(), metadata.ino()))
    };
    let wanted = identity(outer)?;
    for ancestor in fs::canonicalize(inner)?.ancestors() {
        if identity(ancestor)? == wanted {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What keeps a directory, what lies in it, and what it lies in from being served twice.
#[derive(Debug)]
pub struct Locks {
    /// The directory itself, locked for us alone.
    pub data: OwnedFd,
    /// Those above it, locked, shared with all other processes that serve something in them.
    above: Vec<OwnedFd>,
}

impl Drop for Locks {
    /// A program that this process is starting has copies of all descriptors for a moment, and a lock
    /// would last as long as they do.
    fn drop(&mut self) {
        for directory in self.above.iter().chain([&self.data]) {
            // Where it fails, closing the descriptor unlocks.
            let _ = rustix::fs::flock(directory, FlockOperation::Unlock);
        }
    }
}

/// Locks the directory for as long as the locks are held, so that it is served once: by itself, by the
/// directories that it lies in, and by those that lie in it. Two mounts would overwrite each other's
/// acknowledged writes when they recover.
pub fn lock(data: &Path) -> io::Result<Locks> {
    let in_use = |message| Err(io::Error::new(io::ErrorKind::ResourceBusy, message));
    // Locks of a mount do not meet those of the directory that it shows.
    if mount_point::is_served_directory(data)? {
        return in_use(format!(
            "{} is served already, by the mount that it lies on; use it as it is, or end what serves it first",
            data.display()
        ));
    }
    let mut above = Vec::new();
    for ancestor in data.ancestors().skip(1) {
        // A process that may not open it serves nothing that this one could.
        let Ok(directory) = open(ancestor) else {
            continue;
        };
        if !try_lock(&directory, FlockOperation::NonBlockingLockShared)? {
            return in_use(format!(
                "{} lies in {}, which is served already; use that mount, or unmount it first (findmnt \
                 --source forebay)",
                data.display(),
                ancestor.display()
            ));
        }
        above.push(directory);
    }
    let directory = open(data)?;
    if try_lock(&directory, FlockOperation::NonBlockingLockExclusive)? {
        return Ok(Locks {
            data: directory,
            above,
        });
    }
    let is_inside = try_lock(&directory, FlockOperation::NonBlockingLockShared)?;
    let what = match is_inside {
        true => "a directory in it",
        false => "it",
    };
    in_use(format!(
        "{}: {what} is served already; use that mount, or unmount it first (findmnt --source forebay)",
        data.display()
    ))
}

fn open(directory: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(directory, flags, Mode::empty())?)
}

/// Whether the lock could be had.
fn try_lock(directory: &OwnedFd, operation: FlockOperation) -> io::Result<bool> {
    match rustix::fs::flock(directory, operation) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_never_shows_or_hides_itself() {
        let scratch = tempfile::tempdir().unwrap();
        let place = |name: &str| {
            let path = scratch.path().join(name);
            fs::create_dir_all(&path).unwrap();
            fs::canonicalize(path).unwrap()
        };
        let (data, inside, beside) = (place("data"), place("data/inside"), place("beside"));
        let top = place("");
        let pool = top.join("pool");
        check_places(&data, &beside, &pool).unwrap();
        for (mount_point, pool, part) in [
            (&data, &pool, "within itself"),
            (&inside, &pool, "within itself"),
            (&top, &pool, "would hide"),
            (&beside, &data.join("pool"), "put it elsewhere"),
            (&beside, &inside.join("pool"), "put it elsewhere"),
            (&beside, &beside.join("pool"), "put it elsewhere"),
        ] {
            let message = check_places(&data, mount_point, pool)
                .unwrap_err()
                .to_string();
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn a_program_that_was_being_started_kept_the_directory_locked() {
        let scratch = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(scratch.path()).unwrap();
        let data = top.join("data");
        fs::create_dir(&data).unwrap();
        let locks = lock(&data).unwrap();
        let copies: Vec<_> = locks.above.iter().map(|above| above.try_clone()).collect();
        let copy = locks.data.try_clone().unwrap();
        assert!(lock(&data).is_err());
        drop(locks);
        drop(lock(&data).unwrap());
        lock(&top).unwrap();
        drop((copy, copies));
    }

    #[test]
    fn a_directory_and_one_inside_it_were_both_served() {
        let scratch = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(scratch.path()).unwrap();
        let (data, beside) = (top.join("data"), top.join("beside"));
        let inside = data.join("deep/inside");
        fs::create_dir_all(&inside).unwrap();
        fs::create_dir(&beside).unwrap();
        let refused = |data: &Path, part: &str| {
            let error = lock(data).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
            assert!(error.to_string().contains(part), "{error}");
        };
        let outer = lock(&data).unwrap();
        refused(&inside, "lies in");
        drop(outer);
        let inner = lock(&inside).unwrap();
        refused(&data, "a directory in it is served");
        refused(&top, "a directory in it is served");
        let other = lock(&beside).unwrap();
        drop((inner, other));
        lock(&data).unwrap();
    }

    #[test]
    fn another_directory_in_the_place_was_taken_for_the_one_that_is_served() {
        let scratch = tempfile::tempdir().unwrap();
        let (data, other) = (scratch.path().join("data"), scratch.path().join("other"));
        fs::create_dir(&data).unwrap();
        let locks = lock(&data).unwrap();
        let identity = DirectoryIdentity::of(&locks.data).unwrap();
        identity.check(&data).unwrap();
        fs::rename(&data, &other).unwrap();
        fs::create_dir(&data).unwrap();
        let error = identity.check(&data).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        identity.check(&other).unwrap();
    }

    #[test]
    fn a_directory_is_locked_once() {
        let data = tempfile::tempdir().unwrap();
        let locked = lock(data.path()).unwrap();
        let error = lock(data.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        drop(locked);
        lock(data.path()).unwrap();
    }
}
