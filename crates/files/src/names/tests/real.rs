//! On real directories, in which the loss of changes is played by making them undone.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::metadata::FileId;
use crate::names::log::tests::MemoryArea;
use crate::names::real::give;
use crate::names::reconcile::{Outcome, Reconciled};
use crate::names::space::Creation;
use crate::names::{Names, RealSpace, Renaming};

pub(super) struct Place {
    root: tempfile::TempDir,
    area: Arc<MemoryArea>,
    ids: Arc<AtomicU64>,
    /// Every recovery is in another boot, else all in the same.
    boots: Option<AtomicU64>,
}

impl Place {
    pub(super) fn new() -> Place {
        Place {
            root: tempfile::tempdir().unwrap(),
            area: MemoryArea::new(256 << 10),
            ids: Arc::new(AtomicU64::new(1)),
            boots: Some(AtomicU64::new(0)),
        }
    }

    /// One whose kernel loses nothing.
    fn unbroken() -> Place {
        Place {
            boots: None,
            ..Place::new()
        }
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    /// The next boot, or the one that lasts.
    pub(super) fn boot(&self) -> u64 {
        let boots = self.boots.as_ref();
        boots.map_or(0, |boots| boots.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn names(&self) -> Names<RealSpace> {
        self.names_in(self.boot(), now_ns())
    }

    /// In a boot that began at this moment.
    pub(super) fn names_in(&self, boot: u64, started_ns: i128) -> Names<RealSpace> {
        let root = open(self.root.path()).unwrap();
        let ids = Arc::clone(&self.ids);
        let draw = Box::new(move || Ok(FileId(ids.fetch_add(1, Ordering::Relaxed))));
        let space = RealSpace::of_boot(root, u128::from(boot).to_le_bytes(), started_ns);
        Names::open(self.area.clone(), space, draw).unwrap()
    }

    /// As after a crash: what was recovered, and names that may change again.
    pub(super) fn recover(&self) -> (Names<RealSpace>, Reconciled<RealSpace>) {
        let names = self.names();
        let found = names.recover(&HashSet::new()).unwrap();
        names.begin().unwrap();
        (names, found)
    }

    pub(super) fn dir(&self, path: &str) -> Arc<OwnedFd> {
        Arc::new(open(&self.path(path)).unwrap())
    }

    /// All names under the root.
    fn tree(&self) -> Vec<String> {
        fn visit(directory: &Path, root: &Path, out: &mut Vec<String>) {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                out.push(path.strip_prefix(root).unwrap().display().to_string());
                if path.is_dir() && !path.is_symlink() {
                    visit(&path, root, out);
                }
            }
        }
        let mut out = Vec::new();
        visit(self.root.path(), self.root.path(), &mut out);
        out.sort();
        out
    }
}

pub(super) fn now_ns() -> i128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.as_nanos() as i128
}

fn open(path: &Path) -> io::Result<OwnedFd> {
    Ok(fs::File::open(path)?.into())
}

fn os(name: &str) -> &OsStr {
    OsStr::new(name)
}

fn create(names: &Names<RealSpace>, place: &Place, directory: &str, name: &str) {
    let path = place.path(directory).join(name);
    let make = || fs::write(&path, name);
    names.create(&place.dir(directory), os(name), make).unwrap();
}

#[test]
fn what_the_backing_lost_is_made_anew_with_owner_mode_and_target() {
    let place = Place::new();
    let (names, _) = place.recover();
    let root = place.dir("");
    let made = || fs::create_dir(place.path("directory"));
    names.create(&root, os("directory"), made).unwrap();
    create(&names, &place, "directory", "file");
    let linked = || symlink("elsewhere", place.path("link"));
    names.create(&root, os("link"), linked).unwrap();
    fs::remove_dir_all(place.path("directory")).unwrap();
    fs::remove_file(place.path("link")).unwrap();

    let (_, found) = place.recover();
    assert_eq!(place.tree(), ["directory", "directory/file", "link"]);
    assert_eq!(found.complaints, [""; 0]);
    assert_eq!(found.made.len(), 3);
    assert_eq!(fs::read(place.path("directory/file")).unwrap(), b"");
    assert_eq!(
        fs::read_link(place.path("link")).unwrap(),
        Path::new("elsewhere")
    );
    let mode = fs::metadata(place.path("directory")).unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o755);
    // Nothing is left to do.
    assert_eq!(place.recover().1.changes, 0);
}

