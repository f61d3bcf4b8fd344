//! Attributes in the tree that forgets: what single faults would make of them.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Timespec, Timestamps, UTIME_OMIT, XattrFlags};

use super::power::PoweredArea;
use super::tree::{Keep, ModelSpace, USER};
use super::{Crash, World};
use crate::names::Names;
use crate::names::attributes::{ACCESS_LIST, AttributeChange, CAPABILITY};
use crate::names::log::{Log, LogArea};
use crate::names::reconcile::Reconciled;
use crate::names::record::Record;
use crate::names::space::{Creation, NameSpace};

const ROOT: u64 = 1;

fn set<'a>(name: &'a str, value: &'a [u8]) -> AttributeChange<'a> {
    AttributeChange::Set {
        name: OsStr::new(name),
        value,
        flags: XattrFlags::empty(),
    }
}

fn remove(name: &str) -> AttributeChange<'_> {
    AttributeChange::Remove(OsStr::new(name))
}

fn change(names: &Names<ModelSpace>, uid: u64, change: &AttributeChange<'_>) {
    let applied = names.change(&uid, change);
    applied.result.unwrap();
    assert!(applied.is_recorded, "{change:?}");
}

/// All of it, and nothing fails.
fn restore(names: &Names<ModelSpace>, found: &mut Reconciled<ModelSpace>) {
    assert_eq!(names.restore(found, &Default::default()), [""; 0]);
}

impl World {
    /// Something that others made, durably.
    fn made_by_others(&self, directory: u64, name: &str, mode: u32) -> u64 {
        let creation = Creation {
            mode,
            user: 7,
            group: 7,
            device: 0,
            target: Default::default(),
        };
        let name = OsStr::new(name);
        self.space.make(&directory, name, &creation, false).unwrap();
        self.space.hold(&directory, name).unwrap()
    }

    fn file(&self, name: &str) -> u64 {
        let file = self.made_by_others(ROOT, name, libc::S_IFREG | 0o644);
        self.space.sync_all().unwrap();
        file
    }

    /// A power cut that keeps nothing, or all, of what was not synced.
    fn cut(&self, is_kept: bool) {
        self.crash(Crash {
            after: 0,
            keep: Keep::Prefix(match is_kept {
                true => self.space.disk.lock().unwrap().changes() as u16,
                false => 0,
            }),
        });
    }

    fn mode(&self, uid: u64) -> u32 {
        self.space.seen(&uid).unwrap().mode & 0o7777
    }

    fn value(&self, uid: u64, name: &str) -> Option<Vec<u8>> {
        self.tree().value(uid, name)
    }

    /// Up to where data would be written.
    fn names_recovered(&self) -> (Names<ModelSpace>, Reconciled<ModelSpace>) {
        let draw = {
            let next = Arc::clone(&self.next_id);
            Box::new(move || {
                Ok(crate::metadata::FileId(
                    next.fetch_add(1, Ordering::Relaxed),
                ))
            })
        };
        let names = Names::open(self.area.clone(), self.space.clone(), draw).unwrap();
        let mut found = names.recover(&Default::default()).unwrap();
        names.restrict(&mut found);
        (names, found)
    }
}

#[test]
fn a_program_gets_set_id_bits_and_capability_when_it_has_its_data() {
    let world = World::new();
    let names = world.recover().unwrap();
    let old = world.file("old");
    change(&names, old, &AttributeChange::Mode(0o4755));
    change(&names, old, &set(CAPABILITY, b"all"));
    let made = OsStr::new("made");
    let creation = Creation {
        mode: libc::S_IFREG | 0o6711,
        user: 7,
        group: 7,
        device: 0,
        target: Default::default(),
    };
    let make = || world.space.make(&ROOT, made, &creation, false);
    names.create(&ROOT, made, make).unwrap();
    world.cut(false);

    let (names, mut found) = world.names_recovered();
    let anew = world.tree().find(Path::new("made")).unwrap();
    let modes = || (world.mode(old), world.mode(anew));
    assert_eq!(modes(), (0o644, 0o711));
    assert_eq!(world.value(old, CAPABILITY), None);
    restore(&names, &mut found);
    assert_eq!(modes(), (0o4755, 0o6711));
    assert_eq!(world.value(old, CAPABILITY), Some(b"all".to_vec()));
    // Another cut before the log begins anew, and all of it again.
    world.cut(true);
    let (names, mut found) = world.names_recovered();
    assert_eq!(world.mode(old), 0o755);
    restore(&names, &mut found);
    assert_eq!(modes(), (0o4755, 0o6711));
    assert_eq!(found.complaints, [""; 0]);
}

