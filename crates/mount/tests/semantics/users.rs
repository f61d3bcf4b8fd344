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

/// Every user may pass.
fn open_to_all(mounted: &Mounted) {
    let folder = mounted.path("");
    let scratch = folder.parent().unwrap();
    fs::set_permissions(scratch, Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
}

#[test]
fn one_users_open_files_took_all_descriptors_from_the_others() {
    let options = MountOptions {
        open_files_per_user: Some(3),
        ..MountOptions::default()
    };
    let name = "one_users_open_files_took_all_descriptors_from_the_others";
    let Some(mounted) = Mounted::with(name, &options) else {
        return;
    };
    open_to_all(&mounted);
    fs::write(mounted.path("file"), b"shared").unwrap();
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

/// A small ext4 with half of it for root alone; unmounted when dropped.
struct Reserved(std::path::PathBuf);

impl Reserved {
    fn mount(at: &std::path::Path) -> Option<Reserved> {
        let image = at.with_extension("img");
        File::create(&image).unwrap().set_len(64 << 20).unwrap();
        let done = |program: &str, arguments: &[&str]| {
            let mut command = std::process::Command::new(program);
            let output = command.args(arguments).arg(&image);
            let output = if program == "mount" {
                output.arg(at)
            } else {
                output
            };
            output.output().is_ok_and(|output| output.status.success())
        };
        let is_there = done("mkfs.ext4", &["-q", "-m", "50"]) && done("mount", &["-o", "loop"]);
        is_there.then(|| Reserved(at.to_owned()))
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

#[test]
fn every_user_wrote_with_roots_right_to_reserved_blocks() {
    let name = "every_user_wrote_with_roots_right_to_reserved_blocks";
    let mut disk = None;
    let mounted = Mounted::prepared(name, &MountOptions::default(), |data| {
        disk = Reserved::mount(data);
    });
    let (Some(mounted), Some(_disk)) = (mounted, &disk) else {
        crate::fixture::skip(name, "no ext4 can be made and mounted here");
        return;
    };
    open_to_all(&mounted);
    let free = || {
        let found = rustix::fs::statvfs(mounted.data("")).unwrap();
        (found.f_bfree * 100 / found.f_blocks, found.f_bavail)
    };
    let fill = |name: &str, durable: bool| -> io::Error {
        use std::io::Write;
        use std::os::unix::fs::OpenOptionsExt;
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o600);
        if durable {
            options.custom_flags(libc::O_DSYNC);
        }
        let mut file = options.open(mounted.path(name)).unwrap();
        let bytes = vec![7; 1 << 20];
        let mut done = (0..100).map(|_| file.write_all(&bytes));
        done.find_map(Result::err).expect("64 MiB cannot hold it")
    };
    for (name, durable) in [("durable", true), ("buffered", false)] {
        let error = as_user(ONE, || fill(name, durable));
        assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{error}");
        let (free_percent, available) = free();
        assert!(
            free_percent > 40,
            "{name}: {free_percent} percent left for root"
        );
        as_user(ONE, || fs::remove_file(mounted.path(name))).unwrap();
        assert!(
            available < 1 << 10,
            "{name}: {available} blocks left for users"
        );
        rustix::fs::syncfs(File::open(mounted.data("")).unwrap()).unwrap();
    }
    fill("roots", true);
    let (free_percent, _) = free();
    assert!(free_percent < 10, "root has its reserve: {free_percent}");
}
