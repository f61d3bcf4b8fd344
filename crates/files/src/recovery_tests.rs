//! Files that cannot have their data, and what becomes of the others.

use std::cell::Cell;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;

use forebay::Backing;

use super::{Recovery, save_to};
use crate::buffer::FileBuffer;
use crate::facts::SyncKind;
use crate::identity::FileIdentity;
use crate::metadata::FileId;
use crate::names::AttributeChange;
use crate::naming::{Found, NamesRecovery, WithoutData};
use crate::observe::{Observer, SeenIdentity, Synced, set_observer};
use crate::segments::SegmentTable;
use crate::sizes::SizeTable;
use crate::store::VirtualStore;
use crate::testing::{Rig, SmallDisk, open_file, small_volume};

const POOL_BYTES: u64 = 4 << 20;
const LINE: &[u8] = b"acknowledged\n";

/// Writes a line to the middle of each file that the backing does not get; the pool is left as by a kill.
fn write_and_die(rig: &Rig, names: &[&str]) {
    let buffer = rig.open().expect("open");
    for name in names {
        let file = buffer.adopt(open_file(&rig.path(name))).expect("adopt");
        file.sync(SyncKind::Data).expect("sync");
        file.write_at(9000, LINE, true).expect("write");
    }
}

fn has_line(path: &Path) -> bool {
    let mut line = [0; LINE.len()];
    let read = fs::File::open(path).and_then(|file| file.read_exact_at(&mut line, 9000));
    read.is_ok() && line == LINE
}

#[test]
fn more_files_than_a_transaction_of_the_pool_has_blocks_are_recovered() {
    // The row of each lies in a block of its own.
    for (rig, count) in [(Rig::new(1 << 20), 40), (Rig::on_ssd(), 10)] {
        let names: Vec<String> = (0..count).map(|number| format!("file{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        write_and_die(&rig, &names);
        let buffer = rig.open().expect("open");
        assert_eq!(buffer.recovery().files, count);
        assert!(names.iter().all(|name| has_line(&rig.path(name))));
    }
}

/// A program of the tests', on its way until it is dropped.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().expect("kill");
        self.0.wait().expect("wait");
    }
}

fn run(path: &Path) -> Running {
    let mut command = Command::new(path);
    // It waits for a line that does not come.
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    loop {
        match command.spawn() {
            Ok(child) => return Running(child),
            // A child that another test starts has the program's descriptor until it executes its own.
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                std::thread::yield_now();
            }
            Err(error) => panic!("run: {error}"),
        }
    }
}

/// A program that begins with `cat` and ends with room for a line.
fn make_program(rig: &Rig) {
    fs::copy("/bin/cat", rig.path("program")).expect("copy");
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(rig.path("program"), mode).expect("chmod");
}

#[test]
fn a_program_that_runs_does_not_keep_the_others_from_their_data() {
    let rig = Rig::new(POOL_BYTES);
    make_program(&rig);
    fs::File::options()
        .append(true)
        .open(rig.path("program"))
        .and_then(|file| file.set_len(file.metadata()?.len() + 8192))
        .expect("longer");
    let end = fs::metadata(rig.path("program")).expect("stat").len() - 100;
    write_and_die(&rig, &["one", "two"]);
    let buffer = rig.open().expect("open");
    for name in ["program", "one", "two"] {
        let file = buffer.adopt(open_file(&rig.path(name))).expect("adopt");
        file.sync(SyncKind::Data).expect("sync");
        let offset = if name == "program" { end } else { 9000 };
        file.write_at(offset, LINE, true).expect("write");
    }
    drop(buffer);
    let running = run(&rig.path("program"));
    for _ in 0..2 {
        let text = rig.open().expect_err("refused").to_string();
        assert!(text.starts_with("program: "), "{text}");
        assert!(text.contains("end the programs"), "{text}");
        assert!(text.contains("forebay recover --save-lost"), "{text}");
    }
    assert!(has_line(&rig.path("one")) && has_line(&rig.path("two")));
    drop(running);
    let buffer = rig.open().expect("it ended");
    assert_eq!(buffer.recovery().files, 1);
    let mut line = [0; LINE.len()];
    let program = fs::File::open(rig.path("program")).expect("open");
    program.read_exact_at(&mut line, end).expect("read");
    assert_eq!(line, *LINE);
}

