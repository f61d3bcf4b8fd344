//! Attributes: those that the buffer changes are durable at once; an fsync has those that were changed where it did
//! not see which.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::XattrFlags;

use crate::buffer::FileBuffer;
use crate::facts::SyncKind;
use crate::file::BufferedFile;
use crate::identity::FileIdentity;
use crate::names::AttributeChange;
use crate::observe::{Observer, SeenIdentity, Synced, set_observer};
use crate::testing::{Rig, Syncs, open_file};

fn change_mode(rig: &Rig) {
    fs::set_permissions(rig.path("file"), Permissions::from_mode(0o640)).expect("chmod");
}

/// A file that is older than the backing's last sync: one that is younger is synced once more when the log
/// introduces it.
fn old_file(rig: &Rig) -> Arc<FileBuffer> {
    fs::write(rig.path("file"), "older").expect("write");
    // Longer than a tick of the clock that both times are told by.
    std::thread::sleep(Duration::from_millis(20));
    let buffer = rig.open().expect("open");
    buffer.sync_backing().expect("sync");
    buffer
}

/// Whether the attributes that the file has now are durable after `act`, a write and an fsync.
fn are_durable_after(file: &BufferedFile, act: impl FnOnce(&BufferedFile)) -> bool {
    let syncs = Rc::new(Syncs::default());
    set_observer(Some(syncs.clone()));
    act(file);
    file.write_at(1, b"newer", false).expect("write");
    file.sync(SyncKind::All).expect("fsync");
    set_observer(None);
    syncs.0.borrow().contains(&Synced::All(file.identity()))
}

#[test]
fn of_before_the_file_was_opened() {
    type Act = fn(&BufferedFile);
    let acts: [(&str, Act); 4] = [
        ("nothing", |_| ()),
        ("fdatasync", |file| file.sync(SyncKind::Data).expect("sync")),
        ("a durable write", |file| {
            file.write_at(0, b"!", true).expect("write");
        }),
        ("a drain", |file| file.drain().expect("drain")),
    ];
    for (name, act) in acts {
        let rig = Rig::new(4 << 20);
        let buffer = old_file(&rig);
        change_mode(&rig);
        let identity = FileIdentity::of(File::open(rig.path("file")).expect("open"));
        buffer.attributes_changed(identity.expect("stat"));
        let file = buffer.adopt(open_file(&rig.path("file"))).expect("adopt");
        assert!(are_durable_after(&file, act), "after {name}");
    }
}

#[test]
fn of_while_others_had_the_file() {
    let rig = Rig::new(4 << 20);
    let buffer = old_file(&rig);
    let file = buffer.adopt(open_file(&rig.path("file"))).expect("adopt");
    file.sync(SyncKind::All).expect("fsync");
    file.suspend().expect("suspend");
    change_mode(&rig);
    file.resume();
    let sync = |file: &BufferedFile| file.sync(SyncKind::Data).expect("fdatasync");
    assert!(are_durable_after(&file, sync));
}

/// The syncs of the backing that `act` causes.
fn syncs_of(act: impl FnOnce()) -> Vec<Synced> {
    let syncs = Rc::new(Syncs::default());
    set_observer(Some(syncs.clone()));
    act();
    set_observer(None);
    syncs.0.take()
}

fn set(value: &[u8]) -> AttributeChange<'_> {
    AttributeChange::Set {
        name: OsStr::new("user.name"),
        value,
        flags: XattrFlags::empty(),
    }
}

#[test]
fn changed_by_the_buffer_need_no_sync_of_the_backing() {
    let rig = Rig::new(4 << 20);
    let buffer = old_file(&rig);
    let file = buffer.adopt(open_file(&rig.path("file"))).expect("adopt");
    file.sync(SyncKind::All).expect("fsync");
    file.append(b"in the pool", true).expect("append");
    let changes = [
        AttributeChange::Mode(0o640),
        AttributeChange::Owner {
            user: None,
            group: Some(rustix::process::getegid().as_raw()),
        },
        set(b"value"),
        set(&[7; 7 << 10]),
        AttributeChange::Remove(OsStr::new("user.name")),
    ];
    for change in changes {
        let before = buffer.counters();
        let changed = buffer.change_attributes(&*file.backing(), &change);
        if changed.is_err_and(|error| error.raw_os_error() == Some(libc::EOPNOTSUPP)) {
            println!("skipped extended attributes: none here");
            continue;
        }
        let spent = buffer.counters() - before;
        let syncs = syncs_of(|| {
            file.write_at(0, b"newer", false).expect("write");
            file.sync(SyncKind::All).expect("fsync");
        });
        assert_eq!(syncs, [], "{change:?}");
        assert!(spent.fences <= 1, "{change:?}: {} fences", spent.fences);
    }
}

