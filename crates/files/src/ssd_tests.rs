//! Files over a pool on an SSD, which never says that a block is not there: what others read, what a file is after a cut, and
//! what a pool that fails acknowledges.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use forebay_log::shadow::Fault;

use crate::buffer::FileBuffer;
use crate::facts::SyncKind;
use crate::file::BufferedFile;
use crate::identity::FileIdentity;
use crate::observe::{Observer, SeenIdentity, Synced, set_observer};
use crate::testing::{Rig, open_file};

const BLOCK: usize = 4096;

fn adopted(rig: &Rig, buffer: &Arc<FileBuffer>, name: &str) -> Arc<BufferedFile> {
    let file = buffer.adopt(open_file(&rig.path(name))).expect("adopt");
    // What it was before is durable from here on.
    file.sync(SyncKind::Data).expect("sync");
    file
}

fn read(file: &BufferedFile, len: usize) -> Vec<u8> {
    let mut out = vec![0xEE; len];
    let read = file.read_at(0, &mut out).expect("read");
    out.truncate(read);
    out
}

fn on_disk(rig: &Rig, name: &str) -> Vec<u8> {
    std::fs::read(rig.path(name)).expect("read")
}

#[test]
fn a_file_that_is_handed_over_has_the_last_bytes_that_were_synced() {
    let rig = Rig::on_ssd();
    let buffer = rig.open().expect("open");
    let file = adopted(&rig, &buffer, "file");
    for byte in [b'a', b'b'] {
        file.write_at(0, &[byte; BLOCK], false).expect("write");
        file.sync(SyncKind::Data).expect("sync");
    }
    file.suspend().expect("suspend");
    assert!(on_disk(&rig, "file") == [b'b'; BLOCK]);
    drop((file, buffer));
    drop(rig.open().expect("open"));
    assert!(on_disk(&rig, "file") == [b'b'; BLOCK]);
}

#[test]
fn a_cold_write_over_a_block_that_the_pool_has_is_read_and_survives() {
    let mut rig = Rig::on_ssd();
    rig.cold_after_bytes = 8 * BLOCK as u64;
    let buffer = rig.open().expect("open");
    let file = adopted(&rig, &buffer, "file");
    file.write_at(0, &[b'a'; BLOCK], true).expect("write");
    // So much is not worth the pool.
    let long = vec![b'-'; 9 * BLOCK];
    file.write_at(BLOCK as u64, &long, false).expect("write");
    file.write_at(10, b"newer", false).expect("write");
    let mut expected = [&[b'a'; BLOCK][..], &long].concat();
    expected[10..15].copy_from_slice(b"newer");
    assert!(read(&file, 1 << 20) == expected);
    file.sync(SyncKind::Data).expect("sync");
    assert!(read(&file, 1 << 20) == expected);
    drop((file, buffer));
    drop(rig.open().expect("open"));
    assert!(on_disk(&rig, "file") == expected);
}

#[test]
fn what_a_cut_takes_from_the_last_block_is_zero_when_the_file_grows_again() {
    let rig = Rig::on_ssd();
    let buffer = rig.open().expect("open");
    let file = adopted(&rig, &buffer, "file");
    file.write_at(0, &[b'x'; BLOCK], true).expect("write");
    file.truncate(100).expect("cut");
    file.truncate(BLOCK as u64).expect("grow");
    let expected = [&[b'x'; 100][..], &[0; BLOCK - 100]].concat();
    assert!(read(&file, 2 * BLOCK) == expected);
    drop((file, buffer));
    drop(rig.open().expect("open"));
    assert!(on_disk(&rig, "file") == expected);
}

/// Every write-back fails while it is on, or those of one file.
struct Failing {
    is_on: Cell<bool>,
    alone: Cell<Option<FileIdentity>>,
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
        let is_meant = self.alone.get().is_none_or(|alone| alone == file);
        (self.is_on.get() && is_meant).then(|| io::Error::from_raw_os_error(libc::EIO))
    }
}

/// A pool whose backing fails, and that has room for few blocks more.
struct Full {
    rig: Rig,
    buffer: Arc<FileBuffer>,
    file: Arc<BufferedFile>,
    failing: Rc<Failing>,
}

impl Full {
    /// A file with these bytes, and a pool with room for one write of two blocks more but `pairs`, and one less for each of `ones`.
    fn new(bytes: &[u8], (pairs, ones): (usize, usize)) -> Full {
        let until_full = Full::filled(bytes, usize::MAX, 0).1;
        Full::filled(bytes, until_full - pairs, ones).0
    }

