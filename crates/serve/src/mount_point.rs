//! The mount point's own life: what a killed daemon left is cleaned, what is busy is left alone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::mount::UnmountFlags;

/// Name shown as the source of our mounts in `/proc/self/mountinfo`.
pub const MOUNT_SOURCE: &str = "forebay";

/// Makes `directory` ready to be mounted on and returns its absolute path.
///
/// A dead mount of ours (its daemon was killed) is detached first. Anything else that is mounted
/// there is refused, since mounting over it would hide it.
pub fn prepare(directory: &Path) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(directory)?;
    if let Some(source) = mounted_source(&absolute)? {
        if source != MOUNT_SOURCE || !is_dead(&absolute) {
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

/// Whether the daemon behind a mount is gone. The question must reach the daemon: attributes may
/// still be answered from the kernel's cache.
pub fn is_dead(directory: &Path) -> bool {
    use rustix::io::Errno;
    matches!(
        rustix::fs::statfs(directory),
        Err(Errno::NOTCONN | Errno::CONNABORTED)
    )
}

/// Unmounts `directory`; `lazily` detaches it at once even while it is in use.
///
/// Fails with [`io::ErrorKind::ResourceBusy`] where a plain unmount finds it in use.
pub fn unmount(directory: &Path, lazily: bool) -> io::Result<()> {
    let flags = if lazily {
        UnmountFlags::DETACH
    } else {
        UnmountFlags::empty()
    };
    match rustix::mount::unmount(directory, flags) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::PERM) => unmount_with_helper(directory, lazily),
        Err(errno) => Err(errno.into()),
    }
}

/// Only the setuid helper may unmount for a user who is not root.
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

/// The source of what is mounted last on exactly `directory`, if anything is.
pub fn mounted_source(directory: &Path) -> io::Result<Option<String>> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    // A dead mount cannot be resolved, its parent can.
    let resolved = match (directory.parent(), directory.file_name()) {
        (Some(parent), Some(name)) => fs::canonicalize(parent)
            .map(|parent| parent.join(name))
            .unwrap_or_else(|_| directory.to_path_buf()),
        _ => directory.to_path_buf(),
    };
    Ok(table
        .lines()
        .rev()
        .filter_map(parse_mountinfo)
        .find(|(point, _)| Path::new(point) == resolved)
        .map(|(_, source)| source))
}

/// Mount point and source of one line of `/proc/self/mountinfo` (see proc_pid_mountinfo(5)).
fn parse_mountinfo(line: &str) -> Option<(String, String)> {
    let (front, back) = line.split_once(" - ")?;
    let point = front.split(' ').nth(4)?;
    let source = back.split(' ').nth(1)?;
    Some((unescape(point), unescape(source)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mountinfo_line_gives_point_and_source() {
        let line = "36 35 98:0 / /mnt/a\\040b rw,noatime master:1 - fuse forebay rw,user_id=0";
        assert_eq!(
            parse_mountinfo(line),
            Some(("/mnt/a b".to_owned(), "forebay".to_owned()))
        );
    }

    #[test]
    fn a_foreign_mount_is_refused_and_named() {
        let message = prepare(Path::new("/proc")).unwrap_err().to_string();
        assert!(message.contains("/proc"), "{message}");
        assert!(message.contains("unmount it"), "{message}");
    }

    #[test]
    fn a_missing_mount_point_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("not-there");
        let message = prepare(&missing).unwrap_err().to_string();
        assert!(message.contains("not-there"), "{message}");
        assert!(message.contains("mkdir"), "{message}");
    }
}
