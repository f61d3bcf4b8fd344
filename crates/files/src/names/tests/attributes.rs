//! Attributes in the tree that forgets: what single faults would make of them.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::XattrFlags;

use super::disk::{Keep, ModelSpace};
use super::power::PoweredArea;
use super::{Crash, World};
use crate::metadata::Durable;
use crate::names::Names;
use crate::names::attributes::{ACCESS_LIST, AttributeChange, CAPABILITY, VALUE_BYTES_MAX};
use crate::names::log::LogArea;
use crate::names::reconcile::Reconciled;
use crate::names::space::{Creation, NameSpace};

pub(super) const ROOT: u64 = 1;

pub(super) fn set<'a>(name: &'a str, value: &'a [u8]) -> AttributeChange<'a> {
    AttributeChange::Set {
        name: OsStr::new(name),
        value,
        flags: XattrFlags::empty(),
    }
}

pub(super) fn remove(name: &str) -> AttributeChange<'_> {
    AttributeChange::Remove(OsStr::new(name))
}

/// Makes a change that is recorded.
pub(super) fn change(names: &Names<ModelSpace>, uid: u64, change: &AttributeChange<'_>) {
    assert!(names.change(&uid, change).unwrap(), "{change:?}");
}

/// All of it, and nothing fails.
pub(super) fn restore(names: &Names<ModelSpace>, found: &mut Reconciled<ModelSpace>) {
    assert_eq!(names.restore(found, &Default::default()), [""; 0]);
}

/// Something of user 7.
pub(super) fn creation(mode: u32) -> Creation {
    Creation {
        mode,
        user: 7,
        group: 7,
        device: 0,
        target: Default::default(),
    }
}

impl World {
    /// What others do to an inode.
    pub(super) fn others_change(&self, uid: u64, change: &AttributeChange<'_>) {
        self.space.change(&uid, change).unwrap();
    }

    /// Something that others made, durably.
    pub(super) fn made_by_others(&self, directory: u64, name: &str, mode: u32) -> u64 {
        let name = OsStr::new(name);
        let made = self.space.make(&directory, name, &creation(mode));
        made.unwrap();
        self.space.hold(&directory, name).unwrap()
    }

    pub(super) fn file(&self, name: &str) -> u64 {
        let file = self.made_by_others(ROOT, name, libc::S_IFREG | 0o644);
        self.space.sync_all().unwrap();
        file
    }

    /// A power cut that keeps nothing, or all, of what was not synced.
    pub(super) fn cut(&self, is_kept: bool) {
        self.crash(Crash {
            after: 0,
            keep: Keep::Prefix(match is_kept {
                true => self.space.disk.lock().unwrap().changes() as u16,
                false => 0,
            }),
        });
    }

    pub(super) fn mode(&self, uid: u64) -> u32 {
        self.space.seen(&uid).unwrap().mode & 0o7777
    }

    pub(super) fn value(&self, uid: u64, name: &str) -> Option<Vec<u8>> {
        self.tree().value(uid, name)
    }

