//! File ownership: no other user can have planted, forged or swapped what this process opens as its own.
//!
//! A file is ours when it was reached through no link at its last name (but for names of disks, below), belongs to this process's user or
//! to root, is writable by no other user, has one name, and lies in a directory where no other user may
//! change names: one that is ours by the same rule, or sticky and root's, like `/tmp` and `/dev/shm`.
//! All checks are made on the open descriptor, so that nothing can be swapped in between.
//!
//! The names that administrators use for disks are links. One is followed if it leads to a block device, is ours or root's, lies in a
//! directory where no other user can have made it, and has a name that is the device's: of `/dev/mapper`, `/dev/disk/by-id`,
//! `/dev/disk/by-path`, or LVM's `/dev/VG/LV`. What it leads to must be ours as well. A name that a disk has by what it holds
//! (`/dev/disk/by-uuid`, `by-label`, `by-partlabel` and the like) root's udev gives to any disk that holds it, also one that another user
//! plugged in or set up as a loop device; it is refused.

#![allow(unsafe_code, reason = "std opens nothing relative to a directory")]

use std::ffi::{CString, OsStr};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::{PmemError, PmemErrorKind};
use crate::foreign::Foreign;

const WRITABLE_BY_GROUP: u32 = 0o020;
const WRITABLE_BY_OTHERS: u32 = 0o002;
const STICKY: u32 = 0o1000;

fn us() -> u32 {
    // SAFETY: a plain system call.
    unsafe { libc::geteuid() }
}

/// Whether that user can do what it likes here anyway.
fn is_trusted(user: u32) -> bool {
    user == 0 || user == us()
}

/// What keeps a directory from being one where only we change names.
fn fault_of_directory(directory: &Metadata) -> Option<Foreign> {
    let (user, mode) = (directory.uid(), directory.mode());
    let foreign = Foreign::Directory {
        user,
        mode: mode & 0o7777,
    };
    // Many systems give each user a group of the same number, with no other member.
    let is_private_group = directory.gid() == user;
    let others_write =
        mode & WRITABLE_BY_OTHERS != 0 || (mode & WRITABLE_BY_GROUP != 0 && !is_private_group);
    let is_ours = is_trusted(user) && (!others_write || mode & STICKY != 0);
    (!is_ours).then_some(foreign)
}

/// What keeps a file from being ours.
fn fault_of_file(file: &Metadata) -> Option<Foreign> {
    if !is_trusted(file.uid()) {
        return Some(Foreign::Owner(file.uid()));
    }
    let kind = file.file_type();
    // Which group may write a device is the administrator's rule.
    let forbidden = match kind.is_char_device() || kind.is_block_device() {
        true => WRITABLE_BY_OTHERS,
        false => WRITABLE_BY_OTHERS | WRITABLE_BY_GROUP,
    };
    if file.mode() & forbidden != 0 {
        return Some(Foreign::Writable(file.mode() & 0o7777));
    }
    (kind.is_file() && file.nlink() > 1).then(|| Foreign::Names(file.nlink()))
}

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opening {
    /// To be read.
    Read,
    /// To be read and written.
    Write,
    /// To be read and written; made, for this user only, where it is not there.
    WriteOrMake,
    /// To be read and written; made, for this user only. It must not be there.
    Make,
}

impl Opening {
    fn flags(self) -> i32 {
        match self {
            Opening::Read => libc::O_RDONLY,
            Opening::Write | Opening::WriteOrMake => libc::O_RDWR,
            Opening::Make => libc::O_RDWR | libc::O_CREAT | libc::O_EXCL,
        }
    }
}

/// Links that are followed one after the other, at most.
const LINKS_MAX: u32 = 8;

/// Opens a file that must be ours (see the module), or with `trust_owner` any user's.
///
/// # Errors
/// The system's; [`PmemErrorKind::Foreign`].
pub fn open_own(path: &Path, opening: Opening, trust_owner: bool) -> Result<File, PmemError> {
    open_behind((path, LINKS_MAX, Path::new("/dev")), opening, trust_owner)
}

