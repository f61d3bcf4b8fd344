//! A tree of names in memory that forgets, when its power fails, changes that were not synced.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::names::file_system::Mark;
use crate::names::log::LogArea;
use crate::names::proof::Proof;
use crate::names::space::{BOOT_BYTES, Creation, Identity, KIND_BITS, Mounting, NameSpace};
use crate::names::space::{Renaming, Seen, Sought};

/// Every directory has this too, and every look at it fails: a dead mount, say.
const UNSEEN: &str = "unseen";

/// Fails everything after so many steps.
#[derive(Default)]
pub(crate) struct Power(Mutex<Option<u64>>);

impl Power {
    pub(crate) fn last(&self, steps: Option<u64>) {
        *self.0.lock().unwrap() = steps;
    }

    pub(crate) fn is_off(&self) -> bool {
        *self.0.lock().unwrap() == Some(0)
    }

    fn step(&self) -> io::Result<()> {
        match &mut *self.0.lock().unwrap() {
            None => Ok(()),
            Some(0) => Err(io::Error::other("the power is off")),
            Some(left) => {
                *left -= 1;
                match *left {
                    0 => Err(io::Error::other("the power goes off")),
                    _ => Ok(()),
                }
            }
        }
    }
}

/// Which of the changes that were not synced a crash keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Keep {
    /// The first ones, as a journaling file system does.
    Prefix(u16),
    /// Any, of which none needs one that is lost.
    Subset(u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Inode {
    number: u64,
    generation: u64,
    creation: Creation,
    made_ns: i128,
}

type Entry = (u64, OsString);

#[derive(Clone, Debug)]
enum Change {
    Make(u64, Inode, Entry),
    Link(u64, Entry),
    Rename(Entry, Entry, Renaming),
    Remove(Entry),
}

const ROOT: u64 = 1;

/// Inodes by a number that is never used again, and which of them has which name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    inodes: BTreeMap<u64, Inode>,
    entries: BTreeMap<Entry, u64>,
}

/// What a name stands for: its maker, its mode, its target, the first of its names.
pub(crate) type Shape = BTreeMap<PathBuf, (u32, u32, OsString, PathBuf)>;

impl Tree {
    fn new() -> Tree {
        let root = Inode {
            number: 2,
            generation: 0,
            creation: Creation {
                mode: libc::S_IFDIR | 0o755,
                user: 0,
                group: 0,
                device: 0,
                target: OsString::new(),
            },
            made_ns: -1,
        };
        Tree {
            inodes: BTreeMap::from([(ROOT, root)]),
            entries: BTreeMap::new(),
        }
    }

    fn is_directory(&self, inode: u64) -> bool {
        self.inodes[&inode].creation.mode & KIND_BITS == libc::S_IFDIR
    }

    fn names_of(&self, inode: u64) -> impl Iterator<Item = &Entry> {
        self.entries
            .iter()
            .filter(move |(_, at)| **at == inode)
            .map(|(entry, _)| entry)
    }

    pub(crate) fn has_name(&self, inode: u64) -> bool {
        self.links(inode) > 0
    }

    fn links(&self, inode: u64) -> u64 {
        match inode {
            ROOT => 1,
            _ => self.names_of(inode).count() as u64,
        }
    }

    fn is_empty(&self, directory: u64) -> bool {
        !self.entries.keys().any(|(parent, _)| *parent == directory)
    }

    fn path(&self, mut inode: u64) -> Option<Vec<OsString>> {
        let mut path = Vec::new();
        while inode != ROOT {
            let (parent, name) = self.names_of(inode).next()?;
            path.insert(0, name.clone());
            inode = *parent;
        }
        Some(path)
    }

    fn is_under(&self, mut inode: u64, directory: u64) -> bool {
        loop {
            if inode == directory {
                return true;
            }
            match self.names_of(inode).next() {
                Some((parent, _)) => inode = *parent,
                None => return false,
            }
        }
    }

    fn free_number(&self) -> u64 {
        let used: BTreeSet<u64> = self
            .inodes
            .iter()
            .filter(|(uid, _)| self.links(**uid) > 0)
            .map(|(_, inode)| inode.number)
            .collect();
        (3..).find(|number| !used.contains(number)).unwrap()
    }