#[test]
fn values_without_room_are_complaints_and_what_is_removed_makes_room() {
    let world = World::new();
    let names = world.recover().unwrap();
    let files = ["a", "b", "c"].map(|name| world.file(name));
    let [one, two, three] = files;
    for file in files {
        world
            .space
            .change(&file, &set("user.old", &[1; 100]))
            .unwrap();
    }
    world.space.sync_all().unwrap();
    change(&names, one, &set("user.new", &[2; 200]));
    change(&names, two, &set("user.old", &[3; 10]));
    change(&names, three, &remove("user.old"));
    change(&names, three, &set("user.new", &[4; 200]));
    world.cut(false);
    // Of 300 bytes that are there 190 go: one more value of 200 bytes fits, and no other.
    world.space.disk.lock().unwrap().room_bytes = Some(310);
    for attempt in 0..2 {
        let (names, mut found) = world.names_recovered();
        restore(&names, &mut found);
        assert_eq!(
            found.attributes_left, 1,
            "{attempt}: {:?}",
            found.complaints
        );
        let [complaint] = &found.complaints[..] else {
            panic!("{:?}", found.complaints);
        };
        assert!(
            complaint.contains("extended attribute user.new") && complaint.contains("no room"),
            "{complaint}"
        );
        let has_new = |file| world.value(file, "user.new").is_some();
        assert!(has_new(one) != has_new(three));
        assert_eq!(world.value(two, "user.old"), Some(vec![3; 10]));
        assert_eq!(world.value(three, "user.old"), None);
    }
}

#[test]
fn a_user_that_may_not_write_its_file_gets_values_back_with_the_mode() {
    let world = World::new();
    let names = world.recover().unwrap();
    let file = world.file("file");
    world.space.disk.lock().unwrap().is_unprivileged = true;
    change(&names, file, &set("user.name", b"value"));
    change(&names, file, &AttributeChange::Mode(0o444));
    for is_kept in [false, true] {
        world.cut(is_kept);
        let (names, mut found) = world.names_recovered();
        let mode = world.mode(file);
        assert_eq!(mode & 0o022, 0, "nobody else may write it meanwhile: {mode:o}");
        restore(&names, &mut found);
        assert_eq!(found.complaints, [""; 0]);
        assert_eq!(world.mode(file), 0o444);
        assert_eq!(world.value(file, "user.name"), Some(b"value".to_vec()));
    }
}

#[test]
fn a_capability_that_went_in_the_backing_does_not_come_back() {
    type Act = fn(&World, &Names<ModelSpace>, u64);
    let acts: [(&str, Act); 3] = [
        ("an owner that stays", |_, names, file| {
            let stays = AttributeChange::Owner {
                user: None,
                group: None,
            };
            change(names, file, &stays);
        }),
        ("a change of the content", |_, names, file| {
            let identity = names.space.seen(&file).unwrap().identity;
            let number = (identity.device, identity.inode);
            assert!(names.is_modified(number, &|| Ok(file)).unwrap());
        }),
        ("a removal that finds none", |world, names, file| {
            // As the kernel does with the first byte that is written.
            world.space.change(&file, &remove(CAPABILITY)).unwrap();
            let applied = names.change(&file, &remove(CAPABILITY));
            let error = applied.result.unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ENODATA));
            assert!(applied.is_recorded);
        }),
    ];
    for (what, act) in acts {
        for is_kept in [false, true] {
            let world = World::new();
            let names = world.recover().unwrap();
            let file = world.file("file");
            change(&names, file, &set(CAPABILITY, b"all"));
            act(&world, &names, file);
            world.cut(is_kept);
            world.recover().unwrap();
            assert_eq!(world.value(file, CAPABILITY), None, "{what}");
        }
    }
}