#[test]
fn of_a_directory_need_no_sync_of_the_backing() {
    let rig = Rig::new(4 << 20);
    fs::create_dir(rig.path("directory")).expect("make");
    let buffer = rig.open().expect("open");
    let open = || File::open(rig.path("directory")).expect("open");
    let change = AttributeChange::Mode(0o700);
    buffer.change_attributes(open(), &change).expect("chmod");
    let directory = buffer.directory(open().into()).expect("a directory");
    let syncs = syncs_of(|| directory.sync().expect("fsync"));
    assert_eq!(syncs, []);
}

#[test]
fn that_are_too_long_to_be_recorded_wait_for_the_backing() {
    let rig = Rig::new(4 << 20);
    let buffer = old_file(&rig);
    let file = buffer.adopt(open_file(&rig.path("file"))).expect("adopt");
    file.sync(SyncKind::All).expect("fsync");
    let recorded = AttributeChange::Mode(0o640);
    let change = |change| buffer.change_attributes(&*file.backing(), change);
    change(&recorded).expect("chmod");
    let value = [7; 64 << 10];
    match change(&set(&value)).map_err(|error| error.raw_os_error()) {
        Ok(_) => {}
        // Most file systems have room for less.
        Err(Some(libc::EOPNOTSUPP | libc::ENOSPC | libc::ERANGE | libc::E2BIG)) => return,
        Err(error) => panic!("{error:?}"),
    }
    let sync = || file.sync(SyncKind::All).expect("fsync");
    // The log has an older mode, which must not come back over what the backing has now.
    let all = Synced::All(file.identity());
    assert_eq!(syncs_of(sync), [all]);
    assert_eq!(syncs_of(sync), []);
}

/// A machine whose power fails: each has mounted the backing anew.
struct Mounted(u64);

impl Observer for Mounted {
    fn identity(&self, _: FileIdentity) -> Option<SeenIdentity> {
        None
    }
    fn mounting(&self) -> u64 {
        self.0
    }
    fn before_sync(&self) {}
    fn synced(&self, _: Synced) {}
}

fn has_capability(rig: &Rig) -> bool {
    rustix::fs::getxattr_query(rig.path("file"), "security.capability").is_ok()
}

#[test]
fn a_capability_is_not_given_to_bytes_that_were_written_later() {
    type Write = fn(&BufferedFile);
    let writes: [Write; 3] = [
        |file| file.write_at(1, b"newer", true).expect("write"),
        |file| {
            file.append(b"newer", false).expect("append");
        },
        |file| file.truncate(3).expect("truncate"),
    ];
    for (write, is_opened_later) in writes.into_iter().zip([false, true, false]) {
        set_observer(Some(Rc::new(Mounted(1))));
        let rig = Rig::new(4 << 20);
        let buffer = old_file(&rig);
        let open = || buffer.adopt(open_file(&rig.path("file"))).expect("adopt");
        let first = (!is_opened_later).then(open);
        // Version 2, and no capability in it.
        let mut value = [0; 20];
        value[3] = 2;
        let change = AttributeChange::Set {
            name: OsStr::new("security.capability"),
            value: &value,
            flags: XattrFlags::empty(),
        };
        let inode = File::open(rig.path("file")).expect("open");
        if let Err(error) = buffer.change_attributes(&inode, &change) {
            println!("skipped capabilities: {error}");
            return;
        }
        let reopened = |mounting| {
            set_observer(Some(Rc::new(Mounted(mounting))));
            drop(rig.open().expect("recovery"));
        };
        write(&first.unwrap_or_else(open));
        drop(buffer);
        reopened(2);
        assert!(!has_capability(&rig), "opened later: {is_opened_later}");
        set_observer(None);
    }
}

