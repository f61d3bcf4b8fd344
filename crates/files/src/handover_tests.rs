//! Files that are handed over to others: what these read and write, and what a crash makes of it.

use std::cell::{Cell, RefCell};
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use crate::facts::SyncKind;
use crate::file::BufferedFile;
use crate::identity::FileIdentity;
use crate::observe::{Observer, SeenIdentity, Synced, set_observer};
use crate::testing::{Rig, open_file};

const POOL_BYTES: u64 = 4 << 20;

/// Does something before the first sync, and says which mounting it is.
struct Watcher<'a> {
    mounting: u64,
    act: RefCell<Option<Box<dyn FnOnce() + 'a>>>,
    /// Whether the sync that is begun will fail, after which nothing does.
    is_failing: Cell<bool>,
    fails_first: bool,
    /// What was made dirty once more before the first sync.
    redirtied: Rc<RefCell<Vec<Range<u64>>>>,
}

impl Observer for Watcher<'_> {
    fn identity(&self, _: FileIdentity) -> Option<SeenIdentity> {
        None
    }

    fn mounting(&self) -> u64 {
        self.mounting
    }

    fn before_sync(&self) {
        if let Some(act) = self.act.borrow_mut().take() {
            act();
            self.is_failing.set(self.fails_first);
        }
    }

    fn failure(&self, _: FileIdentity) -> Option<io::Error> {
        self.is_failing
            .take()
            .then(|| io::Error::from_raw_os_error(libc::EIO))
    }

    fn synced(&self, _: Synced) {}

    fn redirtied(&self, _: FileIdentity, bytes: Range<u64>) {
        assert!(self.act.borrow().is_some(), "a sync came before");
        self.redirtied.borrow_mut().push(bytes);
    }
}

fn watched<T>(mounting: u64, act: impl FnOnce() + 'static, work: impl FnOnce() -> T) -> T {
    observed(mounting, false, act, work)
}

fn observed<T>(
    mounting: u64,
    fails_first: bool,
    act: impl FnOnce() + 'static,
    work: impl FnOnce() -> T,
) -> T {
    set_observer(Some(Rc::new(Watcher {
        mounting,
        act: RefCell::new(Some(Box::new(act))),
        is_failing: Cell::new(false),
        fails_first,
        redirtied: Rc::default(),
    })));
    let result = work();
    set_observer(None);
    result
}

/// What a sync does that fails: the kernel drops what it could not write, and tells once.
fn drop_pages(path: PathBuf) -> impl FnOnce() + 'static {
    move || fs::write(&path, vec![0; 10_000]).expect("write")
}

fn line(byte: u8) -> Vec<u8> {
    vec![byte; 5000]
}

/// A file that the pool has: 10,000 bytes, of which the backing has none.
fn pooled(rig: &Rig) -> Arc<BufferedFile> {
    let buffer = rig.open().expect("open");
    let file = buffer.adopt(open_file(&rig.path("file"))).expect("adopt");
    file.sync(SyncKind::Data).expect("sync");
    file.append(&line(b'a'), true).expect("append");
    file.append(&line(b'b'), true).expect("append");
    // The pool goes with the file's last handle.
    std::mem::forget(buffer);
    file
}

#[test]
fn who_does_not_wait_for_the_disk_reads_what_was_written_all_the_same() {
    for rig in Rig::each(POOL_BYTES) {
        let file = pooled(&rig);
        file.drain().expect("drain");
        // A cut that is not durable, and more behind it.
        file.truncate(3000).expect("cut");
        file.append(&line(b'c'), true).expect("append");
        let seen = Rc::new(RefCell::new(None));
        let (path, into) = (rig.path("file"), seen.clone());
        let look = move || *into.borrow_mut() = Some(fs::read(path).expect("read"));
        watched(1, look, || file.suspend().expect("suspend"));
        let expected = [&line(b'a')[..3000], &line(b'c')].concat();
        assert!(seen.take().expect("there was a sync") == expected);
        assert!(fs::read(rig.path("file")).expect("read") == expected);
    }
}

/// The pool and the files of a process that was killed at the first sync of a handing over, when others
/// had done something.
fn killed_while_handing_over(rig: Rig, others: impl FnOnce(&Rig) + 'static) -> Rig {
    let rig = Rc::new(rig);
    let file = pooled(&rig);
    let image = Rc::new(RefCell::new(None));
    let (there, into) = (rig.clone(), image.clone());
    let at_sync = move || {
        *into.borrow_mut() = Some(there.durable());
        others(&there);
    };
    watched(1, at_sync, || file.suspend().expect("suspend"));
    drop(file);
    let rig = Rc::try_unwrap(rig).ok().expect("the watcher is gone");
    rig.with_pool(image.take().expect("there was a sync"))
}

