//! Attributes of real directories, where others are at work before a recovery or in the midst of it.

use std::cell::Cell;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::rc::Rc;
use std::sync::Arc;

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use super::real::Place;
use crate::identity::FileIdentity;
use crate::names::attributes::{ACCESS_LIST, AttributeChange, DEFAULT_LIST};
use crate::names::{Names, RealSpace};
use crate::observe::{Observer, SeenIdentity, Synced, set_observer};

impl Place {
    fn mode(&self, path: &str) -> u32 {
        fs::metadata(self.path(path)).unwrap().permissions().mode() & 0o7777
    }

    fn set_mode(&self, path: &str, mode: u32) {
        fs::set_permissions(self.path(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn change(&self, names: &Names<RealSpace>, path: &str, change: &AttributeChange<'_>) {
        let applied = names.change(&self.dir(path), change);
        applied.result.unwrap();
        assert!(applied.is_recorded, "{change:?}");
    }

    /// Recovers, with `meanwhile` before the attributes are restored. Returns the complaints.
    fn restored(&self, meanwhile: impl FnOnce()) -> Vec<String> {
        let names = self.names();
        let mut found = names.recover(&HashSet::new()).unwrap();
        meanwhile();
        names.restrict(&mut found);
        assert_eq!(names.restore(&mut found, &Default::default()), [""; 0]);
        found.complaints
    }
}

/// A machine on which no time of change tells that a test has played a crash.
struct Timeless(Cell<u64>);

impl Observer for Timeless {
    fn identity(&self, _: FileIdentity) -> Option<SeenIdentity> {
        None
    }
    fn mounting(&self) -> u64 {
        self.0.get()
    }
    fn changed_ns(&self, _: FileIdentity, _: i128) -> i128 {
        0
    }
    fn before_sync(&self) {}
    fn synced(&self, _: Synced) {}
}

#[test]
fn no_other_file_gets_attributes_that_has_the_name_now() {
    let place = Place::new();
    fs::write(place.path("file"), "ours").unwrap();
    let watcher = Rc::new(Timeless(Cell::new(1)));
    set_observer(Some(watcher.clone()));
    let (names, _) = place.recover();
    place.change(&names, "file", &AttributeChange::Mode(0o4711));
    drop(names);
    watcher.0.set(2);
    place.set_mode("file", 0o600);
    let complaints = place.restored(|| {
        fs::rename(place.path("file"), place.path("moved")).unwrap();
        fs::write(place.path("file"), "another's").unwrap();
        place.set_mode("file", 0o600);
    });
    assert_eq!((place.mode("file"), place.mode("moved")), (0o600, 0o600));
    let [complaint] = &complaints[..] else {
        panic!("{complaints:?}");
    };
    assert!(
        complaint.contains("another file in its place"),
        "{complaint}"
    );
    // The next try finds it where it is.
    let complaints = place.restored(|| ());
    assert_eq!((place.mode("file"), place.mode("moved")), (0o600, 0o4711));
    assert_eq!(
        complaints,
        ["file was renamed without us: it stays where it is"]
    );
    set_observer(None);
}

/// An access list in the kernel's form: owner, one more user, group, mask and others.
fn list(user: u32) -> Vec<u8> {
    const NOBODY: u32 = u32::MAX;
    let entries: [(u16, u16, u32); 5] = [
        (0x01, 6, NOBODY),
        (0x02, 6, user),
        (0x04, 4, NOBODY),
        (0x10, 6, NOBODY),
        (0x20, 4, NOBODY),
    ];
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        bytes.extend_from_slice(&tag.to_le_bytes());
        bytes.extend_from_slice(&rights.to_le_bytes());
        bytes.extend_from_slice(&id.to_le_bytes());
    }
    bytes
}

fn list_of(place: &Place, path: &str, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 1000];
    match rustix::fs::getxattr(place.path(path), name, &mut value) {
        Ok(len) => Some(value[..len].to_vec()),
        Err(Errno::NODATA) => None,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn what_is_made_anew_has_the_access_lists_that_it_had_and_no_others() {
    let place = Place::new();
    fs::create_dir(place.path("folder")).unwrap();
    let (names, _) = place.recover();
    let make = |name: &str| {
        let path = place.path("folder").join(name);
        let make = || fs::write(&path, "");
        names
            .create(&place.dir("folder"), OsStr::new(name), make)
            .unwrap();
    };
    make("before");
    let (theirs, ours) = (list(1234), list(5678));
    let set = AttributeChange::Set {
        name: OsStr::new(DEFAULT_LIST),
        value: &theirs,
        flags: XattrFlags::empty(),
    };
    let applied = names.change(&place.dir("folder"), &set);
    if applied.result.is_err() {
        println!("skipped access lists: none here");
        return;
    }
    make("after");
    let inherited = list_of(&place, "folder/after", ACCESS_LIST).expect("inherited");
    let set = AttributeChange::Set {
        name: OsStr::new(ACCESS_LIST),
        value: &ours,
        flags: XattrFlags::empty(),
    };
    make("own");
    place.change(&names, "folder/own", &set);
    let mode = place.mode("folder/after");
    drop(names);
    // All files are lost, the folder's list is not.
    for name in ["before", "after", "own"] {
        fs::remove_file(place.path("folder").join(name)).unwrap();
    }
    assert_eq!(place.restored(|| ()), [""; 0]);
    assert_eq!(list_of(&place, "folder/before", ACCESS_LIST), None);
    assert_eq!(
        list_of(&place, "folder/after", ACCESS_LIST),
        Some(inherited)
    );
    assert_eq!(place.mode("folder/after"), mode);
    assert_eq!(list_of(&place, "folder/own", ACCESS_LIST), Some(ours));
    assert_eq!(list_of(&place, "folder", DEFAULT_LIST), Some(theirs));
}

#[test]
fn the_thread_in_the_background_ends_with_the_names() {
    let place = Place::new();
    let (names, _) = place.recover();
    let names = Arc::new(names);
    crate::names::checkpoint_in_background(&names).unwrap();
    let weak = Arc::downgrade(&names);
    drop(names);
    assert!(weak.upgrade().is_none(), "nothing keeps them");
}
