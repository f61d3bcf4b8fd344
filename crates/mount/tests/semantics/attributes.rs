//! Attributes: rights, owners, times, extended attributes, locks, statistics.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{CWD, FlockOperation, XattrFlags};

use crate::fixture::{Mounted, skip};

fn mode_of(path: &std::path::Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn rights_and_owners_change_and_bind() {
    let Some(place) = Mounted::new("rights") else {
        return;
    };
    let path = place.path("file");
    fs::write(&path, b"secret").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4711)).unwrap();
    assert_eq!(
        (mode_of(&path), mode_of(&place.data("file"))),
        (0o4711, 0o4711)
    );
    std::os::unix::fs::chown(&path, Some(10), Some(20)).unwrap();
    let found = fs::metadata(place.data("file")).unwrap();
    assert_eq!((found.uid(), found.gid()), (10, 20));
    assert_eq!(mode_of(&path), 0o711, "a new owner gets no set-user-id bit");
    fs::set_permissions(place.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(
        place.data("").parent().unwrap(),
        fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    let read = Command::new("setpriv")
        .args([
            "--reuid",
            "1234",
            "--regid",
            "1234",
            "--clear-groups",
            "cat",
        ])
        .arg(&path)
        .output();
    match read {
        Ok(read) => assert!(!read.status.success() && read.stdout.is_empty()),
        Err(_) => skip("rights", "needs setpriv"),
    }
}

#[test]
fn writes_by_others_than_root_clear_the_set_user_id_bit() {
    let Some(place) = Mounted::new("set_user_id") else {
        return;
    };
    fs::set_permissions(
        place.data("").parent().unwrap(),
        fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    let path = place.path("file");
    for (script, user, left) in [
        ("echo more >> file", "1234", 0o777),
        ("truncate -s 1 file", "1234", 0o777),
        ("fallocate -l 100000 file", "1234", 0o777),
        (": > file", "1234", 0o777),
        ("echo more >> file", "0", 0o6777),
    ] {
        fs::write(&path, b"long enough").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o6777)).unwrap();
        let status = Command::new("setpriv")
            .args(["--reuid", user, "--clear-groups", "sh", "-c", script])
            .current_dir(place.path(""))
            .status();
        let Ok(status) = status else {
            return skip("set_user_id", "needs setpriv");
        };
        assert!(status.success(), "{script}");
        assert_eq!(mode_of(&path), left, "{script} by {user}");
        assert_eq!(mode_of(&place.data("file")), left, "{script} by {user}");
    }
}

#[test]
fn times_move_with_writes_and_are_set_to_the_nanosecond() {
    let Some(mut place) = Mounted::new("times") else {
        return;
    };
    let path = place.path("file");
    let mut file = File::create(&path).unwrap();
    let modified = || fs::metadata(&path).unwrap().modified().unwrap();
    let set = UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    file.set_times(fs::FileTimes::new().set_modified(set).set_accessed(set))
        .unwrap();
    assert_eq!(modified(), set);
    assert_eq!(fs::metadata(&path).unwrap().accessed().unwrap(), set);
    file.write_all(b"now").unwrap();
    let written = modified();
    assert!(written > set);
    file.sync_all().unwrap();
    assert_eq!(modified(), written, "a sync is no change");
    file.set_modified(set).unwrap();
    file.sync_all().unwrap();
    drop(file);
    assert_eq!(modified(), set);
    rustix::fs::symlinkat("file", CWD, place.path("link")).unwrap();
    let times = rustix::fs::Timestamps {
        last_access: rustix::fs::Timespec {
            tv_sec: 7,
            tv_nsec: 8,
        },
        last_modification: rustix::fs::Timespec {
            tv_sec: 9,
            tv_nsec: 10,
        },
    };
    let itself = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::utimensat(CWD, place.path("link"), &times, itself).unwrap();
    let link = fs::symlink_metadata(place.path("link")).unwrap();
    assert_eq!((link.mtime(), link.mtime_nsec()), (9, 10));
    let path = place.data("file");
    place.end();
    let found = fs::metadata(path).unwrap().modified().unwrap();
    assert_eq!(found, set, "bringing the directory up to date is no change");
}