#[test]
fn a_mode_that_was_so_already_is_what_counts() {
    let world = World::new();
    let names = world.recover().unwrap();
    let file = world.file("file");
    change(&names, file, &AttributeChange::Mode(0o711));
    // Another program's, which a caller then asks for too.
    let others = AttributeChange::Mode(0o600);
    world.space.change(&file, &others).unwrap();
    change(&names, file, &others);
    world.cut(true);
    world.recover().unwrap();
    assert_eq!(world.mode(file), 0o600);
}

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
fn files_that_others_made_cost_one_sync_together_and_a_nameless_one_none() {
    let world = World::new();
    let names = world.recover().unwrap();
    let files: Vec<u64> = (0..50)
        .map(|number| world.made_by_others(ROOT, &format!("file-{number}"), libc::S_IFREG | 0o600))
        .collect();
    let syncs = || world.space.disk.lock().unwrap().syncs;
    let before = syncs();
    for file in &files {
        change(&names, *file, &AttributeChange::Mode(0o640));
    }
    // The clock does not tell the last one's making from the sync.
    assert!(syncs() - before <= 2, "{} syncs", syncs() - before);
    let before = syncs();
    let last = OsStr::new("file-49");
    names.remove(&ROOT, last, false).unwrap();
    change(&names, files[49], &AttributeChange::Mode(0o600));
    assert_eq!(syncs(), before);
}

fn long() -> Vec<u8> {
    vec![5; 8 << 10]
}

#[test]
fn a_sync_settles_what_was_not_recorded_and_nothing_else() {
    let world = World::new();
    let names = world.recover().unwrap();
    let (one, other) = (world.file("one"), world.file("other"));
    let number = |uid: u64| {
        let identity = world.space.seen(&uid).unwrap().identity;
        (identity.device, identity.inode)
    };
    for file in [one, other] {
        names.acquire(&file, &|| Ok(())).unwrap();
        change(&names, file, &AttributeChange::Mode(0o711));
        change(&names, file, &AttributeChange::Times(&at(1000)));
    }
    assert!(!names.change(&one, &set("user.name", &long())).is_recorded);
    world
        .space
        .change(&one, &AttributeChange::Mode(0o600))
        .unwrap();
    names.changed_without_record(number(one).0, number(one).1);
    let before = world.space.disk.lock().unwrap().syncs;
    names
        .settle(number(one), &|| {
            world.space.sync_all()?;
            // Recorded while the sync is under way: it need not have this.
            change(&names, one, &set("user.late", b"late"));
            Ok(())
        })
        .unwrap();
    let syncs = || world.space.disk.lock().unwrap().syncs;
    assert_eq!(syncs(), before + 1, "no other one");
    names.settle(number(one), &|| Ok(())).unwrap();
    // What moves the times of files that the pool has is write-back, which puts them back later.
    for file in [one, other] {
        let moved = AttributeChange::Times(&at(2000));
        world.space.change(&file, &moved).unwrap();
    }
    world.cut(true);
    world.recover().unwrap();
    assert_eq!((world.mode(one), world.mode(other)), (0o600, 0o711));
    assert_eq!(world.value(one, "user.name"), Some(long()));
    assert_eq!(world.value(one, "user.late"), Some(b"late".to_vec()));
    for file in [one, other] {
        let found = world.space.seen(&file).unwrap().modified;
        assert_eq!(found.seconds, 1000);
    }
}

/// How the log numbers an inode.
fn number_of(world: &World, uid: u64) -> (u64, u64) {
    let identity = world.space.seen(&uid).unwrap().identity;
    (identity.device, identity.inode)
}

#[test]
fn a_log_that_begins_while_attributes_are_settled_can_be_read() {
    for is_later in [false, true] {
        let world = World::new();
        let names = world.recover().unwrap();
        let file = world.file("file");
        let number = number_of(&world, file);
        change(&names, file, &AttributeChange::Mode(0o711));
        change(&names, file, &set("user.name", b"early"));
        world
            .space
            .change(&file, &AttributeChange::Mode(0o600))
            .unwrap();
        names.changed_without_record(number.0, number.1);
        let settle = || {
            names.settle(number, &|| {
                if is_later {
                    change(&names, file, &set("user.name", b"late"));
                }
                world.space.sync_all()
            })
        };
        // A checkpoint that waits for its sync: what it begins with does not know the file.
        let next = names.lock().prepare_next_log();
        settle().unwrap();
        world.space.sync_all().unwrap();
        let switched = names.lock().switch_log(next, Ok(()), i128::MAX);
        switched.unwrap();
        assert!(names.lock().is_read_as_known());
        world.cut(false);
        drop(names);
        world.recover().unwrap();
        let value: &[u8] = if is_later { b"late" } else { b"early" };
        assert_eq!(world.mode(file), 0o600);
        assert_eq!(world.value(file, "user.name").as_deref(), Some(value));
    }
}