/// The file after a crash before the disk had it, with what another wrote to it meanwhile: the first 10
/// bytes, and the size.
fn crashed(rig: Rig, mounting_of_recovery: u64) -> Vec<u8> {
    let rig = killed_while_handing_over(rig, |rig| {
        let other = File::from(open_file(&rig.path("file")));
        other.write_all_at(b"other", 0).expect("write");
        other.set_len(9000).expect("cut");
    });
    let nothing = || {};
    let buffer = watched(mounting_of_recovery, nothing, || rig.open().expect("open"));
    assert_eq!(buffer.recovery().files, 1);
    let bytes = fs::read(rig.path("file")).expect("read");
    buffer.close().expect("close");
    bytes
}

#[test]
fn what_others_wrote_after_the_handing_over_is_not_written_over_after_a_kill() {
    for rig in Rig::each(POOL_BYTES) {
        let bytes = crashed(rig, 1);
        assert_eq!((&bytes[..10], bytes.len()), (&b"otheraaaaa"[..], 9000));
    }
}

#[test]
fn what_was_acknowledged_comes_back_where_the_page_cache_is_lost() {
    for rig in Rig::each(POOL_BYTES) {
        assert!(crashed(rig, 2) == [line(b'a'), line(b'b')].concat());
    }
}

/// The pool has what the page cache has dropped, whatever the next sync says.
#[test]
fn a_sync_that_fails_after_the_handing_over_loses_nothing() {
    for rig in Rig::each(POOL_BYTES) {
        let file = pooled(&rig);
        observed(1, true, drop_pages(rig.path("file")), || {
            file.suspend().expect_err("the sync fails")
        });
        // The first one may be told of the failure still.
        let again = || file.suspend().or_else(|_| file.suspend());
        watched(1, || {}, again).expect("suspend");
        assert!(fs::read(rig.path("file")).expect("read") == [line(b'a'), line(b'b')].concat());
    }
}

#[test]
fn a_sync_that_fails_at_recovery_loses_nothing_of_a_file_that_was_handed_over() {
    for rig in Rig::each(POOL_BYTES) {
        let rig = killed_while_handing_over(rig, |_| ());
        let recovered = observed(1, true, drop_pages(rig.path("file")), || rig.open());
        recovered.expect("open").close().expect("close");
        assert!(fs::read(rig.path("file")).expect("read") == [line(b'a'), line(b'b')].concat());
    }
}

/// The process was killed after the kernel had told it, and only it, that a sync had failed.
#[test]
fn a_sync_that_failed_before_a_kill_is_not_forgotten_with_the_process_that_was_told() {
    for rig in Rig::each(POOL_BYTES) {
        let rig = killed_while_handing_over(rig, |_| ());
        let redirtied = Rc::new(RefCell::new(Vec::new()));
        set_observer(Some(Rc::new(Watcher {
            mounting: 1,
            act: RefCell::new(Some(Box::new(|| {}))),
            is_failing: Cell::new(false),
            fails_first: false,
            redirtied: redirtied.clone(),
        })));
        let buffer = rig.open().expect("open");
        set_observer(None);
        // All that the pool has, in whole pages.
        assert_eq!(redirtied.take(), [0..12288]);
        buffer.close().expect("close");
        assert!(fs::read(rig.path("file")).expect("read") == [line(b'a'), line(b'b')].concat());
    }
}

/// Where the disk fails the file is the pool's again, and what is written then survives a kill.
#[test]
fn a_file_that_cannot_be_handed_over_is_taken_back() {
    for rig in Rig::each(POOL_BYTES) {
        let file = pooled(&rig);
        let backing = file.backing();
        let kept = rustix::io::dup(&*backing).expect("dup");
        let number = backing.as_raw_fd();
        // A sync of it fails from here on.
        let fail = move || replace(number, &rustix::pipe::pipe().expect("pipe").0);
        watched(1, fail, || file.suspend().expect_err("the sync fails"));
        replace(number, &kept);
        file.append(b"after", true).expect("append");
        file.write_at(0, b"newer", true).expect("write");
        drop((file, backing));
        let buffer = watched(1, || {}, || rig.open().expect("open"));
        let bytes = fs::read(rig.path("file")).expect("read");
        assert_eq!(
            (&bytes[..5], &bytes[10_000..]),
            (&b"newer"[..], &b"after"[..])
        );
        buffer.close().expect("close");
    }
}

/// The descriptor of this number stands for the other's file.
#[allow(unsafe_code, reason = "a descriptor is replaced under its owner")]
fn replace(number: i32, other: &impl AsRawFd) {
    // SAFETY: plain calls on open descriptors; the number stays open.
    assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), number) }, number);
}
