//! Random programs, crashes at every step of them and of recovery, any part of the backing's changes
//! kept: what recovery leaves is what was acknowledged, and the operation in flight either way.

mod attributes;
mod disk;
mod golden;
mod killed;
mod meanwhile;
mod others;
mod passes;
mod power;
mod real;
mod real_attributes;
mod settled;
mod ssd;
mod swapped;
mod tree;

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::Names;
use super::attributes::AttributeChange;
use super::reconcile::Reconciled;
use super::space::{Creation, NameSpace, PRIVILEGE_BITS, Renaming};
use crate::metadata::FileId;
use disk::{Disk, Keep, ModelSpace};
use power::{Power, PoweredArea};
use tree::Tree;

/// One operation; numbers choose among what is there.
#[derive(Clone, Copy, Debug)]
struct Step {
    kind: u8,
    one: u16,
    other: u16,
    name: u8,
}

/// A crash: after so many steps, keeping this.
#[derive(Clone, Copy, Debug)]
struct Crash {
    after: u8,
    keep: Keep,
}

#[derive(Clone, Debug)]
struct Life {
    steps: Vec<Step>,
    crash: Crash,
    /// Crashes of the recovery that follows.
    recoveries: Vec<Crash>,
}

const AREA_BYTES: usize = 64 << 10;

/// Kinds of steps.
const KINDS: u8 = 19;

/// The machine: its backing and its pool.
struct World {
    space: ModelSpace,
    area: Arc<PoweredArea>,
    /// Makers of inodes have numbers: the owner of what one makes.
    makers: u32,
    /// What is relied on, with the inodes.
    held: Vec<(FileId, u64)>,
    next_id: Arc<AtomicU64>,
}

impl World {
    fn new() -> World {
        let power = Arc::new(Power::default());
        World {
            space: ModelSpace {
                disk: Arc::new(Mutex::new(Disk::new())),
                power: Arc::clone(&power),
            },
            area: Arc::new(PoweredArea::new(AREA_BYTES, power)),
            makers: 0,
            held: Vec::new(),
            next_id: Arc::new(AtomicU64::new(1)),
        }
    }

    fn tree(&self) -> Tree {
        self.space.disk.lock().unwrap().tree.clone()
    }

    fn recover(&self) -> io::Result<Names<ModelSpace>> {
        let (names, found) = self.recover_with_others()?;
        let cut_short = |complaint: &String| complaint.contains("a call that a crash cut short");
        let complaints = found
            .complaints
            .iter()
            .filter(|complaint| !cut_short(complaint));
        assert_eq!(complaints.collect::<Vec<_>>(), [""; 0]);
        Ok(names)
    }

    /// The same, where others may have changed names.
    fn recover_with_others(&self) -> io::Result<(Names<ModelSpace>, Reconciled<ModelSpace>)> {
        let next = Arc::clone(&self.next_id);
        let draw = Box::new(move || Ok(FileId(next.fetch_add(1, Ordering::Relaxed))));
        let names = Names::open(self.area.clone(), self.space.clone(), draw)?;
        let mut found = names.recover(&self.held.iter().map(|(id, _)| *id).collect())?;
        names.restrict(&mut found);
        let failed = names.restore(&mut found, &Default::default());
        if let Some(why) = failed.first().or(found.barred.values().next()) {
            return Err(io::Error::other(why.clone()));
        }
        names.begin()?;
        Ok((names, found))
    }

    fn crash(&self, crash: Crash) {
        self.space.disk.lock().unwrap().crash(crash.keep);
        self.space.power.last(None);
    }

    /// A directory and a name in it.
    fn hold(&self, path: &Path) -> (u64, PathBuf) {
        let parent = path.parent().unwrap();
        let parent = self.tree().find(parent).unwrap();
        (parent, path.file_name().unwrap().into())
    }

    fn choose(&self, directories: bool, roll: u16) -> Option<PathBuf> {
        let paths = self.tree().paths(directories);
        let count = paths.len();
        (count > 0).then(|| paths[usize::from(roll) % count].clone())
    }

    fn new_path(&self, step: Step) -> PathBuf {
        let directory = self.choose(true, step.other).unwrap();
        directory.join(["a", "b", "c", "d"][usize::from(step.name) % 4])
    }

    /// Anything that has a name but the root.
    fn any_path(&self, roll: u16) -> Option<PathBuf> {
        let paths: Vec<PathBuf> = self.tree().shape().into_keys().collect();
        let count = paths.len();
        (count > 0).then(|| paths[usize::from(roll) % count].clone())
    }