#[test]
fn a_file_that_there_is_no_room_for_does_not_keep_the_others_from_their_data() {
    let rig = Rig::new(POOL_BYTES);
    let small = rig.path("small");
    fs::create_dir(&small).expect("mkdir");
    let Some(_mounted) = SmallDisk::new(&small) else {
        println!("skipped a_file_that_there_is_no_room_for: needs root");
        return;
    };
    let hole = fs::File::create(small.join("hole")).expect("create");
    hole.set_len(64 << 10).expect("longer");
    write_and_die(&rig, &["before", "small/hole", "behind"]);
    // Another program gives the reserved room away.
    let len_bytes = hole.metadata().expect("it is there").len();
    hole.set_len(0).expect("cut");
    hole.set_len(len_bytes).expect("longer");
    let filler = small.join("filler");
    fs::write(&filler, vec![1; 2 << 20]).expect_err("full");
    for _ in 0..2 {
        let text = rig.open().expect_err("refused").to_string();
        assert!(text.starts_with("small/hole: "), "{text}");
        assert!(text.contains("make room"), "{text}");
        assert!(has_line(&rig.path("before")) && has_line(&rig.path("behind")));
        assert!(!has_line(&small.join("hole")));
    }
    fs::remove_file(filler).expect("remove");
    let buffer = rig.open().expect("there is room");
    assert_eq!(buffer.recovery().files, 1);
    assert!(has_line(&small.join("hole")));
}

#[test]
fn data_without_room_is_saved_beside_the_pool_if_that_is_wanted() {
    let rig = Rig::new(POOL_BYTES);
    let small = rig.path("small");
    fs::create_dir(&small).expect("mkdir");
    let Some(_mounted) = SmallDisk::new(&small) else {
        println!("skipped data_without_room_is_saved: needs root");
        return;
    };
    let hole = fs::File::create(small.join("hole")).expect("create");
    hole.set_len(64 << 10).expect("longer");
    write_and_die(&rig, &["before", "small/hole", "behind"]);
    hole.set_len(0).expect("cut");
    hole.set_len(64 << 10).expect("longer");
    fs::write(small.join("filler"), vec![1; 2 << 20]).expect_err("full");
    let mut parts = rig.parts();
    parts.runtime = parts.runtime.accept_loss(true);
    let buffer = FileBuffer::open_on(parts).expect("with force");
    let saved = buffer.recovery().saved_to.clone();
    let has_its_line = saved.iter().all(|path| has_line(path));
    saved
        .iter()
        .for_each(|path| fs::remove_file(path).expect("remove"));
    assert!(saved.len() == 1 && has_its_line, "{saved:?}");
    assert!(has_line(&rig.path("before")) && has_line(&rig.path("behind")));
    assert!(!has_line(&small.join("hole")));
    drop(buffer);
    let buffer = rig.open().expect("nothing is left");
    assert_eq!(buffer.recovery().files, 0);
}

#[test]
fn a_protected_file_does_not_keep_the_others_from_their_data() {
    use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
    let rig = Rig::new(POOL_BYTES);
    write_and_die(&rig, &["before", "protected", "behind"]);
    let file = fs::File::open(rig.path("protected")).expect("open");
    let flags = ioctl_getflags(&file);
    let protected = flags.and_then(|flags| {
        ioctl_setflags(&file, flags | IFlags::APPEND)?;
        Ok(flags)
    });
    let Ok(flags) = protected else {
        println!("skipped a_protected_file: no append-only files here");
        return;
    };
    let text = rig.open().map(drop);
    ioctl_setflags(&file, flags).expect("as it was");
    let text = text.expect_err("refused").to_string();
    assert!(text.starts_with("protected: the pool has"), "{text}");
    assert!(
        text.contains("; take away what protects it (chattr -ai) and"),
        "{text}"
    );
    assert!(has_line(&rig.path("before")) && has_line(&rig.path("behind")));
    let buffer = rig.open().expect("it may be written");
    assert_eq!(buffer.recovery().files, 1);
    assert!(has_line(&rig.path("protected")));
}

