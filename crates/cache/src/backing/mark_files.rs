//! Where marks of files, directories and devices lie: an extended attribute, or a file beside.
//!
//! What [`MarkFiles::write`] wrote is durable when it returns, and whatever part of it a crash leaves, one
//! whole mark is found: attributes are replaced whole, files by a rename.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use super::MarkPlace;
use crate::repeatable::sync_mark;

/// The attribute that any user with write access to the file may set.
pub const USER_ATTRIBUTE: &str = "user.forebay";
/// The one for root only: of a directory, in which programs of any user work.
pub const TRUSTED_ATTRIBUTE: &str = "trusted.forebay";
/// Of the pool in front of the one that has the file.
const FRONT_ATTRIBUTE: &str = "user.forebay.front";
/// Added to the name of what the file beside is about.
const SUFFIX: &str = ".forebay";
/// Added to that for the pool in front: no name of ours has it otherwise (see `plain`).
const FRONT_SUFFIX: &str = "%front";
/// Names the folder of devices' marks, instead of the one below.
const FOLDER_VARIABLE: &str = "FOREBAY_MARK_DIRECTORY";
const FOLDER: &str = "/var/lib/forebay";
/// No mark is longer; what is, is none.
const MARK_BYTES_MAX: u64 = 16 << 10;

/// The places of one backing's mark, the best one first.
#[derive(Debug)]
pub struct MarkFiles {
    /// What has the attributes.
    attributed: Option<Arc<File>>,
    attributes: &'static [&'static str],
    file: PathBuf,
    /// Where no file can be made beside.
    elsewhere: Option<PathBuf>,
    is_kept_for_a_boot: bool,
}

impl MarkFiles {
    /// Of an open image at `path`.
    #[must_use]
    pub fn of_image(image: File, path: &Path) -> MarkFiles {
        MarkFiles {
            attributed: Some(Arc::new(image)),
            attributes: &[USER_ATTRIBUTE],
            file: beside(path),
            elsewhere: Some(mark_folder().join(plain(path.as_os_str()))),
            is_kept_for_a_boot: false,
        }
    }

    /// Of an open directory at `path`.
    #[must_use]
    pub fn of_directory(directory: File, path: &Path) -> MarkFiles {
        MarkFiles {
            attributes: &[TRUSTED_ATTRIBUTE, USER_ATTRIBUTE],
            ..MarkFiles::of_image(directory, path)
        }
    }

    /// Of a block device.
    #[must_use]
    pub fn of_device(device: &Path) -> MarkFiles {
        MarkFiles::at(mark_folder().join(plain(&stable_name(device))))
    }

    /// Of the files, wherever they are, that a pool is for: in the user's own directory.
    #[must_use]
    pub fn of_pool_of_files(pool: &Path) -> MarkFiles {
        MarkFiles::at(file_of_pool(pool))
    }

    /// In this file alone.
    #[must_use]
    pub fn at(file: PathBuf) -> MarkFiles {
        MarkFiles {
            attributed: None,
            attributes: &[],
            file,
            elsewhere: None,
            is_kept_for_a_boot: false,
        }
    }

    /// Of the same backing, for the pool in front of the one that these are for.
    #[must_use]
    pub fn in_front(&self) -> MarkFiles {
        let in_front = |path: &PathBuf| {
            let mut name = path.clone().into_os_string();
            name.push(FRONT_SUFFIX);
            PathBuf::from(name)
        };
        MarkFiles {
            attributed: self.attributed.clone(),
            attributes: match self.attributes.is_empty() {
                true => &[],
                false => &[FRONT_ATTRIBUTE],
            },
            file: in_front(&self.file),
            elsewhere: self.elsewhere.as_ref().map(in_front),
            is_kept_for_a_boot: false,
        }
    }

    /// Of many short processes, see [`MarkPlace::is_kept_for_a_boot`].
    #[must_use]
    pub fn kept_for_a_boot(self) -> MarkFiles {
        MarkFiles {
            is_kept_for_a_boot: true,
            ..self
        }
    }

    /// Without attributes, as on file systems that have none.
    #[must_use]
    pub fn without_attributes(self) -> MarkFiles {
        MarkFiles {
            attributes: &[],
            ..self
        }
    }

