//! Setting up and clearing a mount point: what a killed daemon left is cleaned, what is busy is
//! left alone.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::mount::UnmountFlags;

/// Name shown as the source of our mounts in `/proc/self/mountinfo`.
pub const MOUNT_SOURCE: &str = "forebay";

/// A mount of ours: where it is, and the number that the kernel gave its file system, which tells it
/// from whatever else is mounted at the same place later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountIdentity {
    /// The mount point, absolute.
    pub directory: PathBuf,
    /// The file system's device number, as `major:minor`.
    pub device: String,
}

impl MountIdentity {
    /// What is mounted on exactly `directory` now, if it is ours.
    ///
    /// # Errors
    /// Nothing is mounted there ([`io::ErrorKind::NotFound`]), or something else is.
    pub fn of(directory: &Path) -> io::Result<MountIdentity> {
        let found = mounted_on(directory)?.ok_or_else(|| not_mounted(directory))?;
        if !found.is_ours() {
            return Err(foreign(directory, &found.source));
        }
        Ok(MountIdentity {
            directory: directory.to_path_buf(),
            device: found.device,
        })
    }

    /// Unmounts it, if it still is what is mounted there; `lazily` detaches it at once even while
    /// it is in use.
    ///
    /// # Errors
    /// [`io::ErrorKind::ResourceBusy`] where a plain unmount finds it in use,
    /// [`io::ErrorKind::NotFound`] where it is not mounted any more, another kind where something else
    /// is mounted over it.
    pub fn unmount(&self, lazily: bool) -> io::Result<()> {
        let found = MountIdentity::of(&self.directory)?;
        if found.device != self.device {
            return Err(foreign(&self.directory, "another forebay disk"));
        }
        unmount(&self.directory, lazily)
    }
}

fn not_mounted(directory: &Path) -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        format!("nothing is mounted on {}", directory.display()),
    )
}

fn foreign(directory: &Path, source: &str) -> io::Error {
    io::Error::other(format!(
        "{source} is mounted on {} over the disk and is left alone; unmount it first",
        directory.display()
    ))
}

/// Makes `directory` ready to be mounted on and returns its absolute path.
///
/// A dead mount of ours (its daemon was killed) is detached first. Anything else that is mounted
/// there is refused, and so is what lies in the directory: mounting over it would hide it.
pub fn prepare(directory: &Path) -> io::Result<PathBuf> {
    let resolved = resolve(directory)?;
    check_empty(&resolved)?;
    Ok(resolved)
}

/// As [`prepare`], but for what lies in the directory.
///
/// # Errors
/// As said there.
pub fn resolve(directory: &Path) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(directory)?;
    if let Some(found) = mounted_on(&absolute)? {
        if !found.is_ours() || !is_dead(&absolute) {
            let source = found.source;
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!(
                    "{} already has {source} mounted on it; unmount it or choose another directory",
                    absolute.display()
                ),
            ));
        }
        unmount(&absolute, true)?;
    }
    let metadata = fs::metadata(&absolute).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!(
                "the mount point {} cannot be used ({error}); create it with mkdir",
                absolute.display()
            ),
        )
    })?;
    if !metadata.is_dir() {
        return Err(io::Error::new(
            io::ErrorKind::NotADirectory,
            format!(
                "the mount point {} is not a directory; name an empty directory",
                absolute.display()
            ),
        ));
    }
    fs::canonicalize(&absolute)
}

/// Refuses a directory with something in it, which a mount would hide.
///
/// # Errors
/// With a name of what is there.
pub fn check_empty(directory: &Path) -> io::Result<()> {
    if let Some(first) = fs::read_dir(directory)?.next() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            format!(
                "the mount point {} has something in it ({}), which would be hidden; empty it, or name an \
                 empty directory",
                directory.display(),
                first?.file_name().display()
            ),
        ));
    }
    Ok(())
}

/// Whether the daemon behind a mount is gone. The question must reach the daemon: attributes may
/// still be answered from the kernel's cache. One whose daemon has just been killed with its rings answers `ECANCELED`
/// for a moment: the entry that the question came to was going with its thread.
pub fn is_dead(directory: &Path) -> bool {
    matches!(
        rustix::fs::statfs(directory),
        Err(Errno::NOTCONN | Errno::CONNABORTED | Errno::CANCELED)
    )
}

/// The caller has seen that what is mounted there is ours.
fn unmount(directory: &Path, lazily: bool) -> io::Result<()> {
    let flags = if lazily {
        UnmountFlags::DETACH | UnmountFlags::NOFOLLOW
    } else {
        UnmountFlags::NOFOLLOW
    };
    match rustix::mount::unmount(directory, flags) {
        Ok(()) => Ok(()),
        // Unmounted meanwhile by another process.
        Err(Errno::INVAL | Errno::NOENT) => Err(not_mounted(directory)),
        Err(Errno::PERM) => unmount_with_helper(directory, lazily),
        Err(errno) => Err(errno.into()),
    }
}

/// Only the setuid helper may unmount for a user other than root.
fn unmount_with_helper(directory: &Path, lazily: bool) -> io::Result<()> {
    let output = Command::new("fusermount3")
        .args(if lazily { ["-u", "-z"] } else { ["-u", "--"] })
        .arg(directory)
        .stdin(Stdio::null())
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let kind = if message.contains("busy") {
        io::ErrorKind::ResourceBusy
    } else {
        io::ErrorKind::Other
    };
    Err(io::Error::new(kind, message))
}

