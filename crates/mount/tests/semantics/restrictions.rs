//! What the mount behind forbids is forbidden here too.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use forebay_mount::MountOptions;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::fixture::Mounted;

/// The options of the mount at a place, as the kernel tells them.
fn options_of(place: &Path) -> Vec<String> {
    let table = fs::read_to_string("/proc/self/mounts").unwrap();
    let path = place.to_str().unwrap().trim_end_matches('/');
    let mut lines = table.lines().map(|line| line.split(' '));
    let mut line = lines
        .find(|line| line.clone().nth(1) == Some(path))
        .unwrap();
    line.nth(3).unwrap().split(',').map(String::from).collect()
}

fn has(options: &[String], wanted: &str) -> bool {
    options.iter().any(|option| option == wanted)
}

/// Mounts a small file system in memory.
fn mount_memory(place: &Path, flags: MountFlags) {
    mount("forebay-test", place, "tmpfs", flags, Some(c"size=1m")).unwrap();
}

fn forbidding() -> MountFlags {
    MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC
}

#[test]
fn nothing_is_forbidden_where_nothing_was() {
    let prepare = |data: &Path| mount_memory(data, MountFlags::empty());
    let Some(mut place) = Mounted::prepared("allowed", &MountOptions::default(), prepare) else {
        return;
    };
    let options = options_of(&place.path(""));
    place.end();
    unmount(place.data(""), UnmountFlags::empty()).unwrap();
    for wanted in ["nosuid", "nodev", "noexec", "ro"] {
        assert!(!has(&options, wanted), "{wanted}: {options:?}");
    }
}

#[test]
fn what_the_mount_behind_forbids_is_forbidden() {
    let prepare = |data: &Path| mount_memory(data, forbidding());
    let Some(mut place) = Mounted::prepared("forbidden", &MountOptions::default(), prepare) else {
        return;
    };
    let options = options_of(&place.path(""));
    fs::write(place.path("program"), "#!/bin/sh\n").unwrap();
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(place.path("program"), mode).unwrap();
    let run = Command::new(place.path("program")).status();
    place.end();
    unmount(place.data(""), UnmountFlags::empty()).unwrap();
    for wanted in ["nosuid", "nodev", "noexec", "rw"] {
        assert!(has(&options, wanted), "{wanted}: {options:?}");
    }
    assert_eq!(run.unwrap_err().kind(), ErrorKind::PermissionDenied);
}

#[test]
fn a_mount_below_takes_privileges_from_all() {
    let prepare = |data: &Path| {
        mount_memory(data, MountFlags::empty());
        fs::create_dir(data.join("below")).unwrap();
        mount_memory(&data.join("below"), forbidding());
    };
    let Some(mut place) = Mounted::prepared("below", &MountOptions::default(), prepare) else {
        return;
    };
    let options = options_of(&place.path(""));
    place.end();
    unmount(place.data("below"), UnmountFlags::empty()).unwrap();
    unmount(place.data(""), UnmountFlags::empty()).unwrap();
    assert!(has(&options, "nosuid") && has(&options, "nodev"));
    assert!(!has(&options, "noexec"), "{options:?}");
}

#[test]
fn what_is_read_only_behind_is_read_only() {
    let prepare = |data: &Path| mount_memory(data, MountFlags::RDONLY);
    let Some(mut place) = Mounted::prepared("read_only", &MountOptions::default(), prepare) else {
        return;
    };
    let options = options_of(&place.path(""));
    let refused = fs::write(place.path("file"), "x").unwrap_err();
    place.end();
    unmount(place.data(""), UnmountFlags::empty()).unwrap();
    assert!(has(&options, "ro"), "{options:?}");
    assert_eq!(refused.kind(), ErrorKind::ReadOnlyFilesystem);
}
