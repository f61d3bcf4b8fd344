//! The tree that forgets, when its power fails, changes that were not synced; as the names module sees it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::{Arc, Mutex};

use super::power::Power;
use super::tree::{Change, Entry, Inode, ROOT, Tree};
use crate::names::attributes::AttributeChange;
use crate::names::file_system::Mark;
use crate::names::proof::Proof;
use crate::names::space::{BOOT_BYTES, Creation, Identity, Mounting, NameSpace};
use crate::names::space::{Renaming, Seen, Sought};

/// Every directory has this too, and every look at it fails: a dead mount, say.
const UNSEEN: &str = "unseen";

/// Which of the changes that were not synced a crash keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Keep {
    /// The first ones, as a journaling file system does.
    Prefix(u16),
    /// Any, of which none needs one that is lost.
    Subset(u64),
}

type OnSync = Arc<dyn Fn() + Send + Sync>;

/// A tree with the part of it that is durable.
#[derive(Clone)]
pub(crate) struct Disk {
    pub(crate) tree: Tree,
    durable: Tree,
    /// What was done since the last sync, and the inodes and directories it touched.
    changes: Vec<(Change, BTreeSet<u64>, u64)>,
    next: u64,
    /// The clock of changes: it goes on by one with each, unless a test has it stand still or go back.
    pub(crate) clock: u64,
    /// Where it stood when the machine started.
    pub(crate) booted: u64,
    /// Everything that was made before is durable.
    durable_before: u64,
    /// How often it was mounted: after each crash once more.
    mounted: u64,
    /// Inodes can be found by what they are.
    pub(crate) can_seek: bool,
    /// Looking for one by what it is fails.
    pub(crate) fails_to_seek: bool,
    /// A sync of everything fails, as often as this says.
    pub(crate) failing_syncs: u64,
    /// The kernel does not tell in which mounting it is.
    pub(crate) tells_no_mounting: bool,
    /// An inode whose attributes cannot be changed.
    pub(crate) failing: Option<u64>,
    /// Called before attributes are changed.
    pub(crate) on_change: Option<OnSync>,
    /// Called before everything is synced.
    pub(crate) on_sync: Option<OnSync>,
    /// What was done, in words, since this was asked for.
    pub(crate) done: Vec<String>,
    /// Syncs of everything.
    pub(crate) syncs: u64,
}

impl Disk {
    pub(crate) fn new() -> Disk {
        Disk {
            tree: Tree::new(),
            durable: Tree::new(),
            changes: Vec::new(),
            next: ROOT + 1,
            clock: 1,
            booted: 0,
            durable_before: 0,
            mounted: 0,
            can_seek: true,
            fails_to_seek: false,
            failing_syncs: 0,
            failing: None,
            tells_no_mounting: false,
            on_change: None,
            on_sync: None,
            done: Vec::new(),
            syncs: 0,
        }
    }

    /// What a crash leaves.
    pub(crate) fn crash(&mut self, keep: Keep) {
        let mut tree = self.durable.clone();
        match keep {
            Keep::Prefix(roll) => {
                let kept = usize::from(roll) % (self.changes.len() + 1);
                for (change, _, at) in &self.changes[..kept] {
                    tree.apply_at(change, *at)
                        .expect("a prefix can be replayed");
                }
            }
            Keep::Subset(seed) => {
                let mut rng = seed;
                // Changes of one directory keep their order, and so do those of one inode.
                let mut lost: BTreeSet<u64> = BTreeSet::new();
                for (change, touched, at) in &self.changes {
                    rng = rng.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
                    let needs_lost = touched.intersection(&lost).next().is_some();
                    if needs_lost || rng >> 62 == 0 || tree.apply_at(change, *at).is_err() {
                        lost.extend(touched);
                    }
                }
            }
        }
        *self = Disk {
            durable: tree.clone(),
            tree,
            changes: Vec::new(),
            next: self.next,
            clock: self.clock,
            booted: self.clock,
            durable_before: self.next + 1,
            mounted: self.mounted + 1,
            can_seek: self.can_seek,
            fails_to_seek: self.fails_to_seek,
            failing_syncs: self.failing_syncs,
            failing: self.failing,
            tells_no_mounting: self.tells_no_mounting,
            on_change: None,
            on_sync: None,
            done: Vec::new(),
            syncs: self.syncs,
        };
    }