/// Opens it, through so many links at most, in this directory of devices.
fn open_behind(
    (path, links, devices): (&Path, u32, &Path),
    opening: Opening,
    trust_owner: bool,
) -> Result<File, PmemError> {
    let failed = |error| match opening {
        Opening::Make => PmemError::io("create the file", path, error),
        _ => PmemError::io("open it", path, error),
    };
    let foreign = |why| PmemError::new(PmemErrorKind::Foreign(why), path);
    let (parent, name) = match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if parent != Path::new("") => (parent, name),
        (_, Some(name)) => (Path::new("."), name),
        _ => return Err(failed(io::ErrorKind::IsADirectory.into())),
    };
    let mut options = File::options();
    let only_path = libc::O_PATH | libc::O_DIRECTORY;
    let directory = options.read(true).custom_flags(only_path).open(parent);
    let directory = directory.map_err(failed)?;
    if !trust_owner && let Some(why) = fault_of_directory(&directory.metadata().map_err(failed)?) {
        return Err(foreign(why));
    }
    let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let file = match open_in(&directory, name, opening) {
        // In a sticky directory the kernel may refuse to open a file for creation that another user owns.
        Err(error) if opening == Opening::WriteOrMake && is_missing(&error) => {
            open_in(&directory, name, Opening::Make)
        }
        opened => opened,
    };
    let is_link = |error: &io::Error| error.raw_os_error() == Some(libc::ELOOP);
    if file.as_ref().is_err_and(is_link) {
        let target = disk_of_link(&directory, parent.join(name).as_path(), links);
        let target = target.ok_or_else(|| foreign(Foreign::Link))?;
        check_name(&directory, (name, &target), devices).map_err(foreign)?;
        // A disk that is gone by now is not made as a file.
        let opening = match opening {
            Opening::WriteOrMake => Opening::Write,
            other => other,
        };
        let file = open_behind((&target, links - 1, devices), opening, trust_owner)?;
        // It may be another file by now.
        let kind = file.metadata().map_err(failed)?.file_type();
        return match kind.is_block_device() {
            true => Ok(file),
            false => Err(foreign(Foreign::Link)),
        };
    }
    let file = file.map_err(|error| match error.raw_os_error() {
        Some(libc::EEXIST) => PmemError::new(PmemErrorKind::AlreadyExists, path),
        _ => failed(error),
    })?;
    if !trust_owner && let Some(why) = fault_of_file(&file.metadata().map_err(failed)?) {
        return Err(foreign(why));
    }
    wait_again(&file).map_err(failed)?;
    Ok(file)
}

/// Where a link leads, if to a block device, and if no other user can have made the link: whatever of an owner is trusted. Between the
/// looks none can change it: only its owner and root may, there.
fn disk_of_link(directory: &File, path: &Path, links: u32) -> Option<PathBuf> {
    let is_safe = fault_of_directory(&directory.metadata().ok()?).is_none();
    // By the directory that is open, whatever its name leads to now.
    let link = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string());
    let link = link.join(path.file_name()?);
    let found = link.symlink_metadata().ok()?;
    // A second name may be one that another user gave to root's link.
    let is_trusted = is_trusted(found.uid()) && found.nlink() == 1;
    let target = path.parent()?.join(link.read_link().ok()?);
    let is_disk = target.metadata().ok()?.file_type().is_block_device();
    (is_safe && is_trusted && is_disk && links > 0).then_some(target)
}

/// Starts of names in `by-id` that are read from what the disk holds.
const BY_CONTENTS: [&[u8]; 3] = [b"lvm-pv-uuid-", b"md-name-", b"md-uuid-"];