/// The greatest size that a file of this directory can have.
fn size_max(rig: &Rig) -> u64 {
    let file = fs::File::create(rig.path("probe")).expect("create");
    let (mut fits, mut too_large) = (0, i64::MAX as u64);
    while fits + 1 < too_large {
        let size_bytes = fits + (too_large - fits) / 2;
        match file.set_len(size_bytes) {
            Ok(()) => fits = size_bytes,
            Err(_) => too_large = size_bytes,
        }
    }
    fits
}

#[test]
fn a_write_behind_what_the_backing_can_hold_is_refused() {
    let rig = Rig::new(POOL_BYTES);
    let size_max = size_max(&rig);
    if size_max > 1 << 60 {
        println!("skipped a_write_behind_what_the_backing_can_hold: nothing is too large here");
        return;
    }
    let buffer = rig.open().expect("open");
    let file = buffer.adopt(open_file(&rig.path("file"))).expect("adopt");
    file.sync(SyncKind::Data).expect("sync");
    for durable in [true, false] {
        let refused = file.write_at(size_max, b"x", durable).expect_err("refused");
        assert_eq!(refused.raw_os_error(), Some(libc::EFBIG));
    }
    let refused = file.truncate(size_max + 1).expect_err("refused");
    assert_eq!(refused.raw_os_error(), Some(libc::EFBIG));
    assert_eq!(file.size_bytes().expect("size"), 0);
    file.write_at(size_max - 1, b"x", true)
        .expect("the last byte");
    drop((file, buffer));
    let buffer = rig.open().expect("recover");
    assert_eq!(buffer.recovery().files, 1);
    assert_eq!(
        fs::metadata(rig.path("file")).expect("stat").len(),
        size_max
    );
}

#[test]
fn saved_data_is_for_its_owner_only_and_in_no_other_users_file() {
    let place = tempfile::tempdir().expect("a directory");
    let pool = place.path().join("pool");
    let (path, _) = save_to(&pool, FileId(7)).expect("save");
    assert_eq!(path, place.path().join("pool.lost-7"));
    let mode = fs::metadata(&path).expect("stat").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    save_to(&pool, FileId(7)).expect("again, after a crash");
    fs::write(place.path().join("victim"), "theirs").expect("write");
    symlink(
        place.path().join("victim"),
        place.path().join("pool.lost-8"),
    )
    .expect("symlink");
    let text = save_to(&pool, FileId(8)).expect_err("a trap").to_string();
    assert!(text.contains("pool.lost-8"), "{text}");
    fs::write(place.path().join("pool.lost-9"), "open to all").expect("write");
    let text = save_to(&pool, FileId(9)).expect_err("a trap").to_string();
    assert!(text.contains("move it away"), "{text}");
}

/// A backing that loses what was not synced, and fails what is written to one file.
#[derive(Default)]
struct Lossy {
    losses: Cell<u64>,
    failing: Cell<Option<FileIdentity>>,
}

impl Observer for Lossy {
    fn identity(&self, _real: FileIdentity) -> Option<SeenIdentity> {
        None
    }
    fn mounting(&self) -> u64 {
        self.losses.get()
    }
    fn changed_ns(&self, _real: FileIdentity, real_ns: i128) -> i128 {
        // What the test undoes is a loss, no change of others.
        if self.losses.get() == 0 { real_ns } else { 0 }
    }
    fn before_sync(&self) {}
    fn synced(&self, _what: Synced) {}
    fn failure(&self, file: FileIdentity) -> Option<io::Error> {
        let fails = self.failing.get() == Some(file);
        fails.then(|| io::Error::from_raw_os_error(libc::EIO))
    }
}