/// A line of `/proc/self/mountinfo`.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    point: String,
    options: String,
    device: String,
    file_system: String,
    source: String,
}

impl Mount {
    fn is_ours(&self) -> bool {
        self.source == MOUNT_SOURCE && self.file_system.starts_with("fuse")
    }
}

/// What is mounted last on exactly `directory`, if anything is.
fn mounted_on(directory: &Path) -> io::Result<Option<Mount>> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    // A dead mount cannot be resolved, its parent can.
    let resolved = match (directory.parent(), directory.file_name()) {
        (Some(parent), Some(name)) => fs::canonicalize(parent)
            .map(|parent| parent.join(name))
            .unwrap_or_else(|_| directory.to_path_buf()),
        _ => directory.to_path_buf(),
    };
    let mut mounts = table.lines().rev().filter_map(parse_mountinfo);
    Ok(mounts.find(|mount| Path::new(&mount.point) == resolved))
}

/// The options of each mount below `directory`, which is resolved, separated by commas.
///
/// # Errors
/// The kernel does not tell what is mounted.
pub fn options_below(directory: &Path) -> io::Result<Vec<String>> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let mounts = table.lines().filter_map(parse_mountinfo);
    let below = mounts.filter(|mount| {
        let point = Path::new(&mount.point);
        point != directory && point.starts_with(directory)
    });
    Ok(below.map(|mount| mount.options).collect())
}

/// Whether the file system that `directory` lies on is a directory that a process of ours serves.
///
/// # Errors
/// The directory is not there, or the kernel does not tell what is mounted.
pub fn is_served_directory(directory: &Path) -> io::Result<bool> {
    let device = fs::metadata(directory)?.dev();
    let device = format!(
        "{}:{}",
        rustix::fs::major(device),
        rustix::fs::minor(device)
    );
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let mut mounts = table.lines().filter_map(parse_mountinfo);
    Ok(mounts.any(|mount| {
        mount.is_ours() && mount.file_system == "fuse.files" && mount.device == device
    }))
}

/// Parses one line of `/proc/self/mountinfo` (see proc_pid_mountinfo(5)).
fn parse_mountinfo(line: &str) -> Option<Mount> {
    let (front, back) = line.split_once(" - ")?;
    let mut front = front.split(' ').skip(2);
    let device = front.next()?.to_owned();
    let point = unescape(front.nth(1)?);
    let options = front.next()?.to_owned();
    let mut back = back.split(' ');
    Some(Mount {
        point,
        options,
        device,
        file_system: back.next()?.to_owned(),
        source: unescape(back.next()?),
    })
}

/// The kernel writes space, tab, newline and backslash as three octal digits.
fn unescape(field: &str) -> String {
    [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ]
    .iter()
    .fold(field.to_owned(), |text, (code, plain)| {
        text.replace(code, plain)
    })
}

/// How a FUSE session ended, `ended` being what it returned. A read of the device that had taken a request
/// when the mount went fails with `ECONNABORTED` instead of `ENODEV`: the request is answered by the kernel,
/// and the session is over as orderly as otherwise.
///
/// # Errors
/// The session's.
pub fn session_end(ended: io::Result<()>) -> io::Result<()> {
    match ended {
        Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => Ok(()),
        ended => ended,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mountinfo_line_gives_what_is_mounted_where() {
        let line = "36 35 98:0 / /mnt/a\\040b rw,noatime master:1 - fuse forebay rw,user_id=0";
        assert_eq!(
            parse_mountinfo(line),
            Some(Mount {
                point: "/mnt/a b".to_owned(),
                options: "rw,noatime".to_owned(),
                device: "98:0".to_owned(),
                file_system: "fuse".to_owned(),
                source: "forebay".to_owned(),
            })
        );
    }

    #[test]
    fn what_is_not_ours_is_never_unmounted() {
        let identity = |path: &str| MountIdentity {
            directory: PathBuf::from(path),
            device: "0:0".to_owned(),
        };
        for lazily in [false, true] {
            let error = identity("/proc").unmount(lazily).unwrap_err();
            assert!(error.to_string().contains("left alone"), "{error}");
            let error = identity("/nowhere").unmount(lazily).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
        }
        assert!(Path::new("/proc/self").exists());
    }

    #[test]
    fn a_foreign_mount_is_refused_and_named() {
        let message = prepare(Path::new("/proc")).unwrap_err().to_string();
        assert!(message.contains("/proc"), "{message}");
        assert!(message.contains("unmount it"), "{message}");
    }

    #[test]
    fn a_mount_point_with_something_in_it_was_accepted() {
        let directory = tempfile::tempdir().unwrap();
        prepare(directory.path()).unwrap();
        fs::write(directory.path().join("letter"), b"hidden").unwrap();
        let message = prepare(directory.path()).unwrap_err().to_string();
        assert!(message.contains("letter"), "{message}");
        assert!(message.contains("empty directory"), "{message}");
    }

    #[test]
    fn a_missing_mount_point_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("not-there");
        let message = prepare(&missing).unwrap_err().to_string();
        assert!(message.contains("not-there"), "{message}");
        assert!(message.contains("mkdir"), "{message}");
    }

    #[test]
    fn an_unmount_beside_a_request_was_an_error_of_the_session() {
        let error = |code| Err(io::Error::from_raw_os_error(code));
        assert!(session_end(error(libc::ECONNABORTED)).is_ok());
        assert!(session_end(error(libc::EIO)).is_err() && session_end(Ok(())).is_ok());
    }
}
