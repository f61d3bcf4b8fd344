//! Attributes that were changed past the log, and logs that begin while others are at work.

use std::ffi::OsStr;
use std::path::Path;

use super::World;
use super::attributes::{ROOT, at, change, set};
use crate::names::attributes::AttributeChange;
use crate::names::record::Record;
use crate::names::space::NameSpace;

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
    assert!(
        refused.to_string().contains("nothing introduces"),
        "{refused}"
    );
    assert!(inner.is_read_as_known(), "the old log counts");
    drop(inner);
    change(&names, file, &AttributeChange::Mode(0o640));
    names.checkpoint().unwrap();
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

#[test]
fn what_lost_the_one_name_that_the_log_knows_keeps_its_attributes_under_others() {
    let world = World::new();
    let file = world.file("unknown");
    let known = OsStr::new("known");
    let from = OsStr::new("unknown");
    world.space.link((&ROOT, from), &ROOT, known).unwrap();
    // A name is looked up by the one that is first.
    let other = OsStr::new("z");
    world.space.link((&ROOT, from), &ROOT, other).unwrap();
    world.space.sync_all().unwrap();
    let names = world.recover().unwrap();
    change(&names, file, &AttributeChange::Mode(0o711));
    names.remove(&ROOT, known, false).unwrap();
    drop(names);
    world.cut(false);
    world.recover().unwrap();
    assert_eq!(world.mode(file), 0o711);
}