#[test]
fn a_log_that_begins_while_one_of_two_names_is_used_knows_the_other() {
    let world = World::new();
    let names = world.recover().unwrap();
    let file = world.file("one");
    let other = OsStr::new("other");
    let link = || world.space.link((&ROOT, OsStr::new("one")), &ROOT, other);
    names.link(&file, &ROOT, other, link).unwrap();
    let next = names.lock().prepare_next_log();
    change(&names, file, &AttributeChange::Mode(0o711));
    world.space.sync_all().unwrap();
    names.lock().switch_log(next, Ok(()), i128::MAX).unwrap();
    names.remove(&ROOT, other, false).unwrap();
    assert!(names.lock().is_read_as_known());
    world.cut(false);
    drop(names);
    world.recover().unwrap();
    assert_eq!(world.tree().paths(false), [Path::new("one")]);
}

#[test]
fn what_cannot_be_read_never_counts() {
    let world = World::new();
    let names = world.recover().unwrap();
    let file = world.file("file");
    change(&names, file, &AttributeChange::Mode(0o711));
    let mut inner = names.lock();
    let next = inner.prepare_next_log();
    let id = inner.table.find(&world.space.seen(&file).unwrap().identity);
    let id = id.unwrap();
    let record = Record::Settled { id, before: 9 };
    inner.next_log.as_mut().unwrap().records.push(record);
    let refused = inner.switch_log(next, Ok(()), 0).unwrap_err();
    assert!(refused.to_string().contains("nothing introduces"), "{refused}");
    assert!(inner.is_read_as_known(), "the old log counts");
    drop(inner);
    change(&names, file, &AttributeChange::Mode(0o640));
    names.checkpoint().unwrap();
}

#[test]
fn what_others_changed_last_counts_as_far_as_it_takes_rights() {
    type Act = fn(&World, u64);
    // What others do in the next boot, the mode that comes of it, and whether the value is theirs.
    let acts: [(&str, Act, u32, bool); 5] = [
        ("nothing", |_, _| (), 0o4751, false),
        (
            "a time, of what was lost",
            |world, file| {
                let times = AttributeChange::Times(&at(5));
                world.space.change(&file, &times).unwrap();
            },
            0o640,
            true,
        ),
        (
            "more rights",
            |world, file| {
                let mode = AttributeChange::Mode(0o6777);
                world.space.change(&file, &mode).unwrap();
            },
            0o751,
            true,
        ),
        (
            "fewer rights",
            |world, file| {
                let mode = AttributeChange::Mode(0o600);
                world.space.change(&file, &mode).unwrap();
            },
            0o600,
            true,
        ),
        (
            "a value",
            |world, file| {
                let value = set("user.name", b"theirs");
                world.space.change(&file, &value).unwrap();
            },
            0o640,
            true,
        ),
    ];
    for (what, act, mode, is_theirs) in acts {
        let world = World::new();
        let names = world.recover().unwrap();
        let file = world.file("file");
        // As it is after the cut, which undoes the rest.
        let stale = AttributeChange::Mode(0o644);
        change(&names, file, &stale);
        names.checkpoint().unwrap();
        change(&names, file, &AttributeChange::Mode(0o4751));
        change(&names, file, &set("user.name", b"ours"));
        world.cut(false);
        act(&world, file);
        let theirs = world.value(file, "user.name");
        for attempt in 0..2 {
            let (names, mut found) = world.names_recovered();
            restore(&names, &mut found);
            assert_eq!(world.mode(file), mode, "{what}, attempt {attempt}");
            let expected = match is_theirs {
                true => theirs.clone(),
                false => Some(b"ours".to_vec()),
            };
            assert_eq!(world.value(file, "user.name"), expected, "{what}");
            assert_eq!(found.attributes_left, u64::from(is_theirs), "{what}");
            // All that recovery did is there, and it is begun again.
            world.cut(true);
        }
    }
}

#[test]
fn our_own_last_changes_are_no_others_where_the_clock_went_back() {
    let world = World::new();
    let names = world.recover().unwrap();
    let file = world.file("file");
    world.space.disk.lock().unwrap().clock = 1000;
    change(&names, file, &AttributeChange::Mode(0o640));
    // What is durable is of this moment, and what follows is of earlier ones.
    world.space.sync_all().unwrap();
    world.space.disk.lock().unwrap().clock = 500;
    change(&names, file, &AttributeChange::Mode(0o711));
    world.cut(false);
    // The machine starts before both.
    world.space.disk.lock().unwrap().booted = 100;
    let (names, mut found) = world.names_recovered();
    restore(&names, &mut found);
    assert_eq!(world.mode(file), 0o711);
    assert_eq!(found.complaints, [""; 0]);
}