#[test]
fn a_rename_that_was_lost_is_done_again_and_the_victim_goes() {
    let place = Place::new();
    for name in ["old", "new"] {
        fs::write(place.path(name), name).unwrap();
    }
    let (names, _) = place.recover();
    let root = place.dir("");
    // Both names as the crash leaves them.
    fs::hard_link(place.path("old"), place.path("kept-old")).unwrap();
    fs::hard_link(place.path("new"), place.path("kept-new")).unwrap();
    let file = names.acquire(&place.dir("old"), &|| Ok(())).unwrap();
    let victim = names.acquire(&place.dir("new"), &|| Ok(())).unwrap();
    let how = Renaming::Replace;
    names
        .rename((&root, os("old")), (&root, os("new")), how)
        .unwrap();
    fs::remove_file(place.path("new")).unwrap();
    fs::rename(place.path("kept-old"), place.path("old")).unwrap();
    fs::rename(place.path("kept-new"), place.path("new")).unwrap();

    let (_, found) = place.recover();
    assert_eq!(place.tree(), ["new"]);
    assert_eq!(fs::read(place.path("new")).unwrap(), b"old");
    assert_eq!(found.outcome(file), Outcome::There);
    assert_eq!(found.outcome(victim), Outcome::Gone);
}

#[test]
fn directories_that_changed_places_lost_or_not_end_up_right() {
    for lost in [false, true] {
        let place = Place::new();
        for path in ["a", "a/inner", "b"] {
            fs::create_dir(place.path(path)).unwrap();
        }
        fs::write(place.path("a/inner/file"), "x").unwrap();
        let (names, _) = place.recover();
        let root = place.dir("");
        let how = Renaming::Exchange;
        names
            .rename((&root, os("a")), (&root, os("b")), how)
            .unwrap();
        names
            .rename(
                (&place.dir("b"), os("inner")),
                (&root, os("a2")),
                Renaming::NoReplace,
            )
            .unwrap();
        let expected = ["a", "a2", "a2/file", "b"];
        assert_eq!(place.tree(), expected);
        if lost {
            fs::rename(place.path("a2"), place.path("b/inner")).unwrap();
            fs::rename(place.path("a"), place.path("c")).unwrap();
            fs::rename(place.path("b"), place.path("a")).unwrap();
            fs::rename(place.path("c"), place.path("b")).unwrap();
        }
        let (_, found) = place.recover();
        assert_eq!(place.tree(), expected);
        // The second one is renamed twice: it is in the way of the first.
        assert_eq!(found.changes, if lost { 4 } else { 0 });
    }
}

#[test]
fn a_number_that_is_used_again_is_not_taken_for_the_inode_that_had_it() {
    let place = Place::new();
    let (names, _) = place.recover();
    let root = place.dir("");
    create(&names, &place, "", "one");
    let inode = fs::metadata(place.path("one")).unwrap().ino();
    names.remove(&root, os("one"), false).unwrap();
    // The removal was kept; then another program made a file of the same name and, where the file system
    // does so, the same number.
    fs::write(place.path("one"), "not ours").unwrap();
    let again = fs::metadata(place.path("one")).unwrap().ino() == inode;
    let (_, found) = place.recover();
    assert_eq!(
        fs::read(place.path("one")).unwrap(),
        b"not ours",
        "same: {again}"
    );
    assert_eq!(found.changes, 0);
}

#[test]
fn hard_links_that_were_lost_come_back_to_the_same_inode() {
    let place = Place::new();
    fs::write(place.path("file"), "x").unwrap();
    let (names, _) = place.recover();
    let root = place.dir("");
    let link = || fs::hard_link(place.path("file"), place.path("other"));
    names
        .link(&place.dir("file"), &root, os("other"), link)
        .unwrap();
    fs::remove_file(place.path("other")).unwrap();
    place.recover();
    let inode = |name| fs::metadata(place.path(name)).unwrap().ino();
    assert_eq!(inode("file"), inode("other"));
}

#[test]
fn an_inode_is_linked_by_who_holds_it_though_the_name_it_was_opened_by_went() {
    let place = Place::new();
    fs::write(place.path("first"), "x").unwrap();
    fs::hard_link(place.path("first"), place.path("second")).unwrap();
    let held = place.dir("first");
    let (names, _) = place.recover();
    let root = place.dir("");
    names.remove(&root, os("first"), false).unwrap();
    let link = || fs::hard_link(place.path("second"), place.path("third"));
    names.link(&held, &root, os("third"), link).unwrap();
    names.remove(&root, os("second"), false).unwrap();
    place.recover();
    assert_eq!(place.tree(), ["third"]);
}