#[test]
fn extended_attributes_and_access_lists_pass_through() {
    let Some(place) = Mounted::new("xattrs") else {
        return;
    };
    let path = place.path("file");
    fs::write(&path, b"").unwrap();
    let set = |name: &str, flags| rustix::fs::setxattr(&path, name, b"value", flags);
    match set("user.one", XattrFlags::CREATE) {
        Err(rustix::io::Errno::OPNOTSUPP) => return skip("xattrs", "none behind the mount"),
        result => result.unwrap(),
    }
    set("user.two", XattrFlags::empty()).unwrap();
    assert_eq!(
        set("user.one", XattrFlags::CREATE),
        Err(rustix::io::Errno::EXIST)
    );
    let mut value = [0; 16];
    assert_eq!(
        rustix::fs::getxattr(place.data("file"), "user.one", &mut value),
        Ok(5)
    );
    assert_eq!(rustix::fs::getxattr(&path, "user.one", &mut value), Ok(5));
    assert_eq!(
        rustix::fs::getxattr(&path, "user.one", &mut [0; 2]),
        Err(rustix::io::Errno::RANGE)
    );
    rustix::fs::removexattr(&path, "user.one").unwrap();
    assert_eq!(
        rustix::fs::getxattr(&path, "user.one", &mut value),
        Err(rustix::io::Errno::NODATA)
    );
    assert_eq!(
        rustix::fs::getxattr_query(&path, "user.one"),
        Err(rustix::io::Errno::NODATA)
    );
    let mut names = [0; 64];
    let length = rustix::fs::listxattr(&path, &mut names).unwrap();
    assert_eq!(&names[..length], b"user.two\0");
    // What copying programs begin with.
    assert_eq!(rustix::fs::getxattr_query(&path, "user.two"), Ok(5));
    assert_eq!(rustix::fs::listxattr_query(&path), Ok(length));
}

#[test]
fn extended_attributes_of_a_symbolic_link_are_its_own() {
    let Some(place) = Mounted::new("link_xattrs") else {
        return;
    };
    fs::write(place.path("file"), b"").unwrap();
    rustix::fs::symlinkat("file", CWD, place.path("link")).unwrap();
    let name = "trusted.one";
    let link = place.path("link");
    match rustix::fs::lsetxattr(&link, name, b"value", XattrFlags::empty()) {
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::PERM) => {
            return skip("link_xattrs", "none for us behind the mount");
        }
        result => result.unwrap(),
    }
    let mut value = [0; 16];
    assert_eq!(rustix::fs::lgetxattr(&link, name, &mut value), Ok(5));
    assert_eq!(
        rustix::fs::lgetxattr(place.data("link"), name, &mut value),
        Ok(5)
    );
    assert_eq!(
        rustix::fs::getxattr(place.data("file"), name, &mut value),
        Err(rustix::io::Errno::NODATA)
    );
    rustix::fs::lremovexattr(&link, name).unwrap();
    assert_eq!(rustix::fs::llistxattr(&link, &mut value), Ok(0));
}

#[test]
fn write_back_leaves_a_capability_that_was_set_after_the_write() {
    let Some(mut place) = Mounted::new("capability_set_late") else {
        return;
    };
    let path = place.path("file");
    let mut file = File::create(&path).unwrap();
    file.write_all(b"a program").unwrap();
    file.sync_all().unwrap();
    file.write_all(b" and more of it").unwrap();
    file.sync_all().unwrap();
    drop(file);
    let name = "security.capability";
    let mut value = [0; 20];
    value[3] = 2;
    match rustix::fs::setxattr(&path, name, &value, XattrFlags::empty()) {
        Err(rustix::io::Errno::OPNOTSUPP) => {
            return skip("capability_set_late", "none behind the mount");
        }
        result => result.unwrap(),
    }
    let data = place.data("file");
    place.end();
    assert_eq!(rustix::fs::getxattr_query(&data, name), Ok(value.len()));
    assert_eq!(fs::read(&data).unwrap(), b"a program and more of it");
}

