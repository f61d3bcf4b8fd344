//! Attributes of real directories, where others are at work before a recovery or in the midst of it.

use std::cell::Cell;
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::rc::Rc;
use std::sync::Arc;

use super::real::Place;
use crate::identity::FileIdentity;
use crate::names::attributes::AttributeChange;
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
        let is_recorded = names.change(&self.dir(path), change).unwrap();
        assert!(is_recorded, "{change:?}");
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
    place.change(&names, "file", &AttributeChange::Mode(0o711));
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
    assert_eq!((place.mode("file"), place.mode("moved")), (0o600, 0o711));
    assert_eq!(
        complaints,
        ["file was renamed without us: it stays where it is"]
    );
    set_observer(None);
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