#[test]
fn two_changes_in_one_tick_are_not_told_apart_and_the_last_one_counts() {
    let world = World::new();
    let names = world.recover().unwrap();
    let file = world.file("file");
    change(&names, file, &AttributeChange::Mode(0o640));
    world.space.sync_all().unwrap();
    let clock = world.space.disk.lock().unwrap().clock;
    world.space.disk.lock().unwrap().clock = clock - 1;
    change(&names, file, &AttributeChange::Mode(0o711));
    world.cut(false);
    world.recover().unwrap();
    assert_eq!(world.mode(file), 0o711);
}

#[test]
fn others_owner_counts_and_one_that_was_replaced_does_not() {
    for (owner, expected) in [(42, 42), (7, 0)] {
        let world = World::new();
        let names = world.recover().unwrap();
        let file = world.file("file");
        let ours = AttributeChange::Owner {
            user: Some(0),
            group: Some(0),
        };
        change(&names, file, &ours);
        world.cut(false);
        let theirs = AttributeChange::Owner {
            user: Some(owner),
            group: Some(owner),
        };
        world.space.change(&file, &theirs).unwrap();
        world.recover_with_others().unwrap();
        assert_eq!(world.space.seen(&file).unwrap().user, expected);
    }
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
    assert!(barred[0].starts_with("b: others cannot be kept from it"), "{barred:?}");
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
    let kept = std::iter::once(ids[0]).collect();
    assert_eq!(names.restore(&mut found, &kept), [""; 0]);
    assert_eq!(files.map(|file| world.mode(file)), [0o644, 0o4755]);
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
fn recovery_of_a_full_log_needs_no_room_that_is_not_there() {
    let mut world = World::new();
    let names = world.recover().unwrap();
    let root = Path::new("");
    // As many as there is room for.
    let mut made = 0;
    let has_room = || {
        let (used, all) = names.lock().log.fill();
        used + 300 < all
    };
    while has_room() {
        let name = format!("{made:03}");
        let name = OsStr::new(&name);
        let creation = Creation {
            mode: libc::S_IFREG | 0o4711,
            user: 7,
            group: 7,
            device: 0,
            target: Default::default(),
        };
        // Past the room that an operation asks for.
        let mut inner = names.lock();
        world.space.make(&ROOT, name, &creation, false).unwrap();
        let seen = world.space.look(&ROOT, name).unwrap().unwrap();
        let id = inner.new_id().unwrap();
        let place = crate::names::space::Place {
            parent: crate::metadata::FileId::ROOT,
            name: name.to_os_string(),
        };
        let record = Record::Create {
            id,
            identity: seen.identity,
            creation: Creation::of(&seen, Default::default()),
            place,
            is_remade: false,
        };
        inner.commit(vec![record]).unwrap();
        inner.introduced.insert(id);
        made += 1;
    }
    assert!(made > 100 && world.tree().find(root).is_some());
    drop(names);
    world.held.clear();
    // Again and again all is lost, and made anew up to some moment.
    for after in [5, 150, 350, 600, 10_000] {
        world.cut(false);
        world.space.power.last(Some(after));
        let recovered = world.recover().map(drop);
        assert!(
            recovered.is_ok() || world.space.power.is_off(),
            "{recovered:?}"
        );
        world.space.power.last(None);
    }
    world.recover().unwrap();
    let paths = world.tree().paths(false);
    assert_eq!(paths.len(), made);
    for path in paths {
        assert_eq!(world.mode(world.tree().find(&path).unwrap()), 0o4711);
    }
}

#[test]
fn without_room_for_what_others_changed_recovery_is_done_all_the_same() {
    let world = World::new();
    let names = world.recover().unwrap();
    let file = world.file("file");
    change(&names, file, &AttributeChange::Mode(0o4751));
    world.cut(false);
    let theirs = AttributeChange::Mode(0o777);
    world.space.change(&file, &theirs).unwrap();
    // Up to the last byte.
    let names = {
        drop(names);
        let (log, _) = Log::open(world.area.clone()).unwrap();
        fill(log);
        world.names_recovered()
    };
    let (names, mut found) = names;
    restore(&names, &mut found);
    assert_eq!((world.mode(file), found.attributes_left), (0o751, 1));
    world.cut(true);
    world.recover_with_others().unwrap();
    assert_eq!(world.mode(file), 0o751);
}

/// Leaves no room, not even recovery's.
fn fill(mut log: Log) {
    let name = |len| Record::Link {
        id: crate::metadata::FileId::ROOT,
        place: crate::names::space::Place {
            parent: crate::metadata::FileId(0),
            name: "x".repeat(len).into(),
        },
    };
    for len in [200, 1] {
        while log.append_in_recovery(&[name(len)]).unwrap() {}
    }
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
fn no_change_of_attributes_or_names_syncs_everything_while_names_are_locked() {
    let world = World::new();
    let names = Arc::new(world.recover().unwrap());
    let weak = Arc::downgrade(&names);
    let unlocked = move || {
        let names = weak.upgrade().expect("they are there");
        assert!(names.inner.try_lock().is_ok(), "names are locked");
    };
    world.space.disk.lock().unwrap().on_sync = Some(Arc::new(unlocked));
    let before = world.space.disk.lock().unwrap().syncs;
    let directory = world.made_by_others(ROOT, "directory", libc::S_IFDIR | 0o755);
    let file = world.made_by_others(directory, "file", libc::S_IFREG | 0o644);
    change(&names, file, &AttributeChange::Mode(0o600));
    let nameless = world.made_by_others(ROOT, "nameless", libc::S_IFREG | 0o644);
    let name = OsStr::new("name");
    let link = || {
        let from = OsStr::new("nameless");
        world.space.link((&ROOT, from), &directory, name)
    };
    names.link(&nameless, &directory, name, link).unwrap();
    // The log is full again and again.
    let value = vec![9; 5000];
    for number in 0..20 {
        let name = format!("user.{number}");
        change(&names, file, &set(&name, &value));
    }
    world.space.disk.lock().unwrap().on_sync = None;
    assert!(world.space.disk.lock().unwrap().syncs > before + 4);
}

fn at(seconds: i64) -> Timestamps {
    let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    Timestamps {
        last_access: time(0, UTIME_OMIT),
        last_modification: time(seconds, 0),
    }
}

/// An area that refuses to be written while it is told to; what it refuses may be there all the same.
struct FailingArea {
    area: Arc<PoweredArea>,
    fails: AtomicBool,
}

impl LogArea for FailingArea {
    fn len_bytes(&self) -> u64 {
        self.area.len_bytes()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.area.read(offset, out)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.area.write(offset, bytes)?;
        match self.fails.load(Ordering::Relaxed) {
            true => Err(io::Error::from_raw_os_error(libc::EIO)),
            false => Ok(()),
        }
    }

    fn zero(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        self.area.zero(offset, len_bytes)
    }
}

#[test]
fn a_record_of_attributes_that_fails_leaves_names_as_they_are() {
    let world = World::new();
    drop(world.recover().unwrap());
    let file = world.file("file");
    let area = Arc::new(FailingArea {
        area: world.area.clone(),
        fails: AtomicBool::new(false),
    });
    let next = Arc::clone(&world.next_id);
    let draw = Box::new(move || {
        Ok(crate::metadata::FileId(
            next.fetch_add(1, Ordering::Relaxed),
        ))
    });
    let names = Names::open(area.clone(), world.space.clone(), draw).unwrap();
    names.recover(&Default::default()).unwrap();
    names.begin().unwrap();
    change(&names, file, &AttributeChange::Mode(0o700));
    area.fails.store(true, Ordering::Relaxed);
    let applied = names.change(&file, &set("user.name", &[9; 3000]));
    assert!(applied.result.is_ok() && !applied.is_recorded);
    area.fails.store(false, Ordering::Relaxed);
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
    world.cut(false);
    world.recover().unwrap();
    assert_eq!(world.mode(file), 0o700);
    assert!(world.tree().find(Path::new("made")).is_some());
}

#[test]
fn attributes_are_in_the_backing_after_a_while() {
    let world = World::new();
    let names = world.recover().unwrap();
    let file = world.file("file");
    assert!(!names.has_aged(), "nothing is told of");
    change(&names, file, &AttributeChange::Mode(0o700));
    assert!(!names.has_aged());
    let age_ns = crate::names::next_log::ATTRIBUTES_AGE_NS;
    let since_ns = names.lock().attributes_since_ns.unwrap();
    names.lock().attributes_since_ns = Some(since_ns - age_ns - 1);
    assert!(names.has_aged());
    names.checkpoint().unwrap();
    assert!(!names.has_aged());
}
