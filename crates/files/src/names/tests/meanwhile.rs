//! Others change names while the log runs: whatever they do, and at every moment, the log can be read again and says what
//! the table has, and so will the next one.

use super::attributes::ROOT;
use super::*;
use crate::names::log::Log;
use crate::names::reconcile::Outcome;
use crate::names::space::Creation;
use crate::names::table::Table;

/// What is done to the tree and the log.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Ours(Step),
    Others(Step),
    /// A next log is prepared, or the prepared one is switched to.
    Log,
}

fn any_deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        5 => any_step().prop_map(Deed::Ours),
        4 => any_step().prop_map(Deed::Others),
        1 => Just(Deed::Log),
    ]
}

impl World {
    fn path(&self, path: &str) -> (u64, PathBuf) {
        self.hold(Path::new(path))
    }

    fn make(&mut self, names: &Names<ModelSpace>, path: &str, kind: u32) {
        self.makers += 1;
        let creation = Creation {
            mode: kind | 0o700,
            user: self.makers,
            group: 0,
            device: 0,
            target: Default::default(),
        };
        let (parent, name) = self.path(path);
        let make = || self.space.make(&parent, name.as_os_str(), &creation);
        names.create(&parent, name.as_os_str(), make).unwrap();
    }

    /// As another program.
    fn others_move(&self, from: &str, to: &str) {
        let ((from, name), (to, new)) = (self.path(from), self.path(to));
        let from = (&from, name.as_os_str());
        let to = (&to, new.as_os_str());
        self.space.rename(from, to, Renaming::NoReplace).unwrap();
    }

    fn remove(&self, names: &Names<ModelSpace>, path: &str, is_directory: bool) -> io::Result<()> {
        let (parent, name) = self.path(path);
        names.remove(&parent, name.as_os_str(), is_directory)
    }

    fn rename(&self, names: &Names<ModelSpace>, from: &str, to: &str, how: Renaming) {
        let ((from, name), (to, new)) = (self.path(from), self.path(to));
        let from = (&from, name.as_os_str());
        names.rename(from, (&to, new.as_os_str()), how).unwrap();
    }

    fn acquire(&mut self, names: &Names<ModelSpace>, path: &str) {
        let uid = self.tree().find(Path::new(path)).unwrap();
        let sync = || self.space.sync_inode(&uid);
        let id = names.acquire(&uid, &sync).unwrap();
        self.held.push((id, uid));
    }

    /// Prepares the next log, or switches to it.
    fn change_log(&self, names: &Names<ModelSpace>) {
        let mut inner = names.lock();
        let Some(number) = inner.next_log.as_ref().map(|next| next.number) else {
            inner.prepare_next_log();
            return;
        };
        let now_ns = self.space.now_ns();
        let synced = self.space.sync_all();
        inner.switch_log(number, synced, now_ns).unwrap();
    }

    /// The log can be read, and says of every inode that is introduced what the table says; so will the next one.
    fn check_logs(&self, names: &Names<ModelSpace>) -> Result<(), String> {
        let inner = names.lock();
        let (_, records) = Log::open(self.area.clone()).map_err(|error| error.to_string())?;
        let mut logs = vec![("the log", records)];
        if let Some(next) = &inner.next_log {
            logs.push(("the next log", next.records.clone()));
        }
        for (which, records) in logs {
            let read = Table::replay(&records).map_err(|why| format!("{which}: {why}"))?;
            for id in &inner.introduced {
                let names_of = |table: &Table| table.node(*id).map(|node| node.names.clone());
                let (says, has) = (names_of(&read), names_of(&inner.table));
                if says != has {
                    return Err(format!("{which} says of {id} {says:?}, the table {has:?}"));
                }
            }
        }
        Ok(())
    }

    /// The power fails, all that was done is kept: nothing is where it was not before.
    fn recovers_as_it_is(&mut self) {
        let before = self.tree().shape();
        self.crash(Crash {
            after: 0,
            keep: Keep::Prefix(u16::MAX),
        });
        let (_, found) = self.recover_with_others().unwrap();
        assert_eq!(found.complaints, [""; 0]);
        assert_eq!(self.tree().shape(), before);
    }
}

/// The log knows /A and /A/B; others have made them /B and /B/A.
fn turned_around() -> (World, Names<ModelSpace>) {
    let mut world = World::new();
    let names = world.recover().unwrap();
    world.make(&names, "A", libc::S_IFDIR);
    world.make(&names, "A/B", libc::S_IFDIR);
    world.others_move("A/B", "B");
    world.others_move("A", "B/A");
    (world, names)
}

/// A name that others took from a file is in the log durably at once: a power cut must not give it back.
#[test]
fn a_place_that_others_freed_is_recorded_durably() {
    let mut world = World::new();
    let names = world.recover().unwrap();
    world.make(&names, "log", libc::S_IFREG);
    assert!(!world.area.is_synced(), "it was only added");
    world.others_move("log", "log.1");
    world.make(&names, "log", libc::S_IFREG);
    assert!(world.area.is_synced());
    world.make(&names, "other", libc::S_IFREG);
    assert!(!world.area.is_synced());
}

#[test]
fn a_directory_that_others_moved_into_its_own_is_removed_and_the_log_can_be_read() {
    let (mut world, names) = turned_around();
    world.remove(&names, "B/A", true).unwrap();
    world.check_logs(&names).unwrap();
    world.recovers_as_it_is();
    assert_eq!(world.tree().paths(true), [Path::new(""), Path::new("B")]);
}