#[test]
fn others_files_are_left_alone_and_told_of() {
    let place = Place::new();
    fs::write(place.path("ours"), "ours").unwrap();
    fs::write(place.path("kept"), "kept").unwrap();
    let (names, _) = place.recover();
    let ours = names.acquire(&place.dir("ours"), &|| Ok(())).unwrap();
    let kept = names.acquire(&place.dir("kept"), &|| Ok(())).unwrap();
    create(&names, &place, "", "made");
    fs::remove_file(place.path("ours")).unwrap();
    fs::rename(place.path("made"), place.path("elsewhere")).unwrap();
    fs::write(place.path("made"), "another's").unwrap();

    let names = place.names();
    let found = names.recover(&HashSet::new()).unwrap();
    assert_eq!(
        found.complaints,
        [
            "ours is missing: it was removed or replaced without us",
            "made was renamed without us: it stays where it is",
        ]
    );
    assert!(matches!(found.outcome(ours), Outcome::Missing(_)));
    assert_eq!(found.outcome(kept), Outcome::There);
    assert_eq!(fs::read(place.path("made")).unwrap(), b"another's");
    assert_eq!(place.tree(), ["elsewhere", "kept", "made"]);
}

/// Logs are turned over, directories move, files go, before a process recovers what the pool has of them.
fn others_at_work(place: &Place) -> [FileId; 4] {
    fs::create_dir(place.path("logs")).unwrap();
    fs::write(place.path("logs/old"), "old").unwrap();
    fs::write(place.path("gone"), "gone").unwrap();
    let (names, _) = place.recover();
    let hold = |path: &str| names.acquire(&place.dir(path), &|| Ok(())).unwrap();
    let old = hold("logs/old");
    create(&names, place, "logs", "log");
    let log = hold("logs/log");
    let gone = hold("gone");
    create(&names, place, "", "one");
    let root = place.dir("");
    let how = Renaming::NoReplace;
    names
        .rename((&root, os("one")), (&root, os("two")), how)
        .unwrap();
    let two = hold("two");
    fs::rename(place.path("logs/log"), place.path("logs/log.1")).unwrap();
    fs::write(place.path("logs/log"), "next").unwrap();
    fs::rename(place.path("logs"), place.path("moved")).unwrap();
    fs::remove_file(place.path("gone")).unwrap();
    // A name that it had before.
    fs::rename(place.path("two"), place.path("one")).unwrap();
    [old, log, gone, two]
}

#[test]
fn what_others_renamed_before_recovery_gets_its_data_where_it_is() {
    let place = Place::unbroken();
    let ids = others_at_work(&place);
    let tree = place.tree();
    let names = place.names();
    let found = names.recover(&HashSet::from(ids)).unwrap();
    assert_eq!((place.tree(), found.changes), (tree, 0));
    assert_eq!(found.complaints, [""; 0]);
    let [old, log, gone, two] = ids;
    let inode = |path: &str| Some(fs::metadata(place.path(path)).unwrap().ino());
    let held = |id| {
        let handle = found.hold(&names.space, id).unwrap()?;
        Some(RealSpace::seen_of(handle.as_fd()).unwrap().identity.inode)
    };
    assert_eq!(held(old), inode("moved/old"));
    assert_eq!(held(log), inode("moved/log.1"));
    assert_eq!(held(two), inode("one"));
    let why = String::from("gone is missing: it was removed or replaced without us");
    assert_eq!(found.outcome(gone), Outcome::Missing(why));
}

#[test]
fn after_a_power_cut_what_others_renamed_stays_too_but_for_names_that_we_gave() {
    let place = Place::new();
    let ids = others_at_work(&place);
    let names = place.names();
    let found = names.recover(&HashSet::from(ids)).unwrap();
    let expected = ["moved", "moved/log", "moved/log.1", "moved/old", "two"];
    assert_eq!(place.tree(), expected);
    assert_eq!(
        found.complaints,
        [
            "logs was renamed without us: it stays where it is",
            "gone is missing: it was removed or replaced without us",
            "logs/log was renamed without us: it stays where it is",
        ]
    );
    let [old, log, _, two] = ids;
    for (id, path) in [(old, "moved/old"), (log, "moved/log.1"), (two, "two")] {
        let handle = found.hold(&names.space, id).unwrap().unwrap();
        let inode = RealSpace::seen_of(handle.as_fd()).unwrap().identity.inode;
        assert_eq!(inode, fs::metadata(place.path(path)).unwrap().ino());
    }
}