    /// Changes that a crash may undo.
    pub(crate) fn changes(&self) -> usize {
        self.changes.len()
    }

    fn sync(&mut self) {
        self.syncs += 1;
        self.durable = self.tree.clone();
        self.changes.clear();
        self.durable_before = self.next + 1;
    }

    fn change(&mut self, change: Change) -> io::Result<()> {
        let touched = self.tree.touched(&change);
        let done = self.tree.apply_at(&change, self.clock);
        done.map_err(io::Error::from_raw_os_error)?;
        self.done.push(format!("{change:?}"));
        self.changes.push((change, touched, self.clock));
        self.clock += 1;
        Ok(())
    }
}

/// The tree as the names module sees it.
#[derive(Clone)]
pub(crate) struct ModelSpace {
    pub(crate) disk: Arc<Mutex<Disk>>,
    pub(crate) power: Arc<Power>,
}

impl ModelSpace {
    fn seen_in(tree: &Tree, uid: u64) -> Seen {
        let inode = &tree.inodes[&uid];
        let proof = Proof::of_handle(1, &inode.generation.to_le_bytes(), None);
        Seen {
            identity: Identity {
                device: 7,
                inode: inode.number,
                proof,
            },
            mode: inode.creation.mode,
            links: tree.links(uid),
            user: inode.creation.user,
            group: inode.creation.group,
            node_device: inode.creation.device,
            made_ns: inode.made_ns,
            changed_ns: i128::from(inode.changed),
        }
    }

    fn change(&self, change: Change) -> io::Result<()> {
        self.power.step()?;
        let failing = self.disk.lock().unwrap().failing;
        let about = match &change {
            Change::Mode(uid, _) | Change::Owner(uid, ..) => Some(*uid),
            Change::Extended(uid, ..) => Some(*uid),
            _ => None,
        };
        if failing.is_some() && about == failing {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        self.disk.lock().unwrap().change(change)
    }
}

fn entry(directory: u64, name: &OsStr) -> Entry {
    (directory, name.to_os_string())
}

impl NameSpace for ModelSpace {
    type Handle = u64;

    fn root(&self) -> u64 {
        ROOT
    }

    fn seen(&self, handle: &u64) -> io::Result<Seen> {
        Ok(ModelSpace::seen_in(
            &self.disk.lock().unwrap().tree,
            *handle,
        ))
    }

    fn look(&self, directory: &u64, name: &OsStr) -> io::Result<Option<Seen>> {
        if name == UNSEEN {
            return Err(io::Error::from_raw_os_error(libc::ENOTCONN));
        }
        let disk = self.disk.lock().unwrap();
        let uid = disk.tree.entries.get(&entry(*directory, name));
        Ok(uid.map(|uid| ModelSpace::seen_in(&disk.tree, *uid)))
    }