/// Refuses a link's name that is not the device's own. The directory counts that is open, by whatever path it was reached.
fn check_name(
    directory: &File,
    (name, target): (&OsStr, &Path),
    devices: &Path,
) -> Result<(), Foreign> {
    let open = format!("/proc/self/fd/{}", directory.as_raw_fd());
    let place = std::fs::read_link(open).map_err(|_| Foreign::Link)?;
    let inside = place.strip_prefix(devices).map_err(|_| Foreign::Link)?;
    let has_start = |start: &&[u8]| name.as_bytes().starts_with(start);
    match inside.as_os_str().as_bytes() {
        b"mapper" | b"disk/by-path" => Ok(()),
        b"disk/by-id" if BY_CONTENTS.iter().any(has_start) => Err(Foreign::NamedByContents),
        b"disk/by-id" => Ok(()),
        inside if inside.starts_with(b"disk/") => Err(Foreign::NamedByContents),
        // LVM's, and not a name in the directory itself or deeper down.
        inside if !inside.is_empty() && !inside.contains(&b'/') => {
            match is_mapped(target, devices) {
                true => Ok(()),
                false => Err(Foreign::Link),
            }
        }
        _ => Err(Foreign::Link),
    }
}

/// Whether a path is that of a device of the device mapper.
fn is_mapped(path: &Path, devices: &Path) -> bool {
    let parent = path.parent().and_then(|parent| parent.canonicalize().ok());
    let name = path.file_name().unwrap_or_default().as_bytes();
    parent.is_some_and(|parent| {
        parent == devices.join("mapper") || parent == devices && name.starts_with(b"dm-")
    })
}