#[test]
fn a_pool_of_another_directory_is_refused() {
    let place = Place::new();
    place.recover();
    let other = Place {
        area: Arc::clone(&place.area),
        ..Place::new()
    };
    let error = other
        .names()
        .recover(&HashSet::new())
        .map(drop)
        .unwrap_err();
    assert!(error.to_string().contains("another directory"), "{error}");
}

#[test]
fn what_the_kernel_refuses_leaves_no_trace() {
    let place = Place::new();
    fs::create_dir(place.path("full")).unwrap();
    fs::write(place.path("full/file"), "x").unwrap();
    fs::write(place.path("file"), "x").unwrap();
    let (names, _) = place.recover();
    let root = place.dir("");
    let number = |result: io::Result<()>| result.unwrap_err().raw_os_error().unwrap();
    assert_eq!(
        number(names.remove(&root, os("full"), true)),
        libc::ENOTEMPTY
    );
    assert_eq!(number(names.remove(&root, os("full"), false)), libc::EISDIR);
    assert_eq!(number(names.remove(&root, os("file"), true)), libc::ENOTDIR);
    assert_eq!(number(names.remove(&root, os("none"), false)), libc::ENOENT);
    let inside = place.dir("full");
    let how = Renaming::Replace;
    let rename = |to: (&Arc<OwnedFd>, &str), from, how| {
        number(names.rename((&root, os(from)), (to.0, os(to.1)), how))
    };
    assert_eq!(rename((&inside, "x"), "full", how), libc::EINVAL);
    assert_eq!(rename((&root, "full"), "file", how), libc::EISDIR);
    assert_eq!(rename((&root, "file"), "full", how), libc::ENOTDIR);
    let how = Renaming::NoReplace;
    assert_eq!(rename((&root, "full"), "file", how), libc::EEXIST);
    let how = Renaming::Exchange;
    assert_eq!(rename((&root, "none"), "file", how), libc::ENOENT);
    let made = names.create(&root, os("file"), || {
        fs::File::create_new(place.path("file")).map(drop)
    });
    assert_eq!(number(made), libc::EEXIST);
    assert_eq!(place.recover().1.changes, 0);
    assert_eq!(place.tree(), ["file", "full", "full/file"]);
}

#[test]
fn names_go_on_when_the_log_is_full() {
    let place = Place::new();
    fs::write(place.path("held"), "x").unwrap();
    let (names, _) = place.recover();
    let root = place.dir("");
    let held = names.acquire(&place.dir("held"), &|| Ok(())).unwrap();
    // Each round takes 240 bytes or so of a half of 128 KiB.
    for round in 0..1500 {
        let name = format!("file-{round}");
        create(&names, &place, "", &name);
        if round % 3 > 0 {
            names.remove(&root, os(&name), false).unwrap();
        }
    }
    let before = place.tree();
    assert_eq!(before.len(), 501);
    let names = place.names();
    let found = names.recover(&HashSet::new()).unwrap();
    assert_eq!(found.changes, 0);
    assert_eq!(found.outcome(held), Outcome::There);
    assert_eq!(place.tree(), before);
}

#[test]
fn what_happens_after_the_end_is_not_undone() {
    let place = Place::new();
    let (names, _) = place.recover();
    let root = place.dir("");
    create(&names, &place, "", "one");
    names.end().unwrap();
    names.remove(&root, os("one"), false).unwrap();
    create(&names, &place, "", "two");
    fs::rename(place.path("two"), place.path("three")).unwrap();
    assert_eq!(place.recover().1.changes, 0);
    assert_eq!(place.tree(), ["three"]);
}

#[test]
fn a_checkpoint_that_an_operation_overtakes_keeps_what_is_held() {
    let place = Place::new();
    fs::write(place.path("held"), "x").unwrap();
    let (names, _) = place.recover();
    let root = place.dir("");
    let held = names.acquire(&place.dir("held"), &|| Ok(())).unwrap();
    // As checkpoint() does, but for the pause in which the log fills.
    let number = names.lock().prepare_next_log();
    for round in 0..1500 {
        create(&names, &place, "", &format!("file-{round}"));
        names
            .remove(&root, os(&format!("file-{round}")), false)
            .unwrap();
    }
    assert!(names.lock().next_log.is_none(), "a caller found no room");
    let now_ns = i128::MAX;
    names.lock().switch_log(number, Ok(()), now_ns).unwrap();
    create(&names, &place, "", "last");
    let found = place.names().recover(&HashSet::new()).unwrap();
    assert_eq!(found.outcome(held), Outcome::There);
    assert_eq!(found.changes, 0);
}