    /// As a kernel would; the error is its number.
    fn apply(&mut self, change: &Change) -> Result<(), i32> {
        match change {
            Change::Make(uid, inode, entry) => {
                self.check_parent(entry)?;
                if self.entries.contains_key(entry) {
                    return Err(libc::EEXIST);
                }
                self.inodes.insert(*uid, inode.clone());
                self.entries.insert(entry.clone(), *uid);
            }
            Change::Link(uid, entry) => {
                self.check_parent(entry)?;
                if self.entries.contains_key(entry) {
                    return Err(libc::EEXIST);
                }
                if !self.inodes.contains_key(uid) || self.links(*uid) == 0 {
                    return Err(libc::ENOENT);
                }
                self.entries.insert(entry.clone(), *uid);
            }
            Change::Remove(entry) => {
                let uid = *self.entries.get(entry).ok_or(libc::ENOENT)?;
                if self.is_directory(uid) && !self.is_empty(uid) {
                    return Err(libc::ENOTEMPTY);
                }
                self.entries.remove(entry);
            }
            Change::Rename(from, to, how) => self.rename(from, to, *how)?,
        }
        Ok(())
    }

    fn rename(&mut self, from: &Entry, to: &Entry, how: Renaming) -> Result<(), i32> {
        let subject = *self.entries.get(from).ok_or(libc::ENOENT)?;
        self.check_parent(to)?;
        let target = self.entries.get(to).copied();
        if self.is_directory(subject) && self.is_under(to.0, subject) {
            return Err(libc::EINVAL);
        }
        match (how, target) {
            (Renaming::NoReplace, Some(_)) => return Err(libc::EEXIST),
            (Renaming::Exchange, None) => return Err(libc::ENOENT),
            (Renaming::Exchange, Some(target)) => {
                if self.is_directory(target) && self.is_under(from.0, target) {
                    return Err(libc::EINVAL);
                }
                self.entries.insert(from.clone(), target);
                self.entries.insert(to.clone(), subject);
                return Ok(());
            }
            (Renaming::Replace, Some(target)) if target == subject => return Ok(()),
            (Renaming::Replace, Some(target)) => {
                match (self.is_directory(subject), self.is_directory(target)) {
                    (true, false) => return Err(libc::ENOTDIR),
                    (false, true) => return Err(libc::EISDIR),
                    (true, true) if !self.is_empty(target) => return Err(libc::ENOTEMPTY),
                    _ => {}
                }
            }
            (_, None) => {}
        }
        self.entries.remove(from);
        self.entries.insert(to.clone(), subject);
        Ok(())
    }

    /// Directories whose names a change is about, and inodes that have those names.
    fn touched(&self, change: &Change) -> BTreeSet<u64> {
        let (uid, entries) = match change {
            Change::Make(uid, _, entry) | Change::Link(uid, entry) => (Some(*uid), vec![entry]),
            Change::Rename(from, to, _) => (None, vec![from, to]),
            Change::Remove(entry) => (None, vec![entry]),
        };
        let inodes = entries.iter().filter_map(|entry| self.entries.get(entry));
        let directories = entries.iter().map(|entry| entry.0);
        uid.into_iter()
            .chain(inodes.copied())
            .chain(directories)
            .collect()
    }

    fn check_parent(&self, entry: &Entry) -> Result<(), i32> {
        let exists = self.inodes.contains_key(&entry.0) && self.links(entry.0) > 0;
        match exists && self.is_directory(entry.0) {
            true => Ok(()),
            false => Err(libc::ENOENT),
        }
    }

    /// What it looks like to a reader.
    pub(crate) fn shape(&self) -> Shape {
        let paths: BTreeMap<PathBuf, u64> = self
            .entries
            .iter()
            .map(|((parent, name), uid)| {
                let path = self.path(*parent).expect("no names without directories");
                (path.iter().chain([name]).collect(), *uid)
            })
            .collect();
        let first = |uid| paths.iter().find(|(_, at)| **at == uid).unwrap().0.clone();
        let shape = paths.iter().map(|(path, uid)| {
            let Creation {
                user, mode, target, ..
            } = self.inodes[uid].creation.clone();
            (path.clone(), (user, mode, target, first(*uid)))
        });
        shape.collect()
    }

    /// All directories, or all else that has a name.
    pub(crate) fn paths(&self, directories: bool) -> Vec<PathBuf> {
        let wanted = |uid: u64| self.is_directory(uid) == directories;
        let mut paths: Vec<PathBuf> = self
            .shape()
            .into_keys()
            .filter(|path| wanted(self.find(path).unwrap()))
            .collect();
        if directories {
            paths.insert(0, PathBuf::new());
        }
        paths
    }