#[test]
fn a_directory_that_others_moved_into_its_own_is_renamed_and_the_log_can_be_read() {
    let (mut world, names) = turned_around();
    world.rename(&names, "B/A", "C", Renaming::Replace);
    world.check_logs(&names).unwrap();
    world.recovers_as_it_is();
    assert!(world.tree().find(Path::new("C")).is_some());
}

#[test]
fn a_directory_goes_into_one_that_others_took_out_of_it() {
    for how in [Renaming::Replace, Renaming::Exchange] {
        let mut world = World::new();
        let names = world.recover().unwrap();
        world.make(&names, "A", libc::S_IFDIR);
        world.make(&names, "A/B", libc::S_IFDIR);
        world.make(&names, "A/B/C", libc::S_IFDIR);
        world.others_move("A/B", "B");
        let to = match how {
            Renaming::Exchange => "B/C",
            _ => "B/A",
        };
        world.rename(&names, "A", to, how);
        world.check_logs(&names).unwrap();
        world.recovers_as_it_is();
    }
}

#[test]
fn what_others_took_out_of_a_directory_that_is_gone_can_be_removed_and_kept() {
    for is_held in [false, true] {
        for logs in 0..3 {
            let mut world = World::new();
            let names = world.recover().unwrap();
            world.make(&names, "D", libc::S_IFDIR);
            world.make(&names, "D/x", libc::S_IFREG);
            if is_held {
                world.acquire(&names, "D/x");
            }
            world.others_move("D/x", "y");
            world.remove(&names, "D", true).unwrap();
            world.check_logs(&names).unwrap();
            for _ in 0..logs {
                world.change_log(&names);
                world.check_logs(&names).unwrap();
            }
            world.remove(&names, "y", false).unwrap();
            world.check_logs(&names).unwrap();
            world.change_log(&names);
            world.check_logs(&names).unwrap();
            world.held.clear();
            world.recovers_as_it_is();
            assert!(world.tree().shape().is_empty());
        }
    }
}

#[test]
fn any_name_of_what_the_next_log_had_to_learn_again_can_be_removed() {
    let mut world = World::new();
    let names = world.recover().unwrap();
    world.make(&names, "a", libc::S_IFREG);
    let subject = world.tree().find(Path::new("a")).unwrap();
    let ((parent, _), one, other) = (world.path("a"), OsStr::new("a"), OsStr::new("b"));
    let link = || world.space.link((&parent, one), &parent, other);
    names.link(&subject, &parent, other, link).unwrap();
    world.change_log(&names);
    world.rename(&names, "a", "c", Renaming::Replace);
    world.check_logs(&names).unwrap();
    world.remove(&names, "b", false).unwrap();
    world.check_logs(&names).unwrap();
    world.change_log(&names);
    world.check_logs(&names).unwrap();
    world.recovers_as_it_is();
}

#[test]
fn what_others_exchanged_is_not_removed_after_a_power_cut() {
    let mut world = World::new();
    let names = world.recover().unwrap();
    world.make(&names, "X", libc::S_IFREG);
    world.make(&names, "Y", libc::S_IFREG);
    names.checkpoint().unwrap();
    world.acquire(&names, "X");
    world.acquire(&names, "Y");
    let (first, other) = (world.held[0], world.held[1]);
    world.others_move("X", "t");
    world.others_move("Y", "X");
    world.others_move("t", "Y");
    world.rename(&names, "X", "Z", Renaming::Replace);
    world.check_logs(&names).unwrap();
    world.crash(Crash {
        after: 0,
        keep: Keep::Prefix(0),
    });
    let (_, found) = world.recover_with_others().unwrap();
    assert_eq!(world.tree().find(Path::new("X")), Some(first.1));
    assert_eq!(world.tree().find(Path::new("Z")), Some(other.1));
    // Its data is not dropped: the pool keeps it.
    let is_missing = |outcome| matches!(outcome, Outcome::Missing(_));
    assert!(is_missing(found.outcome(first.0)));
}

#[test]
fn what_left_the_pool_while_the_backing_was_synced_takes_no_room() {
    let world = World::new();
    let names = Arc::new(world.recover().unwrap());
    let acquire = |number: usize| {
        let file = world.made_by_others(ROOT, &format!("file-{number}"), libc::S_IFREG | 0o600);
        names.acquire(&file, &|| Ok(()))
    };
    let mut held = Vec::new();
    let full = loop {
        match acquire(held.len()) {
            Ok(id) => held.push(id),
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), io::ErrorKind::StorageFull, "{full}");
    let releasing = Arc::clone(&names);
    let released = held.clone();
    let on_sync = move || released.iter().for_each(|id| releasing.release(*id));
    world.space.disk.lock().unwrap().on_sync = Some(Arc::new(on_sync));
    acquire(held.len() + 1).unwrap();
    world.space.disk.lock().unwrap().on_sync = None;
}

fn live_among_others(deeds: &[Deed]) -> Result<(), TestCaseError> {
    let mut world = World::new();
    let names = world.recover().unwrap();
    for deed in deeds {
        match deed {
            Deed::Ours(step) => world.act(&names, *step).unwrap(),
            Deed::Others(step) => world.interfere(*step),
            Deed::Log => world.change_log(&names),
        }
        let checked = world.check_logs(&names);
        prop_assert!(checked.is_ok(), "after {deed:?}: {checked:?}");
    }
    world.crash(Crash {
        after: 0,
        keep: Keep::Prefix(u16::MAX),
    });
    world.recover_with_others().unwrap();
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_log_can_be_read_whatever_others_do_meanwhile(
        deeds in prop::collection::vec(any_deed(), 1..60),
    ) {
        live_among_others(&deeds)?;
    }
}
