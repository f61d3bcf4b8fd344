//! What of attributes is restored before files have their data, and what behind it; what fails, and what this user may not do.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::Path;

use super::attributes::{ROOT, at, change, remove, restore, set};
use super::disk::USER;
use super::{AREA_BYTES, World};
use crate::names::attributes::{ACCESS_LIST, AttributeChange};
use crate::names::space::{Creation, NameSpace};
use crate::naming::WithoutData;

#[test]
fn directories_come_last_and_the_deepest_first() {
    let world = World::new();
    let names = world.recover().unwrap();
    let outer = world.made_by_others(ROOT, "outer", libc::S_IFDIR | 0o755);
    let inner = world.made_by_others(outer, "inner", libc::S_IFDIR | 0o755);
    let file = world.made_by_others(inner, "file", libc::S_IFREG | 0o644);
    world.space.sync_all().unwrap();
    let all = [outer, inner, file];
    // The file first: what is on the way to it is synced then.
    for uid in [file, inner, outer] {
        change(&names, uid, &AttributeChange::Mode(0o555));
    }
    world.cut(false);
    let (names, mut found) = world.names_recovered();
    // What others may not is taken before there is data, what the owner may not when there is.
    assert_eq!(all.map(|uid| world.mode(uid)), [0o755, 0o755, 0o644]);
    world.space.disk.lock().unwrap().done.clear();
    restore(&names, &mut found);
    let expected = [file, inner, outer].map(|uid| format!("Mode({uid}, {})", 0o555));
    assert_eq!(world.space.disk.lock().unwrap().done, expected);
    assert_eq!(found.complaints, [""; 0]);
}

#[test]
fn one_inode_that_fails_holds_up_no_other_and_its_data_waits() {
    let world = World::new();
    let names = world.recover().unwrap();
    let files = ["a", "b", "c"].map(|name| world.file(name));
    for file in files {
        let id = names.acquire(&file, &|| Ok(())).unwrap();
        world.space.disk.lock().unwrap().failing = None;
        assert!(id.0 > 0);
        change(&names, file, &AttributeChange::Mode(0o600));
        change(&names, file, &set("user.name", b"value"));
        change(&names, file, &AttributeChange::Times(&at(1000)));
    }
    world.cut(false);
    world.space.disk.lock().unwrap().failing = Some(files[1]);
    let (names, mut found) = world.names_recovered();
    let barred: Vec<String> = found.barred.values().cloned().collect();
    assert_eq!(barred.len(), 1);
    assert!(
        barred[0].starts_with("b: others cannot be kept from it"),
        "{barred:?}"
    );
    assert_eq!(files.map(|file| world.mode(file)), [0o600, 0o644, 0o600]);
    restore(&names, &mut found);
    let times = files.map(|file| world.space.seen(&file).unwrap().modified.seconds);
    assert_eq!(times, [1000, 0, 1000]);
    // Another time it succeeds.
    world.space.disk.lock().unwrap().failing = None;
    world.cut(true);
    world.recover().unwrap();
    assert_eq!(files.map(|file| world.mode(file)), [0o600; 3]);
}

#[test]
fn what_failed_behind_the_data_is_told_and_all_else_is_done() {
    let world = World::new();
    let files = ["a", "b"].map(|name| world.file(name));
    let names = world.recover().unwrap();
    for file in files {
        change(&names, file, &AttributeChange::Mode(0o755));
        change(&names, file, &AttributeChange::Times(&at(1000)));
    }
    world.cut(false);
    let (names, mut found) = world.names_recovered();
    world.space.disk.lock().unwrap().failing = Some(files[0]);
    let failed = names.restore(&mut found, &Default::default());
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(failed[0].starts_with("a: its mode or times"), "{failed:?}");
    assert_eq!(files.map(|file| world.mode(file)), [0o644, 0o755]);
}

#[test]
fn what_is_kept_without_its_data_gets_no_rights_and_the_rest_does() {
    let world = World::new();
    let names = world.recover().unwrap();
    let files = ["a", "b"].map(|name| world.file(name));
    let mut ids = Vec::new();
    for file in files {
        ids.push(names.acquire(&file, &|| Ok(())).unwrap());
        change(&names, file, &AttributeChange::Mode(0o4755));
    }
    world.cut(false);
    let (names, mut found) = world.names_recovered();
    let without = WithoutData {
        kept: HashSet::from([ids[0]]),
        saved: HashSet::new(),
    };
    assert_eq!(names.restore(&mut found, &without), [""; 0]);
    assert_eq!(files.map(|file| world.mode(file)), [0o644, 0o4755]);
    assert_eq!(found.complaints, [""; 0]);
}

#[test]
fn what_lost_its_data_to_a_file_beside_the_pool_gets_no_rights_and_that_is_told() {
    let world = World::new();
    let names = world.recover().unwrap();
    let files = ["a", "b"].map(|name| world.file(name));
    let mut ids = Vec::new();
    for file in files {
        ids.push(names.acquire(&file, &|| Ok(())).unwrap());
        change(&names, file, &AttributeChange::Mode(0o4755));
    }
    world.cut(false);
    let (names, mut found) = world.names_recovered();
    let without = WithoutData {
        kept: HashSet::new(),
        saved: HashSet::from([ids[0]]),
    };
    assert_eq!(names.restore(&mut found, &without), [""; 0]);
    assert_eq!(files.map(|file| world.mode(file)), [0o644, 0o4755]);
    assert_eq!(found.attributes_left, 1);
    let complaint = &found.complaints[0];
    assert!(
        complaint.starts_with("a: ") && complaint.contains("saved beside the pool"),
        "{complaint}"
    );
}

