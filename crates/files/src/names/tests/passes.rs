//! What of attributes is restored before files have their data, and what behind it; what fails, and what this user may not do.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::Path;

use super::World;
use super::attributes::{ROOT, change, creation, restore, set};
use crate::names::attributes::AttributeChange;
use crate::names::space::NameSpace;
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
    // What introduces them to the log syncs what is there.
    for mode in [0o500, 0o755, 0o555] {
        for uid in all {
            change(&names, uid, &AttributeChange::Mode(mode));
        }
        if mode == 0o755 {
            world.space.sync_all().unwrap();
        }
    }
    world.cut(false);
    let (names, mut found) = world.names_recovered();
    // What others may not is taken before there is data, what the owner may not when there is.
    assert_eq!(all.map(|uid| world.mode(uid)), [0o755, 0o755, 0o755]);
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
    assert_eq!(names.restore(&mut found, &Default::default()), barred);
    let values = files.map(|file| world.value(file, "user.name").is_some());
    assert_eq!(values, [true, false, true]);
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
    }
    world.cut(false);
    let (names, mut found) = world.names_recovered();
    world.space.disk.lock().unwrap().failing = Some(files[0]);
    let failed = names.restore(&mut found, &Default::default());
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(failed[0].starts_with("a: its mode"), "{failed:?}");
    assert_eq!(files.map(|file| world.mode(file)), [0o644, 0o755]);
}

/// Two files that the pool has data of, whose modes were changed before a cut, and their ids.
fn two_with_data() -> (World, [u64; 2], [crate::metadata::FileId; 2]) {
    let world = World::new();
    let names = world.recover().unwrap();
    let files = ["a", "b"].map(|name| world.file(name));
    let ids = files.map(|file| {
        let id = names.acquire(&file, &|| Ok(())).unwrap();
        change(&names, file, &AttributeChange::Mode(0o755));
        id
    });
    world.cut(false);
    (world, files, ids)
}

#[test]
fn what_is_kept_without_its_data_gets_no_rights_and_the_rest_does() {
    let (world, files, ids) = two_with_data();
    let (names, mut found) = world.names_recovered();
    let without = WithoutData {
        kept: HashSet::from([ids[0]]),
        saved: HashSet::new(),
    };
    assert_eq!(names.restore(&mut found, &without), [""; 0]);
    assert_eq!(files.map(|file| world.mode(file)), [0o644, 0o755]);
    assert_eq!(found.complaints, [""; 0]);
}

#[test]
fn what_lost_its_data_to_a_file_beside_the_pool_gets_no_rights_and_that_is_told() {
    let (world, files, ids) = two_with_data();
    let (names, mut found) = world.names_recovered();
    let without = WithoutData {
        kept: HashSet::new(),
        saved: HashSet::from([ids[0]]),
    };
    assert_eq!(names.restore(&mut found, &without), [""; 0]);
    assert_eq!(files.map(|file| world.mode(file)), [0o644, 0o755]);
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

/// A program whose set-id bits were taken, recorded, before a cut that brought them back.
fn program_with_bits_again() -> (World, u64) {
    let world = World::new();
    let names = world.recover().unwrap();
    let program = world.made_by_others(ROOT, "program", libc::S_IFREG | 0o4755);
    // What introduces it to the log syncs it.
    change(&names, program, &set("user.name", b"value"));
    change(&names, program, &AttributeChange::Mode(0o755));
    world.cut(false);
    assert_eq!(world.mode(program), 0o4755);
    (world, program)
}

#[test]
fn what_a_try_that_was_killed_took_in_memory_is_taken_durably_by_the_next() {
    let (world, program) = program_with_bits_again();
    // All that the killed one did.
    world
        .space
        .change(&program, &AttributeChange::Mode(0o755))
        .unwrap();
    let (_, found) = world.names_recovered();
    assert!(found.barred.is_empty());
    // A power cut behind the program's data.
    world.cut(false);
    assert_eq!(world.mode(program), 0o755);
}

#[test]
fn what_cannot_be_made_durable_before_the_data_gets_none() {
    let (world, _) = program_with_bits_again();
    world.space.disk.lock().unwrap().failing_syncs = 1;
    let (_, found) = world.names_recovered();
    let barred: Vec<&String> = found.barred.values().collect();
    assert!(
        barred.len() == 1 && barred[0].starts_with("program: others cannot be kept from it"),
        "{barred:?}"
    );
}

#[test]
fn rights_are_taken_before_the_data_and_given_behind_it() {
    let world = World::new();
    let directory = world.made_by_others(ROOT, "directory", libc::S_IFDIR | 0o755);
    let (closed, open) = (world.file("closed"), world.file("open"));
    let given = world.file("given");
    let names = world.recover().unwrap();
    change(&names, directory, &AttributeChange::Mode(0o700));
    change(&names, closed, &AttributeChange::Mode(0o600));
    change(&names, open, &AttributeChange::Mode(0o666));
    let owner = AttributeChange::Owner {
        user: Some(8),
        group: None,
    };
    change(&names, given, &owner);
    world.cut(false);
    let (names, mut found) = world.names_recovered();
    let all = [directory, closed, open, given];
    let modes = || all.map(|uid| world.mode(uid));
    assert_eq!(modes(), [0o700, 0o600, 0o644, 0o600]);
    let owner = || world.space.seen(&given).unwrap().user;
    assert_eq!(owner(), 0, "neither of both");
    restore(&names, &mut found);
    assert_eq!(modes(), [0o700, 0o600, 0o666, 0o644]);
    assert_eq!(owner(), 8);
}

#[test]
fn a_program_that_is_made_anew_gets_set_id_bits_when_it_has_its_data() {
    let world = World::new();
    let names = world.recover().unwrap();
    let made = OsStr::new("made");
    let creation = creation(libc::S_IFREG | 0o6711);
    let make = || world.space.make(&ROOT, made, &creation);
    names.create(&ROOT, made, make).unwrap();
    world.cut(false);
    let (names, mut found) = world.names_recovered();
    let anew = world.tree().find(Path::new("made")).unwrap();
    assert_eq!(world.mode(anew), 0o711);
    restore(&names, &mut found);
    assert_eq!(world.mode(anew), 0o6711);
    // Another cut before the log begins anew, and all of it again.
    world.cut(true);
    let (names, mut found) = world.names_recovered();
    assert_eq!(world.mode(anew), 0o711);
    restore(&names, &mut found);
    assert_eq!(world.mode(anew), 0o6711);
    assert_eq!(found.complaints, [""; 0]);
}

#[test]
fn what_cannot_be_looked_for_is_told_and_the_rest_is_done() {
    let world = World::new();
    let names = world.recover().unwrap();
    let (file, other) = (world.file("file"), world.file("other"));
    let link = || {
        world
            .space
            .link((&ROOT, OsStr::new("file")), &ROOT, OsStr::new("z"))
    };
    link().unwrap();
    world.space.sync_all().unwrap();
    for uid in [file, other] {
        change(&names, uid, &AttributeChange::Mode(0o600));
    }
    names.remove(&ROOT, OsStr::new("file"), false).unwrap();
    world.space.sync_all().unwrap();
    let wide = AttributeChange::Mode(0o666);
    drop(names);
    world.space.change(&other, &wide).unwrap();
    world.cut(false);
    world.space.disk.lock().unwrap().fails_to_seek = true;
    let (names, mut found) = world.names_recovered();
    restore(&names, &mut found);
    assert_eq!(found.attributes_left, 1);
    assert!(
        found.complaints[0].contains("could not be restored"),
        "{:?}",
        found.complaints
    );
    assert_eq!(world.mode(other), 0o600);
}
