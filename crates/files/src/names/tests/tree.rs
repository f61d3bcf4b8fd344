//! A tree of names in memory, and changes of it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::names::attributes::CAPABILITY;
use crate::names::space::{Creation, KIND_BITS, PRIVILEGE_BITS, Renaming};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Inode {
    pub(super) number: u64,
    pub(super) generation: u64,
    pub(super) creation: Creation,
    pub(super) made_ns: i128,
    pub(super) extended: BTreeMap<OsString, Vec<u8>>,
    /// By the clock that counts changes.
    pub(super) changed: u64,
}

pub(super) type Entry = (u64, OsString);

#[derive(Clone, Debug)]
pub(super) enum Change {
    Make(u64, Inode, Entry),
    Link(u64, Entry),
    Rename(Entry, Entry, Renaming),
    Remove(Entry),
    Mode(u64, u32),
    Owner(u64, u32, u32),
    Extended(u64, OsString, Option<Vec<u8>>),
}

pub(super) const ROOT: u64 = 1;

/// Inodes by a number that is never used again, and which of them has which name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    pub(super) inodes: BTreeMap<u64, Inode>,
    pub(super) entries: BTreeMap<Entry, u64>,
}

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    maker: u32,
    mode: u32,
    target: OsString,
    pub(super) first_name: PathBuf,
    extended: BTreeMap<OsString, Vec<u8>>,
}

/// What every name stands for.
pub(crate) type Shape = BTreeMap<PathBuf, Look>;

impl Tree {
    pub(super) fn new() -> Tree {
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
            extended: BTreeMap::new(),
            changed: 0,
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

    pub(super) fn links(&self, inode: u64) -> u64 {
        match inode {
            ROOT => 1,
            _ => self.names_of(inode).count() as u64,
        }
    }

    pub(super) fn is_empty(&self, directory: u64) -> bool {
        !self.entries.keys().any(|(parent, _)| *parent == directory)
    }

    pub(super) fn path(&self, mut inode: u64) -> Option<Vec<OsString>> {
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

    pub(super) fn free_number(&self) -> u64 {
        let used: BTreeSet<u64> = self
            .inodes
            .iter()
            .filter(|(uid, _)| self.links(**uid) > 0)
            .map(|(_, inode)| inode.number)
            .collect();
        (3..).find(|number| !used.contains(number)).unwrap()
    }

    /// The same, and the inodes that it is about have changed then.
    pub(super) fn apply_at(&mut self, change: &Change, at: u64) -> Result<(), i32> {
        let mut touched = self.touched(change);
        self.apply(change)?;
        touched.extend(self.touched(change));
        for uid in touched {
            if let Some(inode) = self.inodes.get_mut(&uid) {
                inode.changed = at;
            }
        }
        Ok(())
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
            Change::Mode(uid, mode) => {
                let inode = self.inodes.get_mut(uid).ok_or(libc::ENOENT)?;
                if inode.creation.mode & KIND_BITS == libc::S_IFLNK {
                    return Err(libc::EOPNOTSUPP);
                }
                inode.creation.mode = inode.creation.mode & KIND_BITS | mode;
            }
            Change::Owner(uid, user, group) => {
                let inode = self.inodes.get_mut(uid).ok_or(libc::ENOENT)?;
                (inode.creation.user, inode.creation.group) = (*user, *group);
                if inode.creation.mode & KIND_BITS == libc::S_IFREG {
                    inode.creation.mode &= !PRIVILEGE_BITS;
                    inode.extended.remove(OsStr::new(CAPABILITY));
                }
            }
            Change::Extended(uid, name, value) => {
                let extended = &mut self.inodes.get_mut(uid).ok_or(libc::ENOENT)?.extended;
                match value {
                    Some(value) => drop(extended.insert(name.clone(), value.clone())),
                    None => drop(extended.remove(name).ok_or(libc::ENODATA)?),
                }
            }
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
    pub(super) fn touched(&self, change: &Change) -> BTreeSet<u64> {
        let (uid, entries) = match change {
            Change::Make(uid, _, entry) | Change::Link(uid, entry) => (Some(*uid), vec![entry]),
            Change::Rename(from, to, _) => (None, vec![from, to]),
            Change::Remove(entry) => (None, vec![entry]),
            Change::Mode(uid, ..) | Change::Owner(uid, ..) | Change::Extended(uid, ..) => {
                (Some(*uid), Vec::new())
            }
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
            let inode = self.inodes[uid].clone();
            let look = Look {
                maker: inode.creation.user,
                mode: inode.creation.mode,
                target: inode.creation.target,
                first_name: first(*uid),
                extended: inode.extended,
            };
            (path.clone(), look)
        });
        shape.collect()
    }

    /// The bits of its mode that tell what it is.
    pub(super) fn kind(&self, inode: u64) -> u32 {
        self.inodes[&inode].creation.mode & KIND_BITS
    }

    /// The first of them, with the rights that both allow, and without a capability that they do not both have.
    pub(crate) fn common_rights(one: &Shape, other: &Shape) -> Shape {
        let mut common = one.clone();
        for (path, look) in &mut common {
            let Some(other) = other.get(path) else {
                continue;
            };
            if other.mode != look.mode {
                let bits = match look.mode & KIND_BITS {
                    libc::S_IFDIR => 0o7777,
                    _ => 0o777,
                };
                look.mode = look.mode & KIND_BITS | (look.mode & other.mode & bits);
            }
            let capability = OsStr::new(CAPABILITY);
            if other.extended.get(capability) != look.extended.get(capability) {
                look.extended.remove(capability);
            }
        }
        common
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

    pub(crate) fn value(&self, inode: u64, name: &str) -> Option<Vec<u8>> {
        let extended = &self.inodes[&inode].extended;
        extended.get(OsStr::new(name)).cloned()
    }

    pub(crate) fn find(&self, path: &std::path::Path) -> Option<u64> {
        path.iter().try_fold(ROOT, |at, name| {
            self.entries.get(&(at, name.to_os_string())).copied()
        })
    }
}