#[test]
fn a_file_whose_data_is_saved_elsewhere_does_not_get_the_rights_that_were_given_to_it() {
    let rig = Rig::new(POOL_BYTES);
    let lossy = Rc::new(Lossy::default());
    set_observer(Some(lossy.clone()));
    let narrow = || fs::Permissions::from_mode(0o600);
    for name in ["bad", "good"] {
        fs::write(rig.path(name), "secret").expect("write");
        fs::set_permissions(rig.path(name), narrow()).expect("chmod");
    }
    let buffer = rig.open().expect("open");
    for name in ["bad", "good"] {
        let file = buffer.adopt(open_file(&rig.path(name))).expect("adopt");
        let wide = AttributeChange::Mode(0o644);
        file.sync(SyncKind::Data).expect("sync");
        file.write_at(9000, LINE, true).expect("write");
        let changed = buffer.change_attributes(&*file.backing(), &wide);
        changed.expect("chmod");
    }
    drop(buffer);
    for name in ["bad", "good"] {
        fs::set_permissions(rig.path(name), narrow()).expect("chmod");
    }
    lossy.losses.set(1);
    let bad = FileIdentity::of(fs::File::open(rig.path("bad")).expect("open"));
    lossy.failing.set(Some(bad.expect("stat")));
    let mut parts = rig.parts();
    parts.runtime = parts.runtime.accept_loss(true);
    let buffer = FileBuffer::open_on(parts).expect("with force");
    let recovery = buffer.recovery();
    for path in &recovery.saved_to {
        fs::remove_file(path).expect("remove");
    }
    assert_eq!((recovery.saved_to.len(), recovery.attributes_left), (1, 1));
    let complaint = &recovery.complaints[0];
    assert!(complaint.starts_with("bad: "), "{complaint}");
    let mode = |name| {
        let metadata = fs::metadata(rig.path(name)).expect("stat");
        metadata.permissions().mode() & 0o7777
    };
    assert_eq!((mode("bad"), mode("good")), (0o600, 0o644));
    drop(buffer);
    set_observer(None);
}

/// Names that fail in one call.
struct FailingNames {
    call: &'static str,
    rests: u32,
}

impl FailingNames {
    fn does(&self, call: &str) -> io::Result<()> {
        match call == self.call {
            true => Err(io::Error::other("it fails")),
            false => Ok(()),
        }
    }
}

impl NamesRecovery for FailingNames {
    fn recover(&mut self, _with_data: &HashSet<FileId>) -> io::Result<()> {
        self.does("recover")
    }
    fn open(&mut self, _id: FileId) -> io::Result<Found> {
        Ok(Found::Removed)
    }
    fn name(&self, _id: FileId) -> String {
        String::new()
    }
    fn restore(&mut self, _without: &WithoutData, _gives_up: bool) -> io::Result<()> {
        self.does("restore")
    }
    fn rest(&mut self) -> io::Result<()> {
        self.rests += 1;
        Ok(())
    }
    fn finish(&mut self) -> io::Result<()> {
        self.does("finish")
    }
}

#[test]
fn a_try_ends_whatever_fails() {
    for (call, rests) in [("recover", 1), ("restore", 1), ("finish", 1), ("none", 0)] {
        let (_pool, volume) = small_volume();
        let side = Backing::memory(1 << 20);
        let store = VirtualStore::new("files:".into(), side, None, 4096).expect("store");
        let (sizes, rows) = SizeTable::open(&volume).expect("sizes");
        let (segments, owned) = SegmentTable::open(&volume).expect("segments");
        let mut names = FailingNames { call, rests: 0 };
        let recovered = Recovery {
            volume: &volume,
            store: &Arc::new(store),
            sizes: &sizes,
            segments: &segments,
            rows,
            owned,
            lost_and_found: None,
        }
        .run(&mut names);
        assert_eq!(
            (recovered.is_err(), names.rests),
            (rests > 0, rests),
            "{call}"
        );
    }
}