    pub(crate) fn find(&self, path: &std::path::Path) -> Option<u64> {
        path.iter().try_fold(ROOT, |at, name| {
            self.entries.get(&(at, name.to_os_string())).copied()
        })
    }
}

/// A tree with the part of it that is durable.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    pub(crate) tree: Tree,
    durable: Tree,
    /// What was done since the last sync, and the inodes and directories it touched.
    changes: Vec<(Change, BTreeSet<u64>)>,
    next: u64,
    /// Everything that was made before is durable.
    durable_before: u64,
    /// How often it was mounted: after each crash once more.
    mounted: u64,
    /// Inodes can be found by what they are.
    pub(crate) can_seek: bool,
}

impl Disk {
    pub(crate) fn new() -> Disk {
        Disk {
            tree: Tree::new(),
            durable: Tree::new(),
            changes: Vec::new(),
            next: ROOT + 1,
            durable_before: 0,
            mounted: 0,
            can_seek: true,
        }
    }

    /// What a crash leaves.
    pub(crate) fn crash(&mut self, keep: Keep) {
        let mut tree = self.durable.clone();
        match keep {
            Keep::Prefix(roll) => {
                let kept = usize::from(roll) % (self.changes.len() + 1);
                for (change, _) in &self.changes[..kept] {
                    tree.apply(change).expect("a prefix can be replayed");
                }
            }
            Keep::Subset(seed) => {
                let mut rng = seed;
                // Changes of one directory keep their order, and so do those of one inode.
                let mut lost: BTreeSet<u64> = BTreeSet::new();
                for (change, touched) in &self.changes {
                    rng = rng.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
                    let needs_lost = touched.intersection(&lost).next().is_some();
                    if needs_lost || rng >> 62 == 0 || tree.apply(change).is_err() {
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
            durable_before: self.next + 1,
            mounted: self.mounted + 1,
            can_seek: self.can_seek,
        };
    }

    fn sync(&mut self) {
        self.durable = self.tree.clone();
        self.changes.clear();
        self.durable_before = self.next + 1;
    }

    fn change(&mut self, change: Change) -> io::Result<()> {
        let touched = self.tree.touched(&change);
        let done = self.tree.apply(&change);
        done.map_err(io::Error::from_raw_os_error)?;
        self.changes.push((change, touched));
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
        }
    }

    fn change(&self, change: Change) -> io::Result<()> {
        self.power.step()?;
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
            };
            (disk.next, inode)
        };
        self.change(Change::Make(uid, inode, entry(*directory, name)))
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

    fn mounting(&self, _handle: &u64) -> io::Result<Option<Mounting>> {
        let boot = [0; BOOT_BYTES];
        let mount = self.disk.lock().unwrap().mounted;
        Ok(Some(Mounting { boot, mount }))
    }

    fn mark(&self, _handle: &u64) -> io::Result<Option<Mark>> {
        Ok(None)
    }

    fn seek(&self, _directory: &u64, identity: &Identity) -> io::Result<Sought<u64>> {
        let disk = self.disk.lock().unwrap();
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
        self.disk.lock().unwrap().sync();
        Ok(())
    }

    fn durable_before_ns(&self) -> i128 {
        i128::from(self.disk.lock().unwrap().durable_before)
    }

    fn now_ns(&self) -> i128 {
        i128::from(self.disk.lock().unwrap().next)
    }
}

/// The log's area, whose power fails with the tree's.
pub(crate) struct PoweredArea {
    pub(crate) bytes: Mutex<Vec<u8>>,
    pub(crate) power: Arc<Power>,
}

impl LogArea for PoweredArea {
    fn len_bytes(&self) -> u64 {
        self.bytes.lock().unwrap().len() as u64
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        out.copy_from_slice(&self.bytes.lock().unwrap()[offset as usize..][..out.len()]);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.power.step()?;
        self.bytes.lock().unwrap()[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn zero(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        // From the end, so that a header may stay before records that are gone.
        for start in [offset + len_bytes / 2, offset] {
            self.power.step()?;
            let len = (len_bytes / 2) as usize;
            self.bytes.lock().unwrap()[start as usize..][..len].fill(0);
        }
        Ok(())
    }
}