/// Takes back that the file was opened not to wait: what is written through rings and to file systems
/// of other processes would else come back undone.
fn wait_again(file: &File) -> io::Result<()> {
    // SAFETY: a plain system call on a descriptor that is open.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a plain system call on a descriptor that is open.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags & !libc::O_NONBLOCK) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn open_in(directory: &File, name: &OsStr, opening: Opening) -> io::Result<File> {
    let name = CString::new(name.as_bytes())?;
    // A fifo must not make us wait.
    let flags = opening.flags() | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    loop {
        // SAFETY: the name ends in a zero, and the descriptor is open.
        let opened = unsafe { libc::openat(directory.as_raw_fd(), name.as_ptr(), flags, 0o600) };
        if opened >= 0 {
            // SAFETY: the descriptor is new, so this is its only owner.
            return Ok(unsafe { File::from_raw_fd(opened) });
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn why(path: &Path) -> Option<Foreign> {
        match open_own(path, Opening::Write, false) {
            Ok(_) => None,
            Err(error) => match error.kind() {
                PmemErrorKind::Foreign(why) => Some(why),
                other => panic!("{other:?}"),
            },
        }
    }

    #[test]
    fn a_file_of_our_own_stayed_open_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for opening in [
            Opening::Make,
            Opening::WriteOrMake,
            Opening::Write,
            Opening::Read,
        ] {
            let file = open_own(&path, opening, false).unwrap();
            // SAFETY: a plain system call on a descriptor that is open.
            let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
            assert_eq!(flags & libc::O_NONBLOCK, 0, "{opening:?}");
        }
    }

    #[test]
    fn a_file_is_ours_only_where_nobody_else_can_reach_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        drop(open_own(&path, Opening::WriteOrMake, false).unwrap());
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(why(&path), None);
        let set = |path: &Path, mode| {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        };
        set(&path, 0o644);
        assert_eq!(why(&path), None);
        set(&path, 0o660);
        assert_eq!(why(&path), Some(Foreign::Writable(0o660)));
        set(&path, 0o600);
        fs::hard_link(&path, folder.path().join("again")).unwrap();
        assert_eq!(why(&path), Some(Foreign::Names(2)));
        fs::remove_file(folder.path().join("again")).unwrap();
        set(folder.path(), 0o1777);
        assert_eq!(why(&path), None);
        set(folder.path(), 0o777);
        assert!(matches!(why(&path), Some(Foreign::Directory { .. })));
        open_own(&path, Opening::Write, true).unwrap();
        set(folder.path(), 0o700);
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        assert_eq!(why(&link), Some(Foreign::Link));
        // A link to a file is never followed, trusted owner or not.
        open_own(&link, Opening::Write, true).unwrap_err();
        let made = open_own(&path, Opening::Make, true).unwrap_err();
        assert_eq!(made.kind(), PmemErrorKind::AlreadyExists);
    }

    /// A disk of this machine that may be read.
    fn disk() -> Option<PathBuf> {
        let names = fs::read_dir("/sys/class/block").ok()?;
        let disks = names
            .flatten()
            .map(|name| Path::new("/dev").join(name.file_name()));
        let mut disks = disks.filter(|disk| open_own(disk, Opening::Read, false).is_ok());
        disks.next()
    }

    #[test]
    fn a_name_of_a_disk_is_followed_where_nobody_else_can_have_made_it() {
        let Some(disk) = disk() else {
            eprintln!("skipped a_name_of_a_disk_is_followed: no disk may be read here");
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let devices = folder.path().canonicalize().unwrap();
        let open = |name: &str, is_trusting| {
            let path = devices.join(name);
            open_behind((&path, LINKS_MAX, &devices), Opening::Read, is_trusting)
        };
        let why = |name: &str| match open(name, true).unwrap_err().kind() {
            PmemErrorKind::Foreign(why) => why,
            other => panic!("{name}: {other:?}"),
        };
        let link = |target: &Path, name: &str| {
            fs::create_dir_all(devices.join(name).parent().unwrap()).unwrap();
            symlink(target, devices.join(name)).unwrap();
        };
        // LVM's by way of another link, and relative.
        link(Path::new("../mapper/x"), "group/volume");
        for name in ["mapper/x", "disk/by-id/wwn-1", "disk/by-path/pci-1"] {
            link(&disk, name);
        }
        for name in [
            "mapper/x",
            "disk/by-id/wwn-1",
            "disk/by-path/pci-1",
            "group/volume",
        ] {
            let opened = open(name, false).unwrap();
            assert!(opened.metadata().unwrap().file_type().is_block_device());
        }
        for name in [
            "disk/by-uuid/1",
            "disk/by-label/pool",
            "disk/by-partuuid/1",
            "disk/by-partlabel/pool",
            "disk/by-id/lvm-pv-uuid-1",
            "disk/by-id/md-uuid-1",
        ] {
            link(&disk, name);
            assert_eq!(why(name), Foreign::NamedByContents, "{name}");
        }
        // Not LVM's, though it looks like that; in the directory itself; outside of it; and by a path that hides where it is.
        link(&disk, "block/8:0");
        link(&disk, "name");
        symlink(devices.join("disk/by-label"), devices.join("hidden")).unwrap();
        assert_eq!(why("block/8:0"), Foreign::Link);
        assert_eq!(why("name"), Foreign::Link);
        assert_eq!(why("hidden/pool"), Foreign::NamedByContents);
        let outside = open_own(&devices.join("mapper/x"), Opening::Read, true);
        assert_eq!(
            outside.unwrap_err().kind(),
            PmemErrorKind::Foreign(Foreign::Link)
        );
        let mapper = devices.join("mapper");
        fs::hard_link(mapper.join("x"), mapper.join("second")).unwrap();
        assert_eq!(why("mapper/x"), Foreign::Link);
        fs::remove_file(mapper.join("second")).unwrap();
        fs::set_permissions(&mapper, Permissions::from_mode(0o777)).unwrap();
        for is_trusting in [false, true] {
            let error = open("mapper/x", is_trusting).unwrap_err();
            assert!(matches!(error.kind(), PmemErrorKind::Foreign(_)), "{error}");
        }
        fs::set_permissions(&mapper, Permissions::from_mode(0o700)).unwrap();
        link(Path::new("round"), "mapper/round");
        assert_eq!(why("mapper/round"), Foreign::Link);
    }
}
