//! Attributes that were changed past the log, and logs that begin while others are at work.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use super::World;
use super::attributes::{ROOT, change, set};
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
    for file in [one, other] {
        names.acquire(&file, &|| Ok(())).unwrap();
        change(&names, file, &AttributeChange::Mode(0o711));
    }
    assert!(!names.change(&one, &set("user.name", &long())).unwrap());
    world
        .space
        .change(&one, &AttributeChange::Mode(0o600))
        .unwrap();
    names.changed_without_record(world.number_of(one));
    let before = world.space.disk.lock().unwrap().syncs;
    let sync = || {
        // Nothing is recorded of it while the sync is under way.
        assert!(!names.change(&one, &set("user.late", b"late")).unwrap());
        world.space.sync_all()
    };
    names.settle(world.number_of(one), &sync).unwrap();
    assert_eq!(world.space.disk.lock().unwrap().syncs, before + 1);
    // And then it is again.
    change(&names, one, &set("user.again", b"again"));
    world.cut(false);
    world.recover().unwrap();
    assert_eq!((world.mode(one), world.mode(other)), (0o600, 0o711));
    assert_eq!(world.value(one, "user.name"), Some(long()));
    assert_eq!(world.value(one, "user.late"), Some(b"late".to_vec()));
    assert_eq!(world.value(one, "user.again"), Some(b"again".to_vec()));
}

#[test]
fn a_log_that_begins_while_attributes_are_settled_can_be_read() {
    let world = World::new();
    let names = world.recover().unwrap();
    let file = world.file("file");
    change(&names, file, &AttributeChange::Mode(0o711));
    world
        .space
        .change(&file, &AttributeChange::Mode(0o600))
        .unwrap();
    names.changed_without_record(world.number_of(file));
    // A checkpoint that waits for its sync: what it begins with does not know the file.
    let next = names.lock().prepare_next_log();
    world.settle(&names, file).unwrap();
    world.space.sync_all().unwrap();
    let switched = names.lock().switch_log(next, Ok(()), i128::MAX);
    switched.unwrap();
    assert!(names.lock().is_read_as_known());
    world.cut(false);
    drop(names);
    world.recover().unwrap();
    assert_eq!(world.mode(file), 0o600);
}

#[test]
fn a_change_that_a_new_log_overtakes_is_in_that_log() {
    let world = World::new();
    let names = Arc::new(world.recover().unwrap());
    let file = world.file("file");
    change(&names, file, &AttributeChange::Mode(0o711));
    // Between the change in the backing and its record a new log begins, which knows the file no more.
    let others = Arc::clone(&names);
    world.space.disk.lock().unwrap().on_change = Some(Arc::new(move || {
        let next = others.lock().prepare_next_log();
        others.space.sync_all().unwrap();
        others.lock().switch_log(next, Ok(()), 0).unwrap();
    }));
    change(&names, file, &AttributeChange::Mode(0o640));
    world.space.disk.lock().unwrap().on_change = None;
    assert!(names.lock().is_read_as_known());
    drop(names);
    world.cut(false);
    world.recover().unwrap();
    assert_eq!(world.mode(file), 0o640);
}

#[test]
fn what_was_settled_while_the_pool_was_being_closed_is_said_to_wait() {
    let world = World::new();
    let names = world.recover().unwrap();
    let file = world.file("file");
    change(&names, file, &AttributeChange::Mode(0o711));
    names.lock().is_over = true;
    assert!(!names.change(&file, &AttributeChange::Mode(0o755)).unwrap());
    let error = world.settle(&names, file).unwrap_err().to_string();
    assert!(error.contains("being closed"), "{error}");
    // The close fails, say.
    names.lock().is_over = false;
    world.settle(&names, file).unwrap();
    world.cut(false);
    world.recover().unwrap();
    assert_eq!(world.mode(file), 0o755);
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
    let record = Record::Settled { id };
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

#[test]
fn a_sync_that_ends_late_retires_nothing_that_was_changed_after_another_settled() {
    type Meanwhile = fn(&World, &crate::names::Names<super::disk::ModelSpace>, u64);
    let others: [(&str, Meanwhile); 2] = [
        ("another sync", |world, names, file| {
            world.settle(names, file).unwrap();
        }),
        ("a new log", |world, names, _| {
            let next = names.lock().prepare_next_log();
            world.space.sync_all().unwrap();
            names.lock().switch_log(next, Ok(()), i128::MAX).unwrap();
        }),
    ];
    for (what, meanwhile) in others {
        for is_loose_again in [false, true] {
            let world = World::new();
            let names = world.recover().unwrap();
            let file = world.file("file");
            change(&names, file, &AttributeChange::Mode(0o711));
            names.changed_without_record(world.number_of(file));
            let sync = || {
                world.space.sync_all()?;
                meanwhile(&world, &names, file);
                change(&names, file, &set("user.late", b"late"));
                if is_loose_again {
                    names.changed_without_record(world.number_of(file));
                }
                Ok(())
            };
            names.settle(world.number_of(file), &sync).unwrap();
            world.cut(false);
            world.recover().unwrap();
            let late = world.value(file, "user.late");
            assert_eq!(late, Some(b"late".to_vec()), "{what}, {is_loose_again}");
        }
    }
}

#[test]
fn what_the_next_log_must_carry_may_fill_it() {
    let world = World::new();
    let names = world.recover().unwrap();
    let mut held = Vec::new();
    let error = loop {
        let file = world.file(&format!("{:0200}", held.len()));
        match names.acquire(&file, &|| Ok(())) {
            Ok(id) => held.push(id),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("too small for what is buffered"), "{error}");
    // What is let go leaves room for the next.
    for id in held {
        names.release(id);
    }
    let file = world.file("file");
    names.acquire(&file, &|| Ok(())).unwrap();
}

#[test]
fn a_sync_that_failed_while_a_change_was_recorded_is_told_by_the_next_one() {
    let world = World::new();
    let names = world.recover().unwrap();
    // What introduces it to the log syncs it.
    let file = world.made_by_others(ROOT, "file", libc::S_IFREG | 0o644);
    let mode = AttributeChange::Mode(0o600);
    world.space.disk.lock().unwrap().failing_syncs = 1;
    assert!(!names.change(&file, &mode).unwrap());
    world.settle(&names, file).unwrap_err();
    world.settle(&names, file).unwrap();
    // So is one in the background.
    world.space.disk.lock().unwrap().failing_syncs = 1;
    names.checkpoint_unheard();
    world.settle(&names, file).unwrap_err();
    world.settle(&names, file).unwrap();
}