    /// Up to where data would be written.
    pub(super) fn names_recovered(&self) -> (Names<ModelSpace>, Reconciled<ModelSpace>) {
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
fn a_mode_that_was_so_already_is_what_counts() {
    let world = World::new();
    let names = world.recover().unwrap();
    let file = world.file("file");
    change(&names, file, &AttributeChange::Mode(0o711));
    // Another program's, which a caller then asks for too.
    let others = AttributeChange::Mode(0o600);
    world.space.change(&file, &others).unwrap();
    assert!(!names.change(&file, &others).unwrap() || world.mode(file) == 0o600);
    world.cut(true);
    world.recover().unwrap();
    assert_eq!(world.mode(file), 0o600);
}

#[test]
fn files_that_others_made_cost_one_sync_together() {
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

    fn write(&self, offset: u64, bytes: &[u8], durable: Durable) -> io::Result<()> {
        self.area.write(offset, bytes, durable)?;
        match self.fails.load(Ordering::Relaxed) {
            true => Err(io::Error::from_raw_os_error(libc::EIO)),
            false => Ok(()),
        }
    }

    fn zero(&self, offset: u64, len_bytes: u64, durable: Durable) -> io::Result<()> {
        self.area.zero(offset, len_bytes, durable)
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
    let value = [9; 3000];
    assert!(!names.change(&file, &set("user.name", &value)).unwrap());
    area.fails.store(false, Ordering::Relaxed);
    let made = OsStr::new("made");
    let creation = creation(libc::S_IFREG | 0o600);
    let make = || world.space.make(&ROOT, made, &creation);
    names.create(&ROOT, made, make).unwrap();
    world.cut(false);
    world.recover().unwrap();
    assert_eq!(world.mode(file), 0o700);
    assert!(world.tree().find(Path::new("made")).is_some());
}

/// Which changes a record alone makes durable.
#[test]
fn what_is_not_plain_waits_for_the_backing() {
    let world = World::new();
    let names = world.recover().unwrap();
    let file = world.file("file");
    let list = |name: &'static str| set(name, b"value");
    let long = vec![1; VALUE_BYTES_MAX + 1];
    let owner = AttributeChange::Owner {
        user: Some(9),
        group: None,
    };
    let is_recorded = |uid, change: &AttributeChange<'_>| names.change(&uid, change).unwrap();
    for change in [
        AttributeChange::Mode(0o4755),
        set("user.long", &long),
        list(CAPABILITY),
        list(ACCESS_LIST),
        list("security.other"),
        list("system.other"),
    ] {
        assert!(!is_recorded(file, &change), "{change:?}");
    }
    // It has a list, a capability, and set-id bits.
    assert!(!is_recorded(file, &AttributeChange::Mode(0o640)));
    assert!(!is_recorded(file, &owner));
    assert!(is_recorded(file, &list("trusted.name")));
    let program = world.file("program");
    let stays = AttributeChange::Owner {
        user: Some(7),
        group: Some(7),
    };
    assert!(!is_recorded(program, &list(CAPABILITY)));
    assert!(!is_recorded(program, &stays), "it takes the capability");
    assert!(
        !is_recorded(ROOT, &AttributeChange::Mode(0o711)),
        "the mark moves its times"
    );
    world.space.disk.lock().unwrap().can_seek = false;
    let other = world.file("other");
    assert!(!is_recorded(other, &AttributeChange::Mode(0o600)));
}

/// What others narrowed is not undone because of what is recorded later.
#[test]
fn others_changes_while_names_are_open_end_the_recording_until_a_sync() {
    for is_settled in [false, true] {
        let world = World::new();
        let names = world.recover().unwrap();
        let file = world.file("file");
        change(&names, file, &AttributeChange::Mode(0o644));
        change(&names, file, &set("user.theirs", b"told"));
        let narrower = AttributeChange::Mode(0o600);
        world.space.change(&file, &narrower).unwrap();
        world.space.change(&file, &remove("user.theirs")).unwrap();
        assert!(!names.change(&file, &set("user.name", b"value")).unwrap());
        assert!(!names.change(&file, &set("user.name", b"again")).unwrap());
        if is_settled {
            world.settle(&names, file).unwrap();
            change(&names, file, &set("user.name", b"settled"));
        }
        world.cut(true);
        world.recover().unwrap();
        assert_eq!(world.mode(file), 0o600);
        assert_eq!(world.value(file, "user.theirs"), None);
        let expected = if is_settled {
            &b"settled"[..]
        } else {
            b"again"
        };
        assert_eq!(world.value(file, "user.name").as_deref(), Some(expected));
    }
}

#[test]
fn a_mode_is_not_put_under_an_access_list_that_it_was_not_recorded_with() {
    let world = World::new();
    let names = world.recover().unwrap();
    let file = world.file("file");
    change(&names, file, &AttributeChange::Mode(0o664));
    let list = set(ACCESS_LIST, b"many");
    assert!(!names.change(&file, &list).unwrap());
    // The mask, as it were; the clock stands still.
    let clock = world.space.disk.lock().unwrap().clock;
    world.space.disk.lock().unwrap().clock = clock - 2;
    let mask = AttributeChange::Mode(0o644);
    world.space.change(&file, &mask).unwrap();
    world.cut(true);
    world.recover_with_others().unwrap();
    assert_eq!(world.mode(file), 0o644);
}

#[test]
fn the_names_are_not_locked_while_the_backing_is_at_work() {
    let world = World::new();
    let names = Arc::new(world.recover().unwrap());
    let file = world.file("file");
    change(&names, file, &AttributeChange::Mode(0o640));
    let other = Arc::clone(&names);
    let is_free = Arc::new(AtomicBool::new(false));
    let found = Arc::clone(&is_free);
    world.space.disk.lock().unwrap().on_change = Some(Arc::new(move || {
        found.store(other.inner.try_lock().is_ok(), Ordering::Relaxed);
    }));
    change(&names, file, &AttributeChange::Mode(0o600));
    assert!(is_free.load(Ordering::Relaxed));
    world.space.disk.lock().unwrap().on_change = None;
}

/// It has what is asked for, but another program made it so, and a crash may undo that.
#[test]
fn what_others_made_so_before_is_not_taken_for_durable() {
    for is_told in [true, false] {
        let world = World::new();
        let names = world.recover().unwrap();
        let file = world.file("file");
        if is_told {
            change(&names, file, &AttributeChange::Mode(0o644));
        }
        let mode = AttributeChange::Mode(0o600);
        world.space.change(&file, &mode).unwrap();
        let is_recorded = names.change(&file, &mode).unwrap();
        assert_eq!(is_recorded, !is_told);
        if !is_recorded {
            world.settle(&names, file).unwrap();
        }
        world.cut(false);
        world.recover().unwrap();
        assert_eq!(world.mode(file), 0o600);
    }
}