    fn hold(&self, directory: &u64, name: &OsStr) -> io::Result<u64> {
        let disk = self.disk.lock().unwrap();
        let uid = disk.tree.entries.get(&entry(*directory, name));
        uid.copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn path(&self, handle: &u64) -> io::Result<Vec<OsString>> {
        let path = self.disk.lock().unwrap().tree.path(*handle);
        path.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn names(&self, directory: &u64, prefix: &str) -> io::Result<Vec<OsString>> {
        let disk = self.disk.lock().unwrap();
        let entries = disk.tree.entries.keys();
        Ok(entries
            .filter(|(parent, name)| {
                parent == directory && name.to_str().unwrap().starts_with(prefix)
            })
            .map(|(_, name)| name.clone())
            .chain(prefix.is_empty().then(|| UNSEEN.into()))
            .collect())
    }

    fn is_empty(&self, directory: &u64, name: &OsStr) -> io::Result<bool> {
        let held = self.hold(directory, name)?;
        Ok(self.disk.lock().unwrap().tree.is_empty(held))
    }

    fn check_removable(&self, _directory: &u64, _victim: &Seen) -> io::Result<()> {
        Ok(())
    }

    fn target(&self, directory: &u64, name: &OsStr) -> io::Result<OsString> {
        let held = self.hold(directory, name)?;
        let disk = self.disk.lock().unwrap();
        Ok(disk.tree.inodes[&held].creation.target.clone())
    }

    fn make(&self, directory: &u64, name: &OsStr, creation: &Creation) -> io::Result<()> {
        let (uid, inode) = {
            let mut disk = self.disk.lock().unwrap();
            disk.next += 1;
            let inode = Inode {
                number: disk.tree.free_number(),
                generation: disk.next,
                creation: creation.clone(),
                made_ns: i128::from(disk.next),
                extended: BTreeMap::new(),
                changed: disk.clock,
            };
            (disk.next, inode)
        };
        self.change(Change::Make(uid, inode, entry(*directory, name)))
    }

    fn change(&self, handle: &u64, change: &AttributeChange<'_>) -> io::Result<()> {
        let uid = *handle;
        let on_change = self.disk.lock().unwrap().on_change.clone();
        if let Some(on_change) = on_change {
            on_change();
        }
        self.change(match change {
            AttributeChange::Mode(mode) => Change::Mode(uid, *mode),
            AttributeChange::Owner { user, group } => {
                let seen = self.seen(handle)?;
                let user = user.unwrap_or(seen.user);
                Change::Owner(uid, user, group.unwrap_or(seen.group))
            }
            AttributeChange::Set { name, value, .. } => {
                Change::Extended(uid, name.to_os_string(), Some(value.to_vec()))
            }
            AttributeChange::Remove(name) => Change::Extended(uid, name.to_os_string(), None),
        })
    }

    fn link(&self, from: (&u64, &OsStr), directory: &u64, name: &OsStr) -> io::Result<()> {
        let uid = self.hold(from.0, from.1)?;
        self.change(Change::Link(uid, entry(*directory, name)))
    }

    fn rename(&self, from: (&u64, &OsStr), to: (&u64, &OsStr), how: Renaming) -> io::Result<()> {
        self.change(Change::Rename(
            entry(*from.0, from.1),
            entry(*to.0, to.1),
            how,
        ))
    }

    fn remove(&self, directory: &u64, name: &OsStr, _is_directory: bool) -> io::Result<()> {
        self.change(Change::Remove(entry(*directory, name)))
    }

    fn value(&self, handle: &u64, name: &OsStr) -> io::Result<Option<Vec<u8>>> {
        let disk = self.disk.lock().unwrap();
        Ok(disk.tree.inodes[handle].extended.get(name).cloned())
    }

    fn finds(&self, _: &Identity) -> bool {
        self.disk.lock().unwrap().can_seek
    }

    fn boot(&self) -> [u8; BOOT_BYTES] {
        let mounted = self.disk.lock().unwrap().mounted;
        u128::from(mounted).to_le_bytes()
    }

    fn booted_ns(&self) -> i128 {
        i128::from(self.disk.lock().unwrap().booted)
    }

    fn change_clock_ns(&self) -> i128 {
        i128::from(self.disk.lock().unwrap().clock)
    }

    fn mounting(&self, _handle: &u64) -> io::Result<Option<Mounting>> {
        let boot = [0; BOOT_BYTES];
        let disk = self.disk.lock().unwrap();
        let mount = disk.mounted;
        Ok((!disk.tells_no_mounting).then_some(Mounting { boot, mount }))
    }

    fn mark(&self, _handle: &u64) -> io::Result<Option<Mark>> {
        Ok(None)
    }

    fn seek(&self, _directory: &u64, identity: &Identity) -> io::Result<Sought<u64>> {
        let disk = self.disk.lock().unwrap();
        if disk.fails_to_seek {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        if !disk.can_seek {
            return Ok(Sought::Unknown);
        }
        let is_it = |uid: &u64| ModelSpace::seen_in(&disk.tree, *uid).identity == *identity;
        let mut named = disk.tree.entries.values();
        Ok(named
            .find(|uid| is_it(uid))
            .map_or(Sought::Nowhere, |uid| Sought::Held(*uid)))
    }

    fn is_searchable(&self) -> bool {
        true
    }

    fn sync_inode(&self, _handle: &u64) -> io::Result<()> {
        self.sync_all()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.power.step()?;
        let on_sync = self.disk.lock().unwrap().on_sync.clone();
        if let Some(on_sync) = on_sync {
            on_sync();
        }
        let mut disk = self.disk.lock().unwrap();
        if disk.failing_syncs > 0 {
            disk.failing_syncs -= 1;
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        disk.sync();
        Ok(())
    }

    fn durable_before_ns(&self) -> i128 {
        i128::from(self.disk.lock().unwrap().durable_before)
    }

    fn now_ns(&self) -> i128 {
        i128::from(self.disk.lock().unwrap().next)
    }
}