    fn filled(bytes: &[u8], pairs: usize, ones: usize) -> (Full, usize) {
        set_observer(None);
        let mut rig = Rig::on_ssd();
        // Who finds no room makes none.
        rig.deadline = Duration::ZERO;
        let buffer = rig.open().expect("open");
        let file = adopted(&rig, &buffer, "file");
        let filler = adopted(&rig, &buffer, "filler");
        file.write_at(0, bytes, true).expect("write");
        filler.write_at(0, b"-", true).expect("write");
        let failing = Rc::new(Failing {
            is_on: Cell::new(true),
            alone: Cell::new(None),
        });
        set_observer(Some(failing.clone()));
        // Each elsewhere, so that all of it is to be kept.
        let mut at = 0;
        let mut fill = |blocks: usize| {
            at += 2 * BLOCK as u64;
            filler
                .write_at(at, &vec![b'-'; blocks * BLOCK], true)
                .is_ok()
        };
        let count = (0..pairs).take_while(|_| fill(2)).count();
        let _ = (0..ones).take_while(|_| fill(1)).count();
        let full = Full {
            rig,
            buffer,
            file,
            failing,
        };
        (full, count)
    }

    /// There is room: the backing takes what is not the file's.
    fn make_room(&self) {
        self.failing.alone.set(Some(self.file.identity()));
        for _ in 0..8 {
            // The file's own blocks are carried forward, which it tells.
            let _ = self.buffer.work_once();
        }
    }

    /// The directory after a kill.
    fn killed(mut self) -> Rig {
        self.rig.deadline = Duration::from_secs(10);
        self.failing.is_on.set(false);
        drop((self.file, self.buffer));
        drop(self.rig.open().expect("open"));
        set_observer(None);
        self.rig
    }
}

/// How full a pool is made.
fn fillings() -> impl Iterator<Item = (usize, usize)> {
    (0..4).flat_map(|pairs| (0..4).map(move |ones| (pairs, ones)))
}

/// False if there was no room for a cut, or for all of it.
fn cut_without_room(filling: (usize, usize)) -> bool {
    let full = Full::new(&[b'x'; 2 * BLOCK], filling);
    let file = &full.file;
    if file.truncate(0).is_ok() || file.size_bytes().expect("size") > 0 {
        return false;
    }
    // Nothing that it grows by may show what was cut away.
    assert!(file.truncate(BLOCK as u64).is_err(), "there is no room yet");
    assert!(file.write_at(5000, b"gap", false).is_err(), "neither here");
    assert!(file.truncate(0).is_err(), "it is not done yet");
    full.make_room();
    file.truncate(0).expect("there is room");
    file.truncate(2 * BLOCK as u64).expect("grow");
    assert!(read(file, 3 * BLOCK) == [0; 2 * BLOCK], "cut away");
    assert!(
        on_disk(&full.killed(), "file") == [0; 2 * BLOCK],
        "cut away"
    );
    true
}

#[test]
fn a_cut_that_found_no_room_is_finished_before_the_file_grows() {
    let cut = fillings()
        .filter(|filling| cut_without_room(*filling))
        .count();
    assert!(cut > 0, "no pool was as full as is wanted");
}

/// The first write to a segment finds no room, and the second does: then recovery must know the segment. False if there was room at
/// once.
fn first_write_without_room(filling: (usize, usize)) -> bool {
    const FAR: u64 = 1 << 30;
    let full = Full::new(b"near", filling);
    let file = &full.file;
    let is_refused = file.write_at(FAR, &[b'x'; BLOCK], true).is_err();
    full.make_room();
    file.write_at(FAR, &[b'y'; BLOCK], true)
        .expect("there is room");
    let found = File::open(full.killed().path("file")).expect("open");
    let mut out = [0; BLOCK];
    found.read_exact_at(&mut out, FAR).expect("read");
    assert!(out == [b'y'; BLOCK], "{filling:?}");
    is_refused
}

#[test]
fn a_segment_whose_first_write_found_no_room_is_known_to_recovery() {
    let refused = fillings()
        .filter(|filling| first_write_without_room(*filling))
        .count();
    assert!(refused > 0, "no pool was as full as is wanted");
}