#[test]
fn writes_take_a_files_capability_at_once() {
    let Some(place) = Mounted::new("capability") else {
        return;
    };
    let path = place.path("file");
    let name = "security.capability";
    // Version 2, and no capability in it.
    let mut value = [0; 20];
    value[3] = 2;
    let is_there = || rustix::fs::getxattr_query(place.data("file"), name) == Ok(value.len());
    let mut file = File::create(&path).unwrap();
    for is_synced in [false, true] {
        match rustix::fs::setxattr(&path, name, &value, XattrFlags::empty()) {
            Err(rustix::io::Errno::OPNOTSUPP) => {
                return skip("capability", "none behind the mount");
            }
            result => result.unwrap(),
        }
        assert!(is_there());
        file.write_all(b"other bytes").unwrap();
        assert!(!is_there(), "synced before: {is_synced}");
        file.sync_all().unwrap();
    }
}

#[test]
fn a_program_that_was_written_to_has_no_set_user_id_bit_when_it_runs() {
    let Some(place) = Mounted::new("set_user_id_run") else {
        return;
    };
    let readable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(place.data("").parent().unwrap(), readable).unwrap();
    let path = place.path("program");
    fs::copy("/usr/bin/id", &path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4777)).unwrap();
    // The kernel believes the mode that it knows, and a run does not ask.
    let ran = Command::new("setpriv")
        .args(["--reuid", "1234", "--regid", "1234", "--clear-groups"])
        .args([
            "sh",
            "-c",
            "./program -u && printf x >> program && ./program -u",
        ])
        .current_dir(place.path(""))
        .output();
    let Ok(ran) = ran else {
        return skip("set_user_id_run", "needs setpriv");
    };
    let told = String::from_utf8_lossy(&ran.stdout);
    if told.starts_with("1234") {
        return skip("set_user_id_run", "no such bits behind the mount");
    }
    assert_eq!(
        told,
        "0\n1234\n",
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
}

#[test]
fn locks_hold_among_the_users_of_the_mount() {
    let Some(place) = Mounted::new("locks") else {
        return;
    };
    let open = || {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        options.open(place.path("file")).unwrap()
    };
    let (one, two) = (open(), open());
    rustix::fs::flock(&one, FlockOperation::LockExclusive).unwrap();
    let try_again = || rustix::fs::flock(&two, FlockOperation::NonBlockingLockShared);
    assert_eq!(try_again(), Err(rustix::io::Errno::WOULDBLOCK));
    drop(one);
    try_again().unwrap();
    // Record locks are of processes: another one asks.
    let held = open();
    rustix::fs::fcntl_lock(&held, FlockOperation::NonBlockingLockExclusive).unwrap();
    let script = "import fcntl; fcntl.lockf(open('file', 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)";
    let ask = || {
        Command::new("python3")
            .args(["-c", script])
            .current_dir(place.path(""))
            .output()
            .map(|run| run.status.success())
    };
    match ask() {
        Err(_) => return skip("locks", "needs python3"),
        Ok(got_it) => assert!(!got_it),
    }
    rustix::fs::fcntl_lock(&held, FlockOperation::Unlock).unwrap();
    assert!(ask().unwrap());
}

#[test]
fn statistics_are_those_behind_the_mount() {
    let Some(place) = Mounted::new("statistics") else {
        return;
    };
    let (shown, real) = (
        rustix::fs::statvfs(place.path("")).unwrap(),
        rustix::fs::statvfs(place.data("")).unwrap(),
    );
    assert_eq!(
        (
            shown.f_blocks,
            shown.f_files,
            shown.f_frsize,
            shown.f_namemax
        ),
        (real.f_blocks, real.f_files, real.f_frsize, real.f_namemax)
    );
}

#[test]
fn a_quarter_of_a_second_after_a_moment_before_1970_was_told_as_before_it() {
    let Some(mounted) = Mounted::new("a_quarter_of_a_second") else {
        return;
    };
    let path = mounted.path("old");
    File::create(&path).unwrap();
    let moment = |tv_sec, tv_nsec| rustix::fs::Timespec { tv_sec, tv_nsec };
    let times = rustix::fs::Timestamps {
        last_access: moment(-43_200, 250_000_000),
        last_modification: moment(-1, 1),
    };
    let flags = rustix::fs::AtFlags::empty();
    rustix::fs::utimensat(rustix::fs::CWD, &path, &times, flags).unwrap();
    let stat = rustix::fs::stat(&path).unwrap();
    assert_eq!((stat.st_atime, stat.st_atime_nsec), (-43_200, 250_000_000));
    assert_eq!((stat.st_mtime, stat.st_mtime_nsec), (-1, 1));
}