    /// Does a step; what the kernel refuses is no error.
    fn act(&mut self, names: &Names<ModelSpace>, step: Step) -> io::Result<()> {
        let outcome = self.try_to_act(names, step);
        match outcome {
            Err(error) if error.raw_os_error().is_none() => Err(error),
            _ => Ok(()),
        }
    }

    fn try_to_act(&mut self, names: &Names<ModelSpace>, step: Step) -> io::Result<()> {
        let space = self.space.clone();
        let new = self.new_path(step);
        let (parent, name) = self.hold(&new);
        let name: &OsStr = name.as_os_str();
        match step.kind % KINDS {
            kind @ 0..=4 => {
                self.makers += 1;
                let (mode, target) = match kind {
                    0 | 1 => (libc::S_IFREG | 0o600, ""),
                    2 | 3 => (libc::S_IFDIR | 0o700, ""),
                    _ => (libc::S_IFLNK | 0o777, "somewhere"),
                };
                let creation = Creation {
                    mode,
                    user: self.makers,
                    group: 0,
                    device: 0,
                    target: target.into(),
                };
                names.create(&parent, name, || space.make(&parent, name, &creation))
            }
            5 => {
                let Some(from) = self.choose(false, step.one) else {
                    return Ok(());
                };
                let subject = self.tree().find(&from).unwrap();
                let (from_parent, from_name) = self.hold(&from);
                names.link(&subject, &parent, name, || {
                    space.link((&from_parent, from_name.as_os_str()), &parent, name)
                })
            }
            kind @ 6..=8 => {
                let directory = kind == 8;
                let Some(path) = self.choose(directory, step.one) else {
                    return Ok(());
                };
                if path.as_os_str().is_empty() {
                    return Ok(());
                }
                let (parent, name) = self.hold(&path);
                names.remove(&parent, name.as_os_str(), directory)
            }
            kind @ 9..=12 => {
                let how = match kind {
                    11 => Renaming::NoReplace,
                    12 => Renaming::Exchange,
                    _ => Renaming::Replace,
                };
                let Some(from) = self.any_path(step.one) else {
                    return Ok(());
                };
                let (from_parent, from_name) = self.hold(&from);
                names.rename((&from_parent, from_name.as_os_str()), (&parent, name), how)
            }
            13 => {
                let Some(path) = self.any_path(step.one) else {
                    return Ok(());
                };
                let uid = self.tree().find(&path).unwrap();
                let id = names.acquire(&uid, &|| space.sync_inode(&uid))?;
                self.held.push((id, uid));
                Ok(())
            }
            14 => {
                if let Some((id, _)) = self.held.pop() {
                    names.release(id);
                    self.held.retain(|(held, _)| *held != id);
                }
                Ok(())
            }
            15 => names.checkpoint(),
            kind => self.change_attribute(names, step, kind),
        }
    }

    fn change_attribute(&self, names: &Names<ModelSpace>, step: Step, kind: u8) -> io::Result<()> {
        let Some(path) = self.any_path(step.one) else {
            return Ok(());
        };
        let uid = self.tree().find(&path).unwrap();
        let privileges = match step.other % 8 {
            0 => PRIVILEGE_BITS,
            _ => 0,
        };
        let mode = privileges | 0o600 | (u32::from(step.name) % 64);
        let value = vec![step.name; usize::from(step.other) % 2000];
        let name = OsStr::new(["user.one", "user.two"][usize::from(step.name) % 2]);
        let set = |name| AttributeChange::Set {
            name,
            value: &value,
            flags: rustix::fs::XattrFlags::empty(),
        };
        let change = match (kind, step.other % 4) {
            (16, _) => AttributeChange::Mode(mode),
            (17, 0) => AttributeChange::Remove(name),
            (17, _) => set(name),
            (_, roll) => AttributeChange::Owner {
                user: None,
                group: (roll == 2).then_some(u32::from(step.name)),
            },
        };
        let kind = self.tree().kind(uid);
        let had_set_id = self.has_set_id(uid);
        let is_recorded = names.change(&uid, &change)?;
        let is_off = self.space.power.is_off();
        let is_set_id = matches!(change, AttributeChange::Mode(_)) && privileges != 0;
        let is_plain = kind == libc::S_IFDIR || kind == libc::S_IFREG && !is_set_id;
        let can_seek = self.space.disk.lock().unwrap().can_seek;
        assert!(is_recorded || is_off || !is_plain || had_set_id || !can_seek);
        // What is not recorded waits for the backing.
        match is_recorded {
            true => Ok(()),
            false => self.settle(names, uid),
        }
    }