/// Lines, each written and synced, and the device fails once on the way: what a power cut leaves then must have the last one, if
/// its sync said that it is durable. Returns whether a sync was refused.
fn synced_while_the_pool_fails(
    (fault, after): (Fault, u64),
    steps: u8,
    rng: &mut fastrand::Rng,
) -> bool {
    let mut rig = Rig::on_ssd();
    let buffer = rig.open().expect("open");
    let file = adopted(&rig, &buffer, "file");
    rig.device().fail(after, fault);
    let mut is_refused = false;
    let mut acknowledged = None;
    for step in 0..steps {
        // Each is one of these, so that the last one is any.
        let changed = match step % 3 {
            0 => file.write_at(0, &[b'a' + step; 40], false),
            1 => file.truncate(20 + u64::from(step)),
            _ => file.write_at(10, &[b'a' + step; 60], false),
        };
        let synced = changed.and_then(|()| match step % 4 {
            3 => buffer.sync_backing(),
            _ => file.sync(SyncKind::Data),
        });
        is_refused |= synced.is_err();
        acknowledged = synced.is_ok().then(|| read(&file, 100));
    }
    drop((file, buffer));
    rig.cut_power(rng);
    rig.open().expect("open").close().expect("close");
    if let Some(acknowledged) = acknowledged {
        let found = on_disk(&rig, "file");
        assert!(
            found == acknowledged,
            "{steps} steps, {fault:?} after {after}: {found:?} in place of {acknowledged:?}"
        );
    }
    is_refused
}

#[test]
fn a_sync_acknowledges_nothing_that_a_pool_that_failed_may_replay_over() {
    let mut rng = fastrand::Rng::with_seed(3);
    let mut refused = 0;
    for fault in [Fault::Error, Fault::ErrorButDurable, Fault::NoSpace] {
        for after in 0..16 {
            for steps in 1..9 {
                let is_refused = synced_while_the_pool_fails((fault, after), steps, &mut rng);
                refused += u64::from(is_refused);
            }
        }
    }
    assert!(refused > 0, "no sync met the failure");
}

#[test]
fn a_power_cut_leaves_what_was_synced_and_a_prefix_of_what_was_not() {
    let mut rng = fastrand::Rng::with_seed(5);
    let mut lost = 0;
    for synced in 0..24 {
        let mut rig = Rig::on_ssd();
        let buffer = rig.open().expect("open");
        let file = adopted(&rig, &buffer, "file");
        file.append(b"-", true).expect("append");
        let mut all = b"-".to_vec();
        for number in 0..24 {
            let line = [b'a' + number; 7];
            file.append(&line, false).expect("append");
            all.extend(line);
            if number + 1 == synced {
                file.sync(SyncKind::Data).expect("sync");
            }
        }
        drop((file, buffer));
        rig.cut_power(&mut rng);
        rig.open().expect("open").close().expect("close");
        let found = on_disk(&rig, "file");
        assert!(all.starts_with(&found), "{found:?}");
        let least = 1 + 7 * usize::from(synced);
        assert!(found.len() >= least, "{} of {least} bytes", found.len());
        assert_eq!(found.len() % 7, 1, "a write is whole or not at all");
        lost += u64::from(found.len() < all.len());
    }
    assert!(lost > 0, "no power cut took anything");
}

#[test]
fn a_flush_that_fails_is_told_to_the_sync_of_each_file() {
    let rig = Rig::on_ssd();
    let buffer = rig.open().expect("open");
    let files = ["one", "other"].map(|name| adopted(&rig, &buffer, name));
    for file in &files {
        file.append(b"-", true).expect("append");
        file.append(b"lost", false).expect("append");
    }
    rig.device().fail(0, Fault::Error);
    for file in &files {
        let synced = file.sync(SyncKind::Data);
        assert_eq!(
            synced.expect_err("it failed").raw_os_error(),
            Some(libc::EIO)
        );
    }
    assert_eq!(read(&files[0], 9), b"-lost", "it is seen all the same");
}

#[test]
fn what_is_handed_over_is_durable_in_the_pool_first() {
    let rig = Rig::on_ssd();
    let buffer = rig.open().expect("open");
    let file = adopted(&rig, &buffer, "file");
    file.append(b"synced", true).expect("append");
    file.write_at(0, b"newer!", false).expect("write");
    rig.device().fail(0, Fault::Error);
    file.suspend().expect_err("the flush failed");
    let found = on_disk(&rig, "file");
    assert!(
        found != b"newer!",
        "others have what the pool may lose: {found:?}"
    );
}
