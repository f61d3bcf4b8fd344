//! What others change between a crash and the recovery, and what only looks like that.

use super::World;
use super::attributes::{change, restore, set};
use crate::names::attributes::AttributeChange;
use crate::names::log::Log;
use crate::names::record::Record;
use crate::names::space::NameSpace;

impl World {
    /// The clock has gone on so far that what an ended recovery did is before it.
    fn after_a_tick(&self) {
        self.space.disk.lock().unwrap().clock += 20_000_000;
    }
}

#[test]
fn what_others_changed_last_counts_as_far_as_it_takes_rights() {
    type Act = fn(&World, u64);
    // What others do in the next boot, the mode that comes of it, and whether the value is theirs.
    let acts: [(&str, Act, u32, bool); 5] = [
        ("nothing", |_, _| (), 0o751, false),
        (
            "a time, of what was lost",
            |world, file| {
                // Another value, as far as times of change go.
                world.others_change(file, &set("user.other", b""));
            },
            0o640,
            true,
        ),
        (
            "more rights",
            |world, file| {
                world.others_change(file, &AttributeChange::Mode(0o6777));
            },
            0o751,
            true,
        ),
        (
            "fewer rights",
            |world, file| {
                world.others_change(file, &AttributeChange::Mode(0o600));
            },
            0o600,
            true,
        ),
        (
            "a value",
            |world, file| {
                world.others_change(file, &set("user.name", b"theirs"));
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
        change(&names, file, &AttributeChange::Mode(0o600));
        change(&names, file, &AttributeChange::Mode(0o644));
        // The clock goes on: it is told to be durable then.
        world.file("later");
        names.checkpoint().unwrap();
        change(&names, file, &AttributeChange::Mode(0o751));
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
fn a_change_for_which_the_clock_went_back_is_not_recorded() {
    let world = World::new();
    let names = world.recover().unwrap();
    let file = world.file("file");
    world.space.disk.lock().unwrap().clock = 1000;
    change(&names, file, &AttributeChange::Mode(0o640));
    world.space.disk.lock().unwrap().clock = 500;
    assert!(!names.change(&file, &AttributeChange::Mode(0o711)).unwrap());
    world.settle(&names, file).unwrap();
    // Later than ours, and earlier than what was before it.
    world.others_change(file, &AttributeChange::Mode(0o600));
    world.cut(true);
    world.recover().unwrap();
    assert_eq!(world.mode(file), 0o600);
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

fn owner(number: u32) -> AttributeChange<'static> {
    AttributeChange::Owner {
        user: Some(number),
        group: Some(number),
    }
}

#[test]
fn what_an_administrator_took_back_is_not_given_away_again() {
    let world = World::new();
    let file = world.file("file");
    world.others_change(file, &owner(0));
    world.space.sync_all().unwrap();
    let names = world.recover().unwrap();
    change(&names, file, &owner(42));
    world.others_change(file, &owner(0));
    world.others_change(file, &AttributeChange::Mode(0o600));
    world.cut(true);
    for _ in 0..2 {
        let (names, mut found) = world.names_recovered();
        restore(&names, &mut found);
        let seen = world.space.seen(&file).unwrap();
        assert_eq!((seen.user, seen.group, world.mode(file)), (0, 0, 0o600));
        world.cut(true);
    }
}

#[test]
fn an_owner_that_others_gave_it_while_we_ran_stays() {
    let world = World::new();
    let names = world.recover().unwrap();
    let file = world.file("file");
    change(&names, file, &owner(42));
    world.others_change(file, &owner(43));
    world.cut(true);
    for _ in 0..2 {
        let (names, mut found) = world.names_recovered();
        restore(&names, &mut found);
        assert_eq!(world.space.seen(&file).unwrap().user, 43);
        // All that recovery did is there, of the next boot as it were.
        world.cut(true);
    }
}

#[test]
fn what_others_changed_after_the_cut_is_roots_where_its_owner_may_be_an_old_one() {
    type Act = fn(&World, u64);
    let acts: [Act; 2] = [
        |world, file| {
            world.others_change(file, &AttributeChange::Mode(0o600));
        },
        |world, file| world.others_change(file, &owner(43)),
    ];
    for act in acts {
        let world = World::new();
        let names = world.recover().unwrap();
        let file = world.file("file");
        change(&names, file, &AttributeChange::Mode(0o640));
        world.file("later");
        names.checkpoint().unwrap();
        change(&names, file, &owner(42));
        world.cut(false);
        act(&world, file);
        for _ in 0..2 {
            let (names, mut found) = world.names_recovered();
            restore(&names, &mut found);
            assert_eq!(world.space.seen(&file).unwrap().user, 0);
            assert!(found.complaints[0].contains("is root's"));
            world.cut(true);
        }
    }
}

#[test]
fn without_room_for_what_others_changed_recovery_is_done_all_the_same() {
    let world = World::new();
    let names = world.recover().unwrap();
    let file = world.file("file");
    change(&names, file, &AttributeChange::Mode(0o751));
    world.cut(false);
    world.others_change(file, &AttributeChange::Mode(0o777));
    // Up to the last byte.
    let names = {
        drop(names);
        let (log, _) = Log::open(world.area.clone()).unwrap();
        fill(log, &[200, 1]);
        world.names_recovered()
    };
    let (names, mut found) = names;
    restore(&names, &mut found);
    assert_eq!((world.mode(file), found.attributes_left), (0o751, 1));
    world.cut(true);
    world.recover_with_others().unwrap();
    assert_eq!(world.mode(file), 0o751);
}

/// Leaves no room, not even recovery's, for records with names as long as the last of these.
fn fill(mut log: Log, lens: &[usize]) {
    let name = |len: usize| Record::Link {
        id: crate::metadata::FileId::ROOT,
        place: crate::names::space::Place {
            parent: crate::metadata::FileId(0),
            name: "x".repeat(len).into(),
        },
    };
    for len in lens {
        while log.append_in_recovery(&[name(*len)]).unwrap() {}
    }
}

#[test]
fn others_changes_after_a_kill_stay_where_the_kernel_does_not_tell_the_mounting() {
    let world = World::new();
    world.space.disk.lock().unwrap().tells_no_mounting = true;
    let names = world.recover().unwrap();
    let file = world.file("file");
    change(&names, file, &AttributeChange::Mode(0o755));
    change(&names, file, &set("user.name", b"ours"));
    drop(names);
    // Nothing is lost, and the machine starts again in order or not at all.
    for mode in [0o700, 0o500] {
        world.others_change(file, &AttributeChange::Mode(mode));
        world.others_change(file, &set("user.name", b"theirs"));
        world.space.sync_all().unwrap();
        world.recover().unwrap();
        assert_eq!(world.mode(file), mode);
        let value = world.value(file, "user.name");
        assert_eq!(value.as_deref(), Some(&b"theirs"[..]));
        world.cut(true);
    }
}

#[test]
fn what_others_change_between_two_recoveries_counts_with_what_they_changed_before() {
    let world = World::new();
    let names = world.recover().unwrap();
    let file = world.file("file");
    change(&names, file, &AttributeChange::Mode(0o755));
    world.space.sync_all().unwrap();
    change(&names, file, &set("user.name", b"ours"));
    world.cut(false);
    world.others_change(file, &set("user.name", b"theirs"));
    // It fails in order, elsewhere.
    let (names, found) = world.names_recovered();
    assert_eq!((world.mode(file), found.attributes_left), (0o755, 1));
    names.rest().unwrap();
    world.after_a_tick();
    world.others_change(file, &AttributeChange::Mode(0o700));
    for _ in 0..2 {
        let (names, mut found) = world.names_recovered();
        restore(&names, &mut found);
        assert_eq!(world.mode(file), 0o700);
        let value = world.value(file, "user.name");
        assert_eq!(value.as_deref(), Some(&b"theirs"[..]));
        world.cut(true);
    }
}

#[test]
fn a_recovery_that_was_killed_is_at_work_until_the_next_begins() {
    let world = World::new();
    let names = world.recover().unwrap();
    let file = world.file("file");
    change(&names, file, &AttributeChange::Mode(0o755));
    world.cut(false);
    // One is killed, the next ends in order.
    drop(world.names_recovered());
    let (names, _) = world.names_recovered();
    names.rest().unwrap();
    world.after_a_tick();
    world.others_change(file, &AttributeChange::Mode(0o700));
    let (names, mut found) = world.names_recovered();
    restore(&names, &mut found);
    assert_eq!(world.mode(file), 0o700);
}

#[test]
fn a_recovery_that_the_log_had_no_room_to_tell_of_is_not_told_to_have_ended() {
    let world = World::new();
    let names = world.recover().unwrap();
    let files: Vec<u64> = (0..40)
        .map(|number| world.file(&format!("file-{number}")))
        .collect();
    for file in &files {
        change(&names, *file, &AttributeChange::Mode(0o755));
    }
    world.cut(false);
    for file in &files {
        world.others_change(*file, &AttributeChange::Mode(0o700));
    }
    // There is room for the end, and none for what others have changed.
    let (log, _) = Log::open(world.area.clone()).unwrap();
    fill(log, &[200]);
    let before = world.area.bytes.lock().unwrap().clone();
    let (names, _) = world.names_recovered();
    names.rest().unwrap();
    let after = world.area.bytes.lock().unwrap().clone();
    assert!(before == after, "nothing is recorded");
}
