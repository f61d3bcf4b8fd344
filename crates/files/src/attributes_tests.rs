//! Attributes that were changed where the buffer did not see which: an fsync has them all the same.

use std::cell::RefCell;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::buffer::FileBuffer;
use crate::facts::SyncKind;
use crate::file::BufferedFile;
use crate::identity::FileIdentity;
use crate::observe::{Observer, SeenIdentity, Synced, set_observer};
use crate::testing::{Rig, open_file};

/// Notes what of the backing is synced.
#[derive(Default)]
struct Syncs(RefCell<Vec<Synced>>);

impl Observer for Syncs {
    fn identity(&self, _: FileIdentity) -> Option<SeenIdentity> {
        None
    }
    fn mounting(&self) -> u64 {
        1
    }
    fn before_sync(&self) {}
    fn synced(&self, what: Synced) {
        self.0.borrow_mut().push(what);
    }
}

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