#[test]
fn a_capability_or_set_id_bits_given_after_a_write_last() {
    type Sync = fn(&BufferedFile);
    let syncs: [Sync; 3] = [
        |file| file.sync(SyncKind::All).expect("fsync"),
        |file| {
            file.sync(SyncKind::Data).expect("fdatasync");
            file.sync(SyncKind::All).expect("fsync");
        },
        |file| file.drain().expect("drain"),
    ];
    // Version 2, and no capability in it.
    let mut value = [0; 20];
    value[3] = 2;
    let capability = AttributeChange::Set {
        name: OsStr::new("security.capability"),
        value: &value,
        flags: XattrFlags::empty(),
    };
    let changes = [capability, AttributeChange::Mode(0o6755)];
    for (change, is_pooled) in changes
        .into_iter()
        .flat_map(|change| [(change, false), (change, true)])
    {
        for sync in syncs {
            set_observer(Some(Rc::new(Mounted(1))));
            let rig = Rig::new(4 << 20);
            let buffer = old_file(&rig);
            let file = buffer.adopt(open_file(&rig.path("file"))).expect("adopt");
            file.sync(SyncKind::All).expect("fsync");
            file.write_at(0, b"a program", is_pooled).expect("write");
            if let Err(error) = buffer.change_attributes(&*file.backing(), &change) {
                println!("skipped {change:?}: {error}");
                continue;
            }
            sync(&file);
            drop((file, buffer));
            set_observer(Some(Rc::new(Mounted(2))));
            let buffer = rig.open().expect("recovery");
            assert_eq!(buffer.recovery().complaints, [""; 0]);
            assert_eq!(
                &fs::read(rig.path("file")).expect("read")[..9],
                b"a program"
            );
            let mode = fs::metadata(rig.path("file")).expect("stat").permissions();
            match change {
                AttributeChange::Mode(asked) => assert_eq!(mode.mode() & 0o7777, asked),
                _ => assert!(has_capability(&rig), "in the pool: {is_pooled}"),
            }
            set_observer(None);
        }
    }
}

/// A machine that has lost what a test takes back: no time of change tells of that.
struct Lossy(u64);

impl Observer for Lossy {
    fn identity(&self, _: FileIdentity) -> Option<SeenIdentity> {
        None
    }
    fn mounting(&self) -> u64 {
        self.0
    }
    fn changed_ns(&self, _: FileIdentity, _: i128) -> i128 {
        0
    }
    fn before_sync(&self) {}
    fn synced(&self, _: Synced) {}
}

#[test]
fn a_file_that_is_gone_keeps_no_other_one_from_its_attributes() {
    set_observer(Some(Rc::new(Lossy(1))));
    let rig = Rig::new(4 << 20);
    fs::write(rig.path("gone"), "older").expect("write");
    let buffer = old_file(&rig);
    for name in ["gone", "file"] {
        let file = buffer.adopt(open_file(&rig.path(name))).expect("adopt");
        file.sync(SyncKind::All).expect("fsync");
        file.write_at(0, b"newer", true).expect("write");
        let change = AttributeChange::Mode(0o755);
        let changed = buffer.change_attributes(&*file.backing(), &change);
        changed.expect("chmod");
    }
    drop(buffer);
    change_mode(&rig);
    fs::remove_file(rig.path("gone")).expect("remove");
    set_observer(Some(Rc::new(Lossy(2))));
    let mode = || {
        let found = fs::metadata(rig.path("file")).expect("stat");
        found.permissions().mode() & 0o777
    };
    for _ in 0..2 {
        let error = rig.open().expect_err("a file is gone").to_string();
        assert!(error.starts_with("gone"), "{error}");
        assert_eq!(mode(), 0o755);
        assert_eq!(fs::read(rig.path("file")).expect("read"), b"newer");
    }
    // What others do about it until the next try is theirs.
    set_observer(None);
}

#[test]
fn errors_are_the_backings_and_nothing_is_recorded_then() {
    let rig = Rig::new(4 << 20);
    let buffer = old_file(&rig);
    let file = buffer.adopt(open_file(&rig.path("file"))).expect("adopt");
    // It is introduced to the log by the first one.
    let changed = AttributeChange::Mode(0o640);
    buffer
        .change_attributes(&*file.backing(), &changed)
        .expect("chmod");
    let before = buffer.counters();
    let name = "x".repeat(256);
    let long = AttributeChange::Remove(OsStr::new(&name));
    let refused = buffer.change_attributes(&*file.backing(), &long);
    let number = refused.expect_err("refused").raw_os_error();
    assert!(matches!(number, Some(libc::ERANGE | libc::EOPNOTSUPP)));
    let spent = buffer.counters() - before;
    assert_eq!((spent.fences, spent.lines_streamed), (0, 0));
}
