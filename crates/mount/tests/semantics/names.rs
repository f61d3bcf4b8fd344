//! Names: made, moved, removed, listed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, symlink};

use rustix::fs::{CWD, FileType, Mode, RenameFlags};

use crate::fixture::Mounted;

fn names_of(path: &std::path::Path) -> BTreeSet<String> {
    let entries = fs::read_dir(path).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn inode_numbers_and_attributes_are_those_behind_the_mount() {
    let Some(place) = Mounted::new("inode_numbers") else {
        return;
    };
    fs::create_dir(place.path("folder")).unwrap();
    fs::write(place.path("folder/file"), b"twelve bytes").unwrap();
    for name in ["", "folder", "folder/file"] {
        let (shown, real) = (
            fs::metadata(place.path(name)).unwrap(),
            fs::metadata(place.data(name)).unwrap(),
        );
        assert_eq!(shown.ino(), real.ino(), "{name}");
        assert_eq!(shown.mode(), real.mode(), "{name}");
        assert_eq!(shown.nlink(), real.nlink(), "{name}");
        assert_eq!(shown.len(), real.len(), "{name}");
    }
    let listed = fs::read_dir(place.path("folder")).unwrap().next();
    let listed = listed.unwrap().unwrap();
    let real = fs::metadata(place.data("folder/file")).unwrap();
    use std::os::unix::fs::DirEntryExt;
    assert_eq!(listed.ino(), real.ino());
}

#[test]
fn a_file_that_is_unlinked_while_open_is_read_and_written_on() {
    let Some(place) = Mounted::new("unlinked") else {
        return;
    };
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(place.path("gone"))
        .unwrap();
    file.write_all(b"before").unwrap();
    fs::remove_file(place.path("gone")).unwrap();
    assert!(!place.path("gone").exists());
    assert!(!place.data("gone").exists());
    file.write_all(b" after").unwrap();
    file.sync_all().unwrap();
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    let mut found = [0; 12];
    file.read_exact_at(&mut found, 0).unwrap();
    assert_eq!(&found, b"before after");
    // The name is free for another inode while the old one lives.
    fs::write(place.path("gone"), b"another").unwrap();
    file.read_exact_at(&mut found, 0).unwrap();
    assert_eq!(&found, b"before after");
}

#[test]
fn renaming_replaces_exchanges_or_refuses() {
    let Some(place) = Mounted::new("renaming") else {
        return;
    };
    let write = |name: &str| fs::write(place.path(name), name).unwrap();
    let read = |name: &str| fs::read_to_string(place.path(name)).unwrap();
    ["one", "two", "three"].iter().for_each(|name| write(name));
    let mut replaced = File::open(place.path("two")).unwrap();
    fs::rename(place.path("one"), place.path("two")).unwrap();
    assert_eq!(read("two"), "one");
    let mut found = String::new();
    replaced.read_to_string(&mut found).unwrap();
    assert_eq!(found, "two", "the replaced file lives while it is open");
    let rename =
        |flags| rustix::fs::renameat_with(CWD, place.path("two"), CWD, place.path("three"), flags);
    assert_eq!(
        rename(RenameFlags::NOREPLACE),
        Err(rustix::io::Errno::EXIST)
    );
    rename(RenameFlags::EXCHANGE).unwrap();
    assert_eq!((read("two"), read("three")), ("three".into(), "one".into()));
    // Directories move with what is in them, and into each other's place.
    fs::create_dir_all(place.path("full/inner")).unwrap();
    write("full/inner/deep");
    fs::rename(place.path("full"), place.path("moved")).unwrap();
    assert_eq!(read("moved/inner/deep"), "full/inner/deep");
    let into_itself = fs::rename(place.path("moved"), place.path("moved/inner/moved"));
    assert_eq!(into_itself.unwrap_err().kind(), ErrorKind::InvalidInput);
    let over_full = fs::rename(place.path("two"), place.path("moved"));
    assert_eq!(over_full.unwrap_err().kind(), ErrorKind::IsADirectory);
}

#[test]
fn links_share_an_inode_and_symbolic_links_keep_their_target() {
    let Some(place) = Mounted::new("links") else {
        return;
    };
    fs::write(place.path("first"), b"shared").unwrap();
    fs::hard_link(place.path("first"), place.path("second")).unwrap();
    let (first, second) = (
        fs::metadata(place.path("first")).unwrap(),
        fs::metadata(place.path("second")).unwrap(),
    );
    assert_eq!((first.ino(), first.nlink()), (second.ino(), 2));
    fs::remove_file(place.path("first")).unwrap();
    assert_eq!(fs::metadata(place.path("second")).unwrap().nlink(), 1);
    assert_eq!(fs::read(place.path("second")).unwrap(), b"shared");
    symlink("second", place.path("pointer")).unwrap();
    symlink("nowhere", place.path("dangling")).unwrap();
    fs::hard_link(place.path("pointer"), place.path("pointer too")).unwrap();
    assert_eq!(fs::read(place.path("pointer too")).unwrap(), b"shared");
    assert_eq!(
        fs::read_link(place.path("dangling")).unwrap().as_os_str(),
        OsStr::new("nowhere")
    );
    assert_eq!(
        fs::metadata(place.path("dangling")).unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn fifos_sockets_and_devices_are_made() {
    let Some(place) = Mounted::new("fifos") else {
        return;
    };
    let mode = Mode::from_raw_mode(0o640);
    for (name, kind) in [
        ("fifo", FileType::Fifo),
        ("socket", FileType::Socket),
        ("plain", FileType::RegularFile),
    ] {
        rustix::fs::mknodat(CWD, place.path(name), kind, mode, 0).unwrap();
    }
    let null = rustix::fs::makedev(1, 3);
    rustix::fs::mknodat(
        CWD,
        place.path("null"),
        FileType::CharacterDevice,
        mode,
        null,
    )
    .unwrap();
    let kind = |name: &str| fs::metadata(place.path(name)).unwrap().file_type();
    assert!(kind("fifo").is_fifo());
    assert!(kind("socket").is_socket());
    assert!(kind("plain").is_file());
    assert!(kind("null").is_char_device());
    assert_eq!(fs::metadata(place.path("null")).unwrap().rdev(), null);
    fs::write(place.path("null"), b"into nothing").unwrap();
    assert_eq!(fs::read(place.path("null")).unwrap(), b"");
}

#[test]
fn names_that_cannot_be_are_refused_as_behind_the_mount() {
    let Some(place) = Mounted::new("refused_names") else {
        return;
    };
    let number = |error: std::io::Error| error.raw_os_error().unwrap();
    let long = "x".repeat(256);
    let error = fs::write(place.path(&long), b"").unwrap_err();
    assert_eq!(number(error), libc::ENAMETOOLONG);
    fs::create_dir_all(place.path("full/inner")).unwrap();
    let error = fs::remove_dir(place.path("full")).unwrap_err();
    assert_eq!(number(error), libc::ENOTEMPTY);
    let error = fs::create_dir(place.path("full")).unwrap_err();
    assert_eq!(number(error), libc::EEXIST);
    let error = fs::remove_file(place.path("full")).unwrap_err();
    assert_eq!(number(error), libc::EISDIR);
    fs::write(place.path("file"), b"").unwrap();
    let error = fs::remove_dir(place.path("file")).unwrap_err();
    assert_eq!(number(error), libc::ENOTDIR);
    let error = fs::metadata(place.path("file/below")).unwrap_err();
    assert_eq!(number(error), libc::ENOTDIR);
}

#[test]
fn a_missing_name_that_the_kernel_remembers_can_be_made() {
    let Some(place) = Mounted::new("missing_name") else {
        return;
    };
    for name in ["file", "folder", "link"] {
        assert!(!place.path(name).exists());
    }
    fs::write(place.path("file"), b"").unwrap();
    fs::create_dir(place.path("folder")).unwrap();
    fs::hard_link(place.path("file"), place.path("link")).unwrap();
    fs::rename(place.path("file"), place.path("folder/file")).unwrap();
    assert_eq!(
        names_of(&place.path("")),
        ["folder", "link"].map(String::from).into()
    );
    assert!(!place.path("file").exists());
    assert!(place.path("folder/file").exists());
}

#[test]
fn a_directory_of_100000_names_is_listed_whole_while_it_shrinks() {
    const NAMES: usize = 100_000;
    let Some(place) = Mounted::new("100000_names") else {
        return;
    };
    // Behind the mount, before it is looked at: only listing is asked for here.
    let folder = place.data("many");
    fs::create_dir(&folder).unwrap();
    for number in 0..NAMES {
        rustix::fs::mknodat(
            CWD,
            folder.join(format!("name {number}")),
            FileType::RegularFile,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
    }
    assert_eq!(names_of(&place.path("many")).len(), NAMES);
    // With attributes: more inodes than there may be descriptors.
    let mut with_attributes = 0;
    for entry in fs::read_dir(place.path("many")).unwrap() {
        assert!(entry.unwrap().metadata().unwrap().is_file());
        with_attributes += 1;
    }
    assert_eq!(with_attributes, NAMES);
    // What is neither added nor removed meanwhile comes exactly once.
    let mut seen = BTreeSet::new();
    for (index, entry) in fs::read_dir(place.path("many")).unwrap().enumerate() {
        let name = entry.unwrap().file_name();
        if index % 100 == 0 {
            fs::remove_file(place.path("many").join(&name)).unwrap();
        }
        assert!(seen.insert(name), "twice");
    }
    assert_eq!(seen.len(), NAMES);
    assert_eq!(names_of(&place.path("many")).len(), NAMES - NAMES / 100);
}

#[test]
fn new_inodes_belong_to_the_caller_with_its_umask() {
    let Some(place) = Mounted::new("ownership") else {
        return;
    };
    fs::set_permissions(place.path(""), fs::Permissions::from_mode(0o777)).unwrap();
    fs::create_dir(place.path("group")).unwrap();
    std::os::unix::fs::chown(place.path("group"), None, Some(4711)).unwrap();
    fs::set_permissions(place.path("group"), fs::Permissions::from_mode(0o2777)).unwrap();
    let script = "umask 027; echo x > file; mkdir folder; ln -s file link; mkfifo fifo; \
                  echo y > group/file; mkdir group/folder; umask 0; echo z > open";
    let status = std::process::Command::new("setpriv")
        .args(["--reuid", "1234", "--regid", "5678", "--clear-groups"])
        .args(["sh", "-c", script])
        .current_dir(place.path(""))
        .status();
    let Ok(status) = status else {
        return crate::fixture::skip("ownership", "needs setpriv");
    };
    assert!(status.success());
    for (name, group, mode) in [
        ("file", 5678, 0o640),
        ("folder", 5678, 0o750),
        ("link", 5678, 0o777),
        ("fifo", 5678, 0o640),
        ("group/file", 4711, 0o640),
        ("group/folder", 4711, 0o2750),
        ("open", 5678, 0o666),
    ] {
        let found = fs::symlink_metadata(place.data(name)).unwrap();
        assert_eq!((found.uid(), found.gid()), (1234, group), "{name}");
        assert_eq!(found.mode() & 0o7777, mode, "{name}");
    }
    // No other user's rights came along.
    let status = std::process::Command::new("setpriv")
        .args(["--reuid", "4321", "--regid", "4321", "--clear-groups"])
        .args(["sh", "-c", "cat file || echo w >> file || rm -f folder/x"])
        .current_dir(place.path(""))
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(!status.success() || !place.data("folder/x").exists());
    assert_eq!(fs::read(place.data("file")).unwrap(), b"x\n");
}