#[test]
fn a_directory_keeps_others_out_durably_before_there_is_data_in_it() {
    let world = World::new();
    let names = world.recover().unwrap();
    let directory = world.made_by_others(ROOT, "directory", libc::S_IFDIR | 0o777);
    world.space.sync_all().unwrap();
    change(&names, directory, &AttributeChange::Mode(0o700));
    world.cut(false);
    drop(world.names_recovered());
    // A power cut behind the data of the first file in it.
    world.cut(false);
    assert_eq!(world.mode(directory), 0o700);
}

#[test]
fn rights_are_taken_before_the_data_and_given_behind_it() {
    let world = World::new();
    let directory = world.made_by_others(ROOT, "directory", libc::S_IFDIR | 0o755);
    let (closed, open) = (world.file("closed"), world.file("open"));
    let (listed, given) = (world.file("listed"), world.file("given"));
    world
        .space
        .change(&listed, &set(ACCESS_LIST, b"many"))
        .unwrap();
    world.space.sync_all().unwrap();
    let names = world.recover().unwrap();
    change(&names, directory, &AttributeChange::Mode(0o700));
    change(&names, closed, &AttributeChange::Mode(0o600));
    change(&names, open, &AttributeChange::Mode(0o666));
    change(&names, listed, &remove(ACCESS_LIST));
    let owner = AttributeChange::Owner {
        user: Some(8),
        group: None,
    };
    change(&names, given, &owner);
    world.cut(false);
    let (names, mut found) = world.names_recovered();
    let all = [directory, closed, open, listed, given];
    let modes = || all.map(|uid| world.mode(uid));
    assert_eq!(modes(), [0o700, 0o600, 0o644, 0o604, 0o600]);
    let owner = || world.space.seen(&given).unwrap().user;
    assert_eq!(owner(), 0, "neither of both");
    restore(&names, &mut found);
    assert_eq!(modes(), [0o700, 0o600, 0o666, 0o644, 0o644]);
    assert_eq!(owner(), 8);
    assert_eq!(world.value(listed, ACCESS_LIST), None);
}

#[test]
fn a_user_s_own_directory_that_it_may_not_write_after_the_cut_keeps_nothing_from_it() {
    for told in [true, false] {
        let world = World::new();
        let directory = world.made_by_others(ROOT, "directory", libc::S_IFDIR | 0o500);
        let root = AttributeChange::Owner {
            user: Some(USER),
            group: Some(0),
        };
        world.space.change(&ROOT, &root).unwrap();
        world.space.sync_all().unwrap();
        let names = world.recover().unwrap();
        world.space.disk.lock().unwrap().is_unprivileged = true;
        let writable = AttributeChange::Mode(0o700);
        match told {
            true => change(&names, directory, &writable),
            false => world.space.change(&directory, &writable).unwrap(),
        }
        let made = OsStr::new("made");
        let creation = Creation {
            mode: libc::S_IFREG | 0o600,
            user: USER,
            group: 7,
            device: 0,
            target: Default::default(),
        };
        let make = || world.space.make(&directory, made, &creation, false);
        names.create(&directory, made, make).unwrap();
        world.cut(false);
        for after in [3, 6, 9] {
            world.space.power.last(Some(after));
            drop(world.recover());
            world.space.power.last(None);
        }
        world.recover().unwrap();
        assert!(world.tree().find(Path::new("directory/made")).is_some());
        let mode = if told { 0o700 } else { 0o500 };
        assert_eq!(world.mode(directory), mode);
    }
}

#[test]
fn a_kill_in_the_midst_of_what_a_right_was_given_for_leaves_no_right_behind() {
    for after in 1..12 {
        let world = World::new();
        let names = world.recover().unwrap();
        let file = world.file("file");
        let set_id = AttributeChange::Mode(0o4444);
        world.space.change(&file, &set_id).unwrap();
        world.space.sync_all().unwrap();
        world.space.disk.lock().unwrap().is_unprivileged = true;
        // It was writable when it was set.
        world.space.disk.lock().unwrap().is_unprivileged = false;
        change(&names, file, &set("user.name", b"value"));
        world.space.disk.lock().unwrap().is_unprivileged = true;
        world.cut(false);
        // A kill: the kernel keeps all that was done.
        world.space.power.last(Some(after));
        drop(world.recover());
        world.space.power.last(None);
        world.recover().unwrap();
        assert_eq!(world.mode(file), 0o4444, "killed after {after}");
        assert_eq!(world.value(file, "user.name"), Some(b"value".to_vec()));
    }
}

#[test]
fn what_a_log_without_attributes_has_lost_inherits_access_lists_as_it_did() {
    for version in [2, 4] {
        let world = World::new();
        let names = world.recover().unwrap();
        let made = OsStr::new("made");
        let creation = Creation {
            mode: libc::S_IFREG | 0o600,
            user: 7,
            group: 7,
            device: 0,
            target: Default::default(),
        };
        let make = || world.space.make(&ROOT, made, &creation, false);
        names.create(&ROOT, made, make).unwrap();
        drop(names);
        world.cut(false);
        for half in world.area.bytes.lock().unwrap().chunks_mut(AREA_BYTES / 2) {
            if half[..7] == *b"FBNAMES" {
                half[7] = version;
                let crc = forebay_pmem::crc32c(&half[..60]);
                half[60..64].copy_from_slice(&crc.to_le_bytes());
            }
        }
        world.recover().unwrap();
        let inherited = world.space.disk.lock().unwrap().inherited.clone();
        assert_eq!(inherited, [version == 2]);
    }
}
