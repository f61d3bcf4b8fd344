//! What one user of the mount does to the others, and what users must not see.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;

use forebay_mount::MountOptions;
use rustix::fs::XattrFlags;

use crate::fixture::Mounted;

const ONE: u32 = 54_321;
const OTHER: u32 = 54_322;

/// Does it on a thread with this user's file rights.
fn as_user<T: Send>(user: u32, act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let acting = scope.spawn(move || {
            nix::unistd::setfsgid(user.into());
            nix::unistd::setfsuid(user.into());
            act()
        });
        acting.join().unwrap()
    })
}

/// Everybody may come by.
fn open_to_all(mounted: &Mounted) {
    let folder = mounted.path("");
    let scratch = folder.parent().unwrap();
    fs::set_permissions(scratch, Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
}

#[test]
fn one_users_open_files_took_all_descriptors_from_everybody() {
    let options = MountOptions {
        open_files_per_user: Some(3),
        ..MountOptions::default()
    };
    let name = "one_users_open_files_took_all_descriptors_from_everybody";
    let Some(mounted) = Mounted::with(name, &options) else {
        return;
    };
    open_to_all(&mounted);
    fs::write(mounted.path("file"), b"everybody's").unwrap();
    let path = mounted.path("file");
    let open = || File::open(&path);
    let held: Vec<File> = as_user(ONE, || (0..3).map(|_| open().unwrap()).collect());
    let refused: Vec<io::Error> = as_user(ONE, || {
        let made = File::create_new(mounted.path("made")).unwrap_err();
        let listed = fs::read_dir(mounted.path("")).unwrap_err();
        vec![open().unwrap_err(), made, listed]
    });
    for error in refused {
        assert_eq!(error.raw_os_error(), Some(libc::EMFILE), "{error}");
    }
    assert!(!mounted.data("made").exists());
    as_user(OTHER, || open().unwrap());
    let roots: Vec<File> = (0..5).map(|_| open().unwrap()).collect();
    drop((held, roots));
    // The kernel tells of a close a moment later.
    let mut tries = 0;
    while as_user(ONE, open).is_err() {
        tries += 1;
        assert!(tries < 500, "what was closed still counts");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn trusted_attributes_were_shown_to_ordinary_users() {
    let name = "trusted_attributes_were_shown_to_ordinary_users";
    let Some(mounted) = Mounted::new(name) else {
        return;
    };
    open_to_all(&mounted);
    let path = mounted.path("file");
    let made = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path);
    made.unwrap()
        .set_permissions(Permissions::from_mode(0o666))
        .unwrap();
    let set = |name: &str| rustix::fs::setxattr(&path, name, b"value", XattrFlags::empty());
    if set("trusted.secret").is_err() || set("user.own").is_err() {
        crate::fixture::skip(name, "the file system has no such attributes");
        return;
    }
    let list = || {
        let mut names = vec![0; 1000];
        let length = rustix::fs::listxattr(&path, &mut names).unwrap();
        assert_eq!(rustix::fs::listxattr_query(&path).unwrap(), length);
        String::from_utf8_lossy(&names[..length]).into_owned()
    };
    assert!(list().contains("trusted.secret"));
    let shown = as_user(ONE, list);
    assert!(
        shown.contains("user.own") && !shown.contains("trusted"),
        "{shown}"
    );
    as_user(ONE, || {
        let mut value = [0; 10];
        rustix::fs::getxattr(&path, "trusted.secret", &mut value).unwrap_err();
        set("trusted.secret").unwrap_err();
        rustix::fs::removexattr(&path, "trusted.secret").unwrap_err();
    });
    assert!(list().contains("trusted.secret"));
}
