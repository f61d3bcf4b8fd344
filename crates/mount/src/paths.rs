//! Which directory may be mounted where: never in itself, never twice, never with its pool inside.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

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
    for (place, shown) in [(data, "the directory"), (mount_point, "the mount point")] {
        if pool.parent().is_some_and(|folder| {
            folder.exists() && is_same_or_inside(folder, place).unwrap_or(false)
        }) {
            return Err(refuse(format!(
                "the pool {} lies in {shown} {}, where programs could write into it; put it elsewhere",
                pool.display(),
                place.display()
            )));
        }
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

/// Locks the directory for as long as the descriptor is open, so that it is served once.
pub fn lock(data: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(data, flags, Mode::empty())?;
    match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(directory),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            format!(
                "{} is served already; use that mount, or unmount it first (findmnt --source forebay)",
                data.display()
            ),
        )),
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
    fn a_directory_is_locked_once() {
        let data = tempfile::tempdir().unwrap();
        let locked = lock(data.path()).unwrap();
        let error = lock(data.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        drop(locked);
        lock(data.path()).unwrap();
    }
}