    fn has_set_id(&self, uid: u64) -> bool {
        self.space.seen(&uid).unwrap().mode & PRIVILEGE_BITS != 0
    }

    /// How the log numbers an inode.
    fn number_of(&self, uid: u64) -> (u64, u64) {
        let identity = self.space.seen(&uid).unwrap().identity;
        (identity.device, identity.inode)
    }

    /// As an fsync does.
    fn settle(&self, names: &Names<ModelSpace>, uid: u64) -> io::Result<()> {
        names.settle(self.number_of(uid), &|| self.space.sync_all())
    }

    /// What a step would make of a tree, without a power failure.
    fn after(&self, step: Step, before: &Tree) -> Tree {
        let mut disk = self.space.disk.lock().unwrap().clone();
        disk.tree = before.clone();
        let mut world = World::new();
        world.makers = self.makers_before(step);
        world.space.disk = Arc::new(Mutex::new(disk));
        let names = world.recover().unwrap();
        world.act(&names, step).unwrap();
        world.tree()
    }

    fn makers_before(&self, step: Step) -> u32 {
        self.makers - u32::from(step.kind % KINDS <= 4)
    }
}

fn live(lives: &[Life]) -> Result<(), TestCaseError> {
    let mut world = World::new();
    let mut names = world.recover().unwrap();
    for life in lives {
        world.held.clear();
        world
            .space
            .power
            .last(Some(u64::from(life.crash.after) + 1));
        let mut legal = vec![world.tree()];
        for step in &life.steps {
            let before = world.tree();
            let done = world.act(&names, *step);
            if world.space.power.is_off() {
                legal = vec![world.after(*step, &before), before];
                break;
            }
            done.unwrap();
            legal = vec![world.tree()];
        }
        world.crash(life.crash);
        for crash in &life.recoveries {
            world.space.power.last(Some(u64::from(crash.after) + 1));
            let recovered = world.recover().map(drop);
            prop_assert!(recovered.is_ok() || world.space.power.is_off());
            world.crash(*crash);
        }
        names = world.recover().unwrap();
        let found = world.tree().shape();
        let mut legal: Vec<_> = legal.iter().map(Tree::shape).collect();
        if let [after, before] = &legal[..] {
            // Of a change that was made and not recorded, what both allow.
            let common = Tree::common_rights(after, before);
            legal.push(common);
        }
        prop_assert!(legal.contains(&found), "found {found:#?}\nlegal {legal:#?}");
    }
    Ok(())
}

fn any_keep() -> impl Strategy<Value = Keep> {
    prop_oneof![
        2 => any::<u16>().prop_map(Keep::Prefix),
        1 => any::<u64>().prop_map(Keep::Subset),
    ]
}

fn any_crash(after: u8) -> impl Strategy<Value = Crash> {
    (0..after, any_keep()).prop_map(|(after, keep)| Crash { after, keep })
}

fn any_step() -> impl Strategy<Value = Step> {
    (any::<u8>(), any::<u16>(), any::<u16>(), any::<u8>()).prop_map(|(kind, one, other, name)| {
        Step {
            kind,
            one,
            other,
            name,
        }
    })
}

fn any_life() -> impl Strategy<Value = Life> {
    let steps = prop::collection::vec(any_step(), 1..24);
    let recoveries = prop::collection::vec(any_crash(24), 0..3);
    (steps, any_crash(80), recoveries).prop_map(|(steps, crash, recoveries)| Life {
        steps,
        crash,
        recoveries,
    })
}

#[test]
fn a_caller_that_meets_another_checkpoint_syncs_for_itself() {
    let mut world = World::new();
    let names = world.recover().unwrap();
    // The other one's sync may have begun already.
    names.lock().prepare_next_log();
    let made = Step {
        kind: 0,
        one: 0,
        other: 0,
        name: 0,
    };
    world.act(&names, made).unwrap();
    let tree = world.tree().shape();
    assert!(!tree.is_empty());
    names.checkpoint().unwrap();
    world.crash(Crash {
        after: 0,
        keep: Keep::Prefix(0),
    });
    assert_eq!(world.tree().shape(), tree, "it is durable in the backing");
    assert!(
        names.lock().next_log.is_some(),
        "the other one is at it still"
    );
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn names_are_what_was_acknowledged(lives in prop::collection::vec(any_life(), 1..4)) {
        live(&lives)?;
    }
}