#[test]
fn a_sync_that_began_before_a_log_was_prepared_does_not_begin_it() {
    let place = Place::new();
    let (names, _) = place.recover();
    // Two checkpoints that wait for their syncs; an operation that finds no room ends the first one in between.
    let first = names.lock().prepare_next_log();
    create(&names, &place, "", "before");
    names.lock().switch_log(first, Ok(()), i128::MAX).unwrap();
    create(&names, &place, "", "between");
    let second = names.lock().prepare_next_log();
    names.lock().switch_log(first, Ok(()), i128::MAX).unwrap();
    assert!(
        names.lock().next_log.is_some(),
        "the first one's sync knows nothing of it"
    );
    names.lock().switch_log(second, Ok(()), i128::MAX).unwrap();
    assert!(names.lock().next_log.is_none());
}

#[test]
fn a_log_that_is_half_full_is_begun_anew_in_the_background() {
    let place = Place::new();
    let (names, _) = place.recover();
    let names = Arc::new(names);
    crate::names::checkpoint_in_background(&names).unwrap();
    let before = names.lock().log.fill().0;
    for round in 0..100_000 {
        create(&names, &place, "", &format!("file-{round}"));
        let (used, all) = names.lock().log.fill();
        assert!(used <= all * 3 / 4, "no new log is begun");
        if used > all / 2 {
            while names.lock().log.fill().0 == used {
                std::thread::yield_now();
            }
            break;
        }
    }
    assert_eq!(names.lock().log.fill().0, before);
}

/// Another user of a directory puts a link to someone's file where recovery has just made one.
#[test]
fn what_took_the_place_of_what_recovery_made_keeps_owner_and_mode() {
    let folder = tempfile::tempdir().unwrap();
    let (secret, link) = (folder.path().join("secret"), folder.path().join("link"));
    fs::write(&secret, "").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    symlink(&secret, &link).unwrap();
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::NOFOLLOW;
    let made = rustix::fs::open(&link, flags, rustix::fs::Mode::empty()).unwrap();
    let creation = |kind| Creation {
        mode: kind | 0o666,
        user: fs::metadata(&secret).unwrap().uid(),
        group: fs::metadata(&secret).unwrap().gid(),
        device: 0,
        target: "".into(),
    };
    let error = give(made.as_fd(), &creation(libc::S_IFIFO)).unwrap_err();
    assert!(error.to_string().contains("took the place"), "{error}");
    // A link is one, and has no mode of its own.
    give(made.as_fd(), &creation(libc::S_IFLNK)).unwrap();
    assert_eq!(fs::metadata(&secret).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn directories_that_others_moved_into_each_other_leave_a_log_that_can_be_read() {
    for removes in [false, true] {
        let place = Place::new();
        let (names, _) = place.recover();
        let make = |path: &str| fs::create_dir(place.path(path));
        names.create(&place.dir(""), os("A"), || make("A")).unwrap();
        names
            .create(&place.dir("A"), os("B"), || make("A/B"))
            .unwrap();
        fs::rename(place.path("A/B"), place.path("B")).unwrap();
        fs::rename(place.path("A"), place.path("B/A")).unwrap();
        let (root, inner) = (place.dir(""), place.dir("B"));
        let left: &[&str] = match removes {
            true => {
                names.remove(&inner, os("A"), true).unwrap();
                &["B"]
            }
            false => {
                let (from, to) = ((&inner, os("A")), (&root, os("C")));
                names.rename(from, to, Renaming::Replace).unwrap();
                &["B", "C"]
            }
        };
        drop(names);
        let (_, found) = place.recover();
        assert_eq!(found.complaints, [""; 0]);
        assert_eq!(place.tree(), left);
    }
}

#[test]
fn what_others_took_out_of_a_directory_that_is_gone_leaves_a_log_that_can_be_read() {
    let place = Place::new();
    let (names, _) = place.recover();
    let root = place.dir("");
    let make = || fs::create_dir(place.path("D"));
    names.create(&root, os("D"), make).unwrap();
    create(&names, &place, "D", "x");
    fs::rename(place.path("D/x"), place.path("y")).unwrap();
    names.remove(&root, os("D"), true).unwrap();
    drop(place.names());
    names.remove(&root, os("y"), false).unwrap();
    drop(names);
    let (_, found) = place.recover();
    assert_eq!(found.complaints, [""; 0]);
    assert_eq!(place.tree(), [""; 0]);
}
