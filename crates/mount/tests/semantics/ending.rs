//! What is refused, and how a mount ends.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};

use forebay_mount::MountOptions;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::fixture::Mounted;

#[test]
fn a_second_mount_of_the_directory_is_refused() {
    let Some(mut place) = Mounted::new("second_mount") else {
        return;
    };
    let error = place.mount_with(&MountOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    place.remount();
}

#[test]
fn a_mount_in_use_is_busy_until_it_is_not() {
    let Some(mut place) = Mounted::new("in_use") else {
        return;
    };
    let mut file = File::create(place.path("file")).unwrap();
    let error = place.mount().unmount(false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceBusy);
    file.write_all(b"still served").unwrap();
    drop(file);
    place.end();
    assert_eq!(fs::read(place.data("file")).unwrap(), b"still served");
}

#[test]
fn another_process_may_unmount() {
    let Some(mut place) = Mounted::new("somebody_else") else {
        return;
    };
    fs::write(place.path("file"), b"kept").unwrap();
    rustix::mount::unmount(place.path(""), rustix::mount::UnmountFlags::empty()).unwrap();
    let error = place.mount().unmount(false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    place.join();
    assert!(place.has_ended());
    assert_eq!(fs::read(place.data("file")).unwrap(), b"kept");
}

#[test]
fn files_without_a_name_are_refused_whatever_the_transport() {
    let Some(place) = Mounted::new("files_without_a_name") else {
        return;
    };
    // Twice: the kernel remembers the first answer.
    for _ in 0..2 {
        let flags = OFlags::TMPFILE | OFlags::RDWR;
        let refused = rustix::fs::open(place.path(""), flags, Mode::RUSR | Mode::WUSR);
        assert_eq!(refused.unwrap_err(), Errno::OPNOTSUPP);
    }
    assert_eq!(fs::read_dir(place.data("")).unwrap().count(), 0);
}