    /// Of whatever lies at `path`, to be looked at.
    ///
    /// # Errors
    /// It is not there, or nothing that could be a backing.
    pub fn of_path(path: &Path) -> io::Result<MarkFiles> {
        let path = std::fs::canonicalize(path)?;
        let kind = std::fs::metadata(&path)?.file_type();
        match () {
            () if kind.is_block_device() => Ok(MarkFiles::of_device(&path)),
            () if kind.is_dir() => Ok(MarkFiles::of_directory(File::open(&path)?, &path)),
            () if kind.is_file() => Ok(MarkFiles::of_image(File::open(&path)?, &path)),
            () => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is neither a file, nor a directory, nor a block device",
            )),
        }
    }

    fn read_attribute(file: &File, name: &str) -> io::Result<Option<Vec<u8>>> {
        let mut value = vec![0; MARK_BYTES_MAX as usize];
        match rustix::fs::fgetxattr(file, name, &mut value[..]) {
            Ok(len) => {
                value.truncate(len);
                Ok(Some(value))
            }
            Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) => Ok(None),
            // What is longer is no mark of ours.
            Err(Errno::RANGE) => Ok(Some(Vec::new())),
            Err(error) => Err(error.into()),
        }
    }

    fn read_file(path: &Path) -> io::Result<Option<Vec<u8>>> {
        // Most have none; that is seen without a descriptor, of which there may be none left.
        let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        if path
            .symlink_metadata()
            .is_err_and(|error| is_missing(&error))
        {
            return Ok(None);
        }
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path);
        let file = match opened {
            Ok(file) => file,
            Err(error) if is_missing(&error) => return Ok(None),
            Err(error) => return Err(told(path, &error)),
        };
        let mut bytes = Vec::new();
        if file.metadata()?.is_file() {
            io::Read::read_to_end(&mut io::Read::take(file, MARK_BYTES_MAX), &mut bytes)?;
        }
        Ok(Some(bytes))
    }

    /// Writes the first attribute that the file takes; which one.
    fn write_attribute(&self, mark: &[u8]) -> io::Result<Option<&'static str>> {
        let Some(file) = &self.attributed else {
            return Ok(None);
        };
        for name in self.attributes {
            match rustix::fs::fsetxattr(file, *name, mark, XattrFlags::empty()) {
                Ok(()) => {
                    // An fdatasync may leave attributes out.
                    sync_mark(file)?;
                    return Ok(Some(*name));
                }
                Err(error) if is_no_place(error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// A new file in the place of the old one: a crash leaves the one or the other.
    fn write_file(path: &Path, mark: &[u8]) -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("/"));
        make_folder(folder)?;
        let mut made = path.to_path_buf().into_os_string();
        made.push(".new");
        // Left by a killed process, or not ours: nothing is followed or written through.
        match std::fs::remove_file(&made) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&made)?;
        file.write_all(mark)?;
        sync_mark(&file)?;
        std::fs::rename(&made, path)?;
        // Orders the new name before whatever relies on it.
        sync_mark(&File::open(folder)?)
    }

    /// Writes the file beside, or elsewhere where none can be made beside; whether it is beside.
    fn write_files(&self, mark: &[u8]) -> io::Result<bool> {
        let refusal = match MarkFiles::write_file(&self.file, mark) {
            Ok(()) => return Ok(true),
            Err(error) => error,
        };
        let is_refused = refusal.raw_os_error().is_some_and(|code| {
            let refusals = [
                Errno::NOSYS,
                Errno::OPNOTSUPP,
                Errno::ROFS,
                Errno::PERM,
                Errno::ACCESS,
            ];
            refusals.contains(&Errno::from_raw_os_error(code))
        });
        match &self.elsewhere {
            Some(path) if is_refused => {
                MarkFiles::write_file(path, mark).map_err(|error| told(path, &error))?;
                Ok(false)
            }
            _ => Err(told(&self.file, &refusal)),
        }
    }

    /// Takes away what stands elsewhere; it is older, and would not count.
    fn remove_others(&self, written: Option<&str>, is_beside: bool) {
        if let Some(file) = &self.attributed {
            for name in self
                .attributes
                .iter()
                .filter(|name| Some(**name) != written)
            {
                let _ = rustix::fs::fremovexattr(file, *name);
            }
        }
        if written.is_some() {
            let _ = std::fs::remove_file(&self.file);
        }
        if let Some(path) = self
            .elsewhere
            .as_ref()
            .filter(|_| written.is_some() || is_beside)
        {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn told(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

impl MarkPlace for MarkFiles {
    fn read(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut found = Vec::new();
        if let Some(file) = &self.attributed {
            for name in self.attributes {
                found.extend(MarkFiles::read_attribute(file, name)?);
            }
        }
        for path in [Some(&self.file), self.elsewhere.as_ref()]
            .into_iter()
            .flatten()
        {
            found.extend(MarkFiles::read_file(path)?);
        }
        Ok(found)
    }

    fn write(&self, mark: &[u8]) -> io::Result<()> {
        let written = self.write_attribute(mark)?;
        let is_beside = written.is_none() && self.write_files(mark)?;
        self.remove_others(written, is_beside);
        Ok(())
    }

    fn is_empty_directory(&self) -> bool {
        let Some(directory) = &self.attributed else {
            return false;
        };
        let is_own =
            |name: &std::ffi::CStr| matches!(name.to_bytes(), b"." | b".." | b"lost+found");
        let opened = rustix::fs::Dir::read_from(directory);
        opened.is_ok_and(|entries| {
            entries
                .into_iter()
                .all(|entry| entry.is_ok_and(|entry| is_own(entry.file_name())))
        })
    }

    fn is_kept_for_a_boot(&self) -> bool {
        self.is_kept_for_a_boot
    }
}

/// Whether the file system, or our rights, have no room for the attribute: then it is tried elsewhere.
fn is_no_place(error: Errno) -> bool {
    [
        Errno::OPNOTSUPP,
        Errno::NOSYS,
        Errno::PERM,
        Errno::ACCESS,
        Errno::ROFS,
        Errno::NOSPC,
        Errno::DQUOT,
        Errno::TOOBIG,
        Errno::RANGE,
    ]
    .contains(&error)
}

/// Where the mark lies of the files of a pool, by the pool's path.
#[must_use]
pub fn file_of_pool(pool: &Path) -> PathBuf {
    let pool = std::fs::canonicalize(pool).unwrap_or_else(|_| pool.to_path_buf());
    let absolute = |name: &str| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .map(|state| state.join("forebay"));
    let folder = state.unwrap_or_else(mark_folder);
    folder.join(plain(pool.as_os_str()))
}

/// Where the marks of devices lie, and of what has no room for one.
#[must_use]
pub fn mark_folder() -> PathBuf {
    let folder = std::env::var_os(FOLDER_VARIABLE);
    folder.map_or_else(|| PathBuf::from(FOLDER), PathBuf::from)
}

/// The name of the file beside.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.to_path_buf().into_os_string();
    name.push(SUFFIX);
    name.into()
}

/// Makes the folder and what leads there, durably.
fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(above) = folder.parent() {
        make_folder(above)?;
        match std::fs::create_dir(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        File::open(above)?.sync_all()?;
    }
    Ok(())
}

/// What a device is called at every boot, as far as the system tells.
fn stable_name(device: &Path) -> OsString {
    let device = std::fs::canonicalize(device).unwrap_or_else(|_| device.to_path_buf());
    for folder in ["/dev/disk/by-id", "/dev/disk/by-partuuid"] {
        let Ok(entries) = std::fs::read_dir(folder) else {
            continue;
        };
        let leads_here = |link: &PathBuf| std::fs::canonicalize(link).is_ok_and(|to| to == device);
        let links = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let names = links
            .filter(leads_here)
            .filter_map(|link| Some(link.file_name()?.to_owned()));
        if let Some(name) = most_stable(names) {
            return name;
        }
    }
    let number = std::fs::metadata(&device).map_or(0, |found| found.rdev());
    let (major, minor) = (libc::major(number), libc::minor(number));
    let folder = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    name_in_system(&folder).unwrap_or_else(|| device.into_os_string())
}

/// Of a device's names the one that it keeps and shares with no other: one with a serial number goes to one
/// of several namespaces of a disk, and a mapping may be renamed.
fn most_stable(names: impl Iterator<Item = OsString>) -> Option<OsString> {
    const UNIQUE: [&str; 5] = ["dm-uuid-", "md-uuid-", "nvme-eui.", "nvme-uuid.", "wwn-"];
    let is_unique = |name: &OsString| {
        let starts = |prefix: &&str| name.as_bytes().starts_with(prefix.as_bytes());
        UNIQUE.iter().any(starts)
    };
    names.min_by_key(|name| (!is_unique(name), name.clone()))
}

/// What the system says of the device that this folder of it describes. Not the serial number of what the
/// device is a part of, which its other parts have too.
fn name_in_system(folder: &Path) -> Option<OsString> {
    let text_of = |name: &str| {
        let text = std::fs::read(folder.join(name)).unwrap_or_default();
        let text = std::ffi::OsStr::from_bytes(text.trim_ascii()).to_owned();
        (!text.is_empty()).then_some(text)
    };
    let of_its_own = ["dm/uuid", "wwid", "device/wwid", "serial"];
    of_its_own.into_iter().find_map(text_of).or_else(|| {
        // Several may be of one image, each from its own offset on.
        let mut image = text_of("loop/backing_file")?;
        if let Some(offset) = text_of("loop/offset").filter(|offset| offset != "0") {
            image.push("@");
            image.push(offset);
        }
        Some(image)
    })
}

/// A name as a file may have it, no two the same: slashes and what is no plain letter are written as numbers.
fn plain(name: &std::ffi::OsStr) -> String {
    let mut text = String::new();
    for byte in name.as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b':' | b'+' => {
                text.push(char::from(*byte));
            }
            b'.' if !text.is_empty() => text.push('.'),
            other => text.push_str(&format!("%{other:02x}")),
        }
    }
    // Room for a suffix, as file systems have it.
    let digest = forebay_pmem::crc32c(text.as_bytes());
    if text.len() > 200 {
        text.truncate(200);
        text.push_str(&format!("-{digest:08x}"));
    }
    text.push_str(".mark");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(folder: &tempfile::TempDir) -> (File, PathBuf) {
        let path = folder.path().join("image");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .unwrap();
        (file, path)
    }

    #[test]
    fn a_mark_goes_to_the_attribute_and_the_file_beside_goes_away() {
        let folder = tempfile::tempdir().unwrap();
        let (file, path) = image(&folder);
        let beside = folder.path().join("image.forebay");
        let without = MarkFiles::of_image(file.try_clone().unwrap(), &path).without_attributes();
        without.write(b"one").unwrap();
        assert_eq!(without.read().unwrap(), [b"one"]);
        assert_eq!(std::fs::read(&beside).unwrap(), b"one");
        let with = MarkFiles::of_image(file, &path);
        assert_eq!(with.read().unwrap(), [b"one"], "both places are read");
        with.write(b"two").unwrap();
        assert_eq!(with.read().unwrap(), [b"two"]);
        if !beside.exists() {
            assert_eq!(MarkFiles::of_path(&path).unwrap().read().unwrap(), [b"two"]);
        } else {
            eprintln!("skipped the attribute: this file system has none");
        }
    }

    #[test]
    fn a_directorys_mark_is_never_inside() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let open = || MarkFiles::of_directory(File::open(&data).unwrap(), &data);
        for place in [open(), open().without_attributes()] {
            assert!(place.is_empty_directory());
            place.write(b"a mark").unwrap();
            assert!(open().read().unwrap().contains(&b"a mark".to_vec()));
            assert_eq!(std::fs::read_dir(&data).unwrap().count(), 0);
        }
        std::fs::write(data.join("file"), b"").unwrap();
        assert!(!open().is_empty_directory());
    }

    #[test]
    fn a_planted_link_is_not_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let (file, path) = image(&folder);
        let other = folder.path().join("other");
        std::fs::write(&other, b"precious").unwrap();
        for name in ["image.forebay", "image.forebay.new"] {
            std::os::unix::fs::symlink(&other, folder.path().join(name)).unwrap();
        }
        let place = MarkFiles::of_image(file, &path).without_attributes();
        assert!(place.read().is_err());
        place.write(b"a mark").unwrap();
        assert_eq!(place.read().unwrap(), [b"a mark"]);
        assert_eq!(std::fs::read(other).unwrap(), b"precious");
    }

    #[test]
    fn namespaces_of_one_disk_and_offsets_of_one_image_do_not_share_a_mark() {
        let folder = tempfile::tempdir().unwrap();
        let device = |name: &str, files: &[(&str, &str)]| {
            let device = folder.path().join(name);
            for (path, text) in files {
                let path = device.join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            name_in_system(&device)
        };
        let disk = ("device/serial", "S1\n");
        let one = device("nvme0n1", &[disk, ("wwid", "eui.01\n")]);
        let two = device("nvme0n2", &[disk, ("wwid", "eui.02\n")]);
        assert_eq!(one, Some("eui.01".into()));
        assert_eq!(two, Some("eui.02".into()));
        assert_eq!(device("mmcblk0boot0", &[disk]), None);
        let image = ("loop/backing_file", "/a disk\n");
        let first = device("loop0", &[image, ("loop/offset", "0\n")]);
        let second = device("loop1", &[image, ("loop/offset", "4096\n")]);
        assert_eq!(first, Some("/a disk".into()));
        assert_eq!(second, Some("/a disk@4096".into()));

        let of = |names: &[&str]| most_stable(names.iter().map(OsString::from));
        let linked = of(&["nvme-DISK_S1", "nvme-eui.01"]);
        assert_eq!(linked, of(&["nvme-eui.01"]));
        let named = of(&["dm-name-old", "dm-uuid-1"]);
        assert_eq!(named, of(&["dm-name-new", "dm-uuid-1"]));
        assert_eq!(of(&["ata-DISK", "scsi-DISK"]), Some("ata-DISK".into()));
    }

    #[test]
    fn devices_have_names_that_files_may_have() {
        let slash = plain(std::ffi::OsStr::new("/dev/loop0"));
        assert_eq!(slash, "%2fdev%2floop0.mark");
        assert_eq!(plain(std::ffi::OsStr::new("..")), "%2e..mark");
        let long = "x".repeat(300);
        assert!(plain(std::ffi::OsStr::new(&long)).len() < 255);
    }
}
