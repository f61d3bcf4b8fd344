//! Logs without room.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use super::World;
use super::attributes::{ROOT, change, set};
use crate::names::attributes::AttributeChange;
use crate::names::record::Record;
use crate::names::space::{Creation, NameSpace};

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
