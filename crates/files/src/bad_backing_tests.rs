//! Files whose backing fails.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;

use crate::buffer::FileBuffer;
use crate::facts::SyncKind;
use crate::file::BufferedFile;
use crate::identity::FileIdentity;
use crate::observe::{Observer, SeenIdentity, Synced, set_observer};
use crate::testing::{Rig, SmallDisk, open_file};

/// Fails what is written back to some files, or only their syncs.
#[derive(Default)]
struct Failing {
    files: RefCell<Vec<FileIdentity>>,
    errno: i32,
}

impl Observer for Failing {
    fn identity(&self, _real: FileIdentity) -> Option<SeenIdentity> {
        None
    }
    fn mounting(&self) -> u64 {
        1
    }
    fn before_sync(&self) {}
    fn synced(&self, _what: Synced) {}
    fn failure(&self, file: FileIdentity) -> Option<io::Error> {
        let fails = self.files.borrow().contains(&file);
        fails.then(|| io::Error::from_raw_os_error(self.errno))
    }
}

fn hot_file(rig: &Rig, buffer: &Arc<FileBuffer>, name: &str) -> Arc<BufferedFile> {
    let file = buffer.adopt(open_file(&rig.path(name))).expect("adopt");
    file.sync(SyncKind::Data).expect("sync");
    file.append(name.as_bytes(), true).expect("append");
    file
}

fn dirty_blocks(buffer: &FileBuffer) -> u64 {
    buffer.stats().expect("it is open").dirty_blocks
}

#[test]
fn a_file_that_cannot_be_written_holds_up_no_other() {
    for errno in [libc::EIO, libc::ENOSPC] {
        let rig = Rig::new(4 << 20);
        let buffer = rig.open().expect("open");
        let (bad, good) = (
            hot_file(&rig, &buffer, "bad"),
            hot_file(&rig, &buffer, "good"),
        );
        let failing = Rc::new(Failing {
            files: RefCell::new(vec![bad.identity()]),
            errno,
        });
        set_observer(Some(failing.clone()));
        buffer.work_once().expect_err("one file cannot be written");
        assert_eq!(dirty_blocks(&buffer), 1, "the bad file's");
        let on_disk = |name| std::fs::read(rig.path(name)).expect("read");
        assert_eq!(on_disk("good"), b"good");
        let volume = buffer.stats().expect("open").volumes.remove(0);
        let error = volume.last_error.expect("in trouble");
        assert!(
            error.contains(rig.path("bad").to_str().expect("text")),
            "{error}"
        );
        // Acknowledged all the same, served, and the other one can be given back.
        bad.append(b" and more", true).expect("append");
        let mut out = [0; 12];
        assert_eq!(bad.read_at(0, &mut out).expect("read"), 12);
        assert_eq!(&out, b"bad and more");
        good.append(b" day", true).expect("append");
        good.suspend().expect("the good one goes");
        assert_eq!(on_disk("good"), b"good day");
        let told = bad.drain().expect_err("it cannot be written");
        assert_eq!(told.raw_os_error(), Some(errno));
        failing.files.borrow_mut().clear();
        buffer.work_once().expect("all is well");
        assert_eq!(on_disk("bad"), b"bad and more");
        assert_eq!(dirty_blocks(&buffer), 0);
        set_observer(None);
    }
}

#[test]
fn a_full_disk_is_told_at_the_write_also_in_a_hole() {
    let rig = Rig::new(4 << 20);
    let Some(disk) = SmallDisk::new(rig.directory.path()) else {
        println!("skipped: nothing can be mounted here");
        return;
    };
    let sparse = File::create(disk.path().join("sparse")).expect("create");
    sparse.set_len(1 << 20).expect("length");
    sparse.write_all_at(&[1; 4096], 0).expect("data");
    let buffer = rig.open().expect("open");
    let file = buffer.adopt(open_file(&rig.path("sparse"))).expect("adopt");
    file.sync(SyncKind::Data).expect("sync");
    let other = File::create(disk.path().join("other")).expect("create");
    let taken = (0..).take_while(|at| other.write_all_at(&[2; 4096], at * 4096).is_ok());
    let taken = taken.count() as u64;
    let refused = file.write_at(40_000, b"hole", true).expect_err("no room");
    assert_eq!(refused.raw_os_error(), Some(libc::ENOSPC));
    file.write_at(4000, b"data", true).expect("it has its room");
    other.set_len((taken - 1) * 4096).expect("a block is free");
    file.write_at(40_000, b"hole", true).expect("there is room");
    // No other writer takes it away before it is written back.
    other
        .write_all_at(&[2; 4096], taken * 4096)
        .expect_err("full");
    file.drain().expect("all of it goes");
    let found = std::fs::read(rig.path("sparse")).expect("read");
    assert_eq!(
        (&found[4000..4004], &found[40_000..40_004]),
        (&b"data"[..], &b"hole"[..])
    );
    drop((file, buffer));
}
