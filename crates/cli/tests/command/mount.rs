//! `forebay mount`: what it refuses, how it ends, and what a kill leaves.

use std::fs::{self, File, OpenOptions};
use std::io::Write;

use rustix::process::Signal;

use crate::place::{Daemon, Place, skips_without_fuse};

/// A place with a directory and a pool for it, or `None` where nothing can be mounted.
fn place(test: &str) -> Option<Place> {
    if skips_without_fuse(test) {
        return None;
    }
    let place = Place::new();
    fs::create_dir(place.path("data")).unwrap();
    place.ask(&["create", "POOL", "--size", "64M"]);
    Some(place)
}

fn mount(place: &Place, more: &[&str]) -> Daemon {
    let arguments = ["mount", "./data", "MOUNT", "--pool", "POOL"];
    place.start(place.command(&[&arguments, more].concat()))
}

#[test]
fn ctrl_c_brings_the_directory_up_to_date() {
    let Some(place) = place("ctrl_c_brings_the_directory_up_to_date") else {
        return;
    };
    let daemon = mount(&place, &[]);
    assert_eq!(daemon.announced.len(), 1);
    let mut file = File::create(place.path("mount/file")).unwrap();
    file.write_all(b"synced").unwrap();
    file.sync_all().unwrap();
    drop(file);
    daemon.signal(Signal::INT);
    assert_eq!(daemon.wait(), Some(0));
    assert_eq!(fs::read(place.path("data/file")).unwrap(), b"synced");
    assert!(!place.path("mount/file").exists(), "nothing is mounted");
    place.run(&["info", "POOL"]);
}

#[test]
fn umount_ends_the_daemon() {
    let Some(place) = place("umount_ends_the_daemon") else {
        return;
    };
    let daemon = mount(&place, &[]);
    fs::write(place.path("mount/file"), b"written").unwrap();
    let flags = rustix::mount::UnmountFlags::empty();
    while rustix::mount::unmount(place.path("mount"), flags).is_err() {
        std::thread::yield_now();
    }
    assert_eq!(daemon.wait(), Some(0));
    assert_eq!(fs::read(place.path("data/file")).unwrap(), b"written");
}

#[test]
fn a_mount_in_use_is_given_up_at_the_deadline_with_exit_code_6() {
    let Some(place) = place("a_mount_in_use_is_given_up_at_the_deadline_with_exit_code_6") else {
        return;
    };
    let daemon = mount(&place, &["--shutdown-deadline", "0"]);
    let mut file = File::create(place.path("mount/file")).unwrap();
    file.write_all(b"acknowledged").unwrap();
    file.sync_data().unwrap();
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait(), Some(6));
    assert!(file.write_all(b"nobody").and(file.sync_data()).is_err());
    assert!(!place.path("mount/file").exists(), "the mount is gone");
    assert_eq!(fs::read(place.path("data/file")).unwrap(), b"acknowledged");
}

#[test]
fn a_killed_daemon_loses_nothing_and_the_next_one_mounts_over_what_it_left() {
    let Some(place) = place("a_killed_daemon_loses_nothing") else {
        return;
    };
    for round in 0..3 {
        let daemon = mount(&place, &[]);
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        let mut file = options.open(place.path("mount/log")).unwrap();
        writeln!(file, "round {round}").unwrap();
        file.sync_data().unwrap();
        fs::rename(place.path("mount/log"), place.path("mount/other")).unwrap();
        fs::rename(place.path("mount/other"), place.path("mount/log")).unwrap();
        daemon.signal(Signal::KILL);
        assert_eq!(daemon.wait(), None);
    }
    let daemon = mount(&place, &[]);
    let expected = "round 0\nround 1\nround 2\n";
    assert_eq!(
        fs::read_to_string(place.path("mount/log")).unwrap(),
        expected
    );
    daemon.end();
    assert_eq!(
        fs::read_to_string(place.path("data/log")).unwrap(),
        expected
    );
}

#[test]
fn what_cannot_be_mounted_is_refused_and_named() {
    let Some(place) = place("what_cannot_be_mounted_is_refused_and_named") else {
        return;
    };
    for folder in ["data/inner", "second", "other", "full"] {
        fs::create_dir(place.path(folder)).unwrap();
    }
    fs::write(place.path("full/letter"), b"hidden").unwrap();
    place.ask(&["create", "./data/pool", "--size", "64M"]);
    place.ask(&["create", "./second pool", "--size", "64M"]);
    let daemon = mount(&place, &[]);
    for (data, directory, pool, code, part) in [
        ("./data", "./second", "./second pool", 4, "served already"),
        ("./other", "./second", "POOL", 4, "has it open"),
        ("./data", "./data/inner", "POOL", 2, "within itself"),
        ("./data", "./data", "POOL", 2, "within itself"),
        ("./data", "./second", "./data/pool", 2, "put it elsewhere"),
        (
            "./other",
            "MOUNT",
            "./second pool",
            2,
            "already has forebay",
        ),
        ("./nowhere", "./second", "POOL", 2, "nowhere"),
        ("./other", "./nowhere", "POOL", 1, "mkdir"),
        ("./other", "./full", "./second pool", 2, "empty directory"),
    ] {
        let refused = place.run(&["mount", data, directory, "--pool", pool]);
        assert_eq!(refused.code, code, "{}", refused.stderr);
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
    daemon.end();
    let foreign = place.run(&["mount", "./other", "./second", "--pool", "POOL"]);
    assert_eq!(foreign.code, 3, "{}", foreign.stderr);
    assert!(foreign.stderr.contains("data"), "{}", foreign.stderr);
}
