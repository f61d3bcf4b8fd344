//! Attributes in the tree that forgets: what single faults would make of them.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Timespec, Timestamps, UTIME_OMIT, XattrFlags};

use super::disk::{Keep, ModelSpace};
use super::power::PoweredArea;
use super::{Crash, World};
use crate::names::Names;
use crate::names::attributes::{AttributeChange, CAPABILITY};
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

pub(super) fn change(names: &Names<ModelSpace>, uid: u64, change: &AttributeChange<'_>) {
    let applied = names.change(&uid, change);
    applied.result.unwrap();
    assert!(applied.is_recorded, "{change:?}");
}

/// All of it, and nothing fails.
pub(super) fn restore(names: &Names<ModelSpace>, found: &mut Reconciled<ModelSpace>) {
    assert_eq!(names.restore(found, &Default::default()), [""; 0]);
}

impl World {
    /// Something that others made, durably.
    pub(super) fn made_by_others(&self, directory: u64, name: &str, mode: u32) -> u64 {
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
        assert_eq!(
            mode & 0o022,
            0,
            "nobody else may write it meanwhile: {mode:o}"
        );
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

pub(super) fn at(seconds: i64) -> Timestamps {
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
