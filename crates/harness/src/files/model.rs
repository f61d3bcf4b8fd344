//! What was acknowledged, and what a crash may leave of it.

use super::attributes::Attributes;
use super::tree::{Kind, Tree};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// An inode of the model.
pub type Id = u64;

/// The mode that files are made with.
pub const FILE_MODE: u32 = 0o644;
/// The mode that directories are made with.
pub const DIRECTORY_MODE: u32 = 0o755;

/// What an inode must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Thing {
    /// A directory.
    Directory,
    /// A symbolic link to this.
    Link(OsString),
    /// A file.
    File(File),
}

/// A file's content: what is durable, and what it was after each change since that need not survive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    durable: Vec<u8>,
    later: Vec<Vec<u8>>,
    /// Others use it too, or may: a write is not all or nothing.
    pub is_shared: bool,
    /// A crash may leave any bytes in it.
    pub is_any: bool,
}

impl File {
    /// A file that durably holds this.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> File {
        File {
            durable: bytes,
            ..File::default()
        }
    }

    /// What readers see.
    #[must_use]
    pub fn current(&self) -> &[u8] {
        self.later.last().unwrap_or(&self.durable)
    }

    /// Something that need not survive until the next sync.
    fn change(&mut self, change: impl Fn(&mut Vec<u8>)) {
        let mut bytes = self.current().to_vec();
        change(&mut bytes);
        self.later.push(bytes);
    }

    /// Everything is durable.
    pub fn sync(&mut self) {
        if let Some(newest) = self.later.pop() {
            self.durable = newest;
            self.later.clear();
        }
    }

    /// A write; with `durable`, these bytes survive.
    pub fn write(&mut self, offset: usize, bytes: &[u8], durable: bool) {
        let put = |file: &mut Vec<u8>| {
            let end = offset + bytes.len();
            file.resize(file.len().max(end), 0);
            file[offset..end].copy_from_slice(bytes);
        };
        if durable {
            put(&mut self.durable);
            self.later.iter_mut().for_each(put);
        } else {
            self.change(put);
        }
    }

    /// Another size.
    pub fn truncate(&mut self, len: usize) {
        self.change(|bytes| bytes.resize(len, 0));
    }

    /// A hole in what there is.
    pub fn punch(&mut self, offset: usize, len: usize) {
        self.change(|bytes| {
            let end = (offset + len).min(bytes.len());
            if let Some(hole) = bytes.get_mut(offset..end) {
                hole.fill(0);
            }
        });
    }

    /// Whether a crash may leave this; the error is why not.
    fn allows(&self, found: &[u8]) -> Result<(), String> {
        if self.is_any {
            return Ok(());
        }
        let versions = || std::iter::once(&self.durable).chain(&self.later);
        if !versions().any(|version| version.len() == found.len()) {
            let sizes: Vec<usize> = versions().map(Vec::len).collect();
            return Err(format!("{} bytes, not one of {sizes:?}", found.len()));
        }
        for (at, byte) in found.iter().enumerate() {
            let fits = |version: &Vec<u8>| version.get(at).copied().unwrap_or(0) == *byte;
            if !versions().any(fits) {
                let zeroes = found[at..].iter().filter(|byte| **byte == 0).count();
                return Err(format!(
                    "byte {at} is {byte:#x}, which was never there; {zeroes} zeroes from there on"
                ));
            }
        }
        Ok(())
    }
}

/// The tree as it was acknowledged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    /// Every name.
    pub names: BTreeMap<PathBuf, Id>,
    /// What has or had a name.
    pub things: BTreeMap<Id, Thing>,
    /// Of files and directories.
    attributes: BTreeMap<Id, Attributes>,
    next: Id,
}

impl Model {
    /// What a tree holds, durably.
    #[must_use]
    pub fn of(tree: &Tree) -> Model {
        let mut model = Model::default();
        for (path, inode) in tree.paths() {
            model.names.insert(path, inode);
            let thing = match &tree.nodes[&inode].kind {
                Kind::Directory => Thing::Directory,
                Kind::Link(target) => Thing::Link(target.clone()),
                Kind::File(bytes) => Thing::File(File::new(bytes.to_vec())),
            };
            if !matches!(thing, Thing::Link(_)) {
                let is_file = matches!(thing, Thing::File(_));
                let found = Attributes::of(is_file, &tree.nodes[&inode]);
                model.attributes.insert(inode, found);
            }
            model.things.insert(inode, thing);
            model.next = model.next.max(inode + 1);
        }
        model
    }

    /// What the next new thing will be.
    #[must_use]
    pub fn next_id(&self) -> Id {
        self.next + 1
    }

    /// Makes something new under a name.
    pub fn make(&mut self, path: &Path, thing: Thing) -> Id {
        let mode = match thing {
            Thing::Directory => DIRECTORY_MODE,
            _ => FILE_MODE,
        };
        self.make_with_mode(path, thing, mode)
    }

    /// The same with a mode of its own, which a link has not.
    pub fn make_with_mode(&mut self, path: &Path, thing: Thing, mode: u32) -> Id {
        self.next = self.next_id();
        self.names.insert(path.to_path_buf(), self.next);
        if !matches!(thing, Thing::Link(_)) {
            let is_file = matches!(thing, Thing::File(_));
            let made = Attributes::new(is_file, mode, rustix::process::geteuid().as_raw());
            self.attributes.insert(self.next, made);
        }
        self.things.insert(self.next, thing);
        self.next
    }

    fn attributes(&mut self, path: &Path) -> &mut Attributes {
        let id = self.names[path];
        self.attributes.get_mut(&id).expect("it is no link")
    }

    /// A mode that need not survive until the next sync of it.
    pub fn set_mode(&mut self, path: &Path, mode: u32) {
        self.attributes(path).set_mode(mode);
    }

    /// A mode that others give it, who say nothing of it.
    pub fn others_mode(&mut self, path: &Path, mode: u32) {
        self.attributes(path).others_mode(mode);
    }

    /// A mode that is durable, unless it has set-id bits, or something else waits for a sync.
    pub fn change_mode(&mut self, path: &Path, mode: u32) {
        self.attributes(path).change_mode(mode);
    }

    /// The same of an owner.
    pub fn change_owner(&mut self, path: &Path, owner: u32) {
        self.attributes(path).change_owner(owner);
    }

    /// Another value of the extended attribute, or none; `durable` or from the next sync on.
    pub fn set_extended(&mut self, path: &Path, value: Option<Vec<u8>>, durable: bool) {
        self.attributes(path).set_extended(value, durable);
    }

    /// A capability, from the next sync on.
    pub fn give_capability(&mut self, path: &Path) {
        self.attributes(path).give_capability();
    }

    /// Whether an inode has the extended attribute.
    #[must_use]
    pub fn has_extended(&self, path: &Path) -> bool {
        self.attributes[&self.names[path]].has_extended()
    }

    /// The content of a file is changed.
    pub fn written(&mut self, id: Id) {
        if let Some(attributes) = self.attributes.get_mut(&id) {
            attributes.written();
        }
    }

    /// A change of attributes is under way.
    pub fn loosen(&mut self, path: &Path) {
        self.attributes(path).loosen();
    }

    /// All that the backing has is durable.
    pub fn backing_synced(&mut self) {
        let all = self.attributes.values_mut();
        all.for_each(Attributes::backing_synced);
    }

    /// The attributes that all have now are durable.
    pub fn sync_modes(&mut self) {
        self.attributes.values_mut().for_each(Attributes::settle);
    }

    /// The attributes that an inode has now are durable.
    pub fn sync_mode(&mut self, id: Id) {
        if let Some(attributes) = self.attributes.get_mut(&id) {
            attributes.sync();
        }
    }

    /// A file of the model.
    ///
    /// # Panics
    /// It is none.
    pub fn file(&mut self, id: Id) -> &mut File {
        match self.things.get_mut(&id) {
            Some(Thing::File(file)) => file,
            other => panic!("{id} is no file but {other:?}"),
        }
    }

    /// Whether others use a file too, or may.
    #[must_use]
    pub fn is_shared(&self, id: Id) -> bool {
        matches!(&self.things[&id], Thing::File(file) if file.is_shared)
    }

    /// What readers of a file see.
    ///
    /// # Panics
    /// It is none.
    #[must_use]
    pub fn content(&self, id: Id) -> &[u8] {
        match &self.things[&id] {
            Thing::File(file) => file.current(),
            other => panic!("{id} is no file but {other:?}"),
        }
    }

    /// What a name leads to.
    #[must_use]
    pub fn at(&self, path: &Path) -> Option<&Thing> {
        self.things.get(self.names.get(path)?)
    }

    /// Whether the path is a directory; the root is.
    #[must_use]
    pub fn is_directory(&self, path: &Path) -> bool {
        path.as_os_str().is_empty() || self.at(path) == Some(&Thing::Directory)
    }

    /// Whether there is nothing in a directory.
    #[must_use]
    pub fn is_empty(&self, directory: &Path) -> bool {
        let mut names = self.names.keys();
        !names.any(|path| path.parent() == Some(directory))
    }

    /// A name goes. Where that leaves others, the buffer may not know them.
    pub fn remove(&mut self, path: &Path) {
        let id = self.names.remove(path);
        let rest = self.names.values().any(|at| Some(*at) == id);
        if let (true, Some(Thing::File(file))) = (rest, id.and_then(|id| self.things.get_mut(&id)))
        {
            file.is_shared = true;
        }
    }

    /// The same without the names that were added since.
    #[must_use]
    pub fn with_names_of(&self, earlier: &Model) -> Model {
        let mut model = self.clone();
        model
            .names
            .retain(|path, id| earlier.names.get(path) == Some(id));
        model
    }

    /// What has no name is no more, unless it is open.
    pub fn forget_nameless(&mut self, is_open: impl Fn(Id) -> bool) {
        let Model { names, things, .. } = self;
        things.retain(|id, _| is_open(*id) || names.values().any(|named| named == id));
        self.attributes.retain(|id, _| things.contains_key(id));
    }

    /// Changes names; the caller has seen to it that it can be done.
    pub fn rename(&mut self, from: &Path, to: &Path, exchange: bool) {
        if self.names.get(from) == self.names.get(to) {
            // Two names of one file: both stay.
            return;
        }
        let one = self.take(from);
        if !exchange {
            self.remove(to);
        }
        let other = self.take(to);
        self.put(to, one);
        if exchange {
            self.put(from, other);
        }
    }

    /// Takes a name with all below it.
    fn take(&mut self, path: &Path) -> Vec<(PathBuf, Id)> {
        let all: Vec<PathBuf> = self
            .names
            .keys()
            .filter(|name| name.starts_with(path))
            .cloned()
            .collect();
        all.into_iter()
            .map(|name| {
                let id = self.names.remove(&name).expect("it was there");
                let rest = name.strip_prefix(path).expect("it is below");
                (rest.to_path_buf(), id)
            })
            .collect()
    }

    fn put(&mut self, path: &Path, all: Vec<(PathBuf, Id)>) {
        for (rest, id) in all {
            let name = match rest.as_os_str().is_empty() {
                true => path.to_path_buf(),
                false => path.join(rest),
            };
            self.names.insert(name, id);
        }
    }

    /// Whether a crash may leave this tree.
    ///
    /// # Errors
    /// It may not; the message says why.
    pub fn allows(&self, found: &Tree) -> Result<(), String> {
        let paths = found.paths();
        if let Some(path) = paths.keys().find(|path| !self.names.contains_key(*path)) {
            return Err(format!("{} should not be there", path.display()));
        }
        // Which inode is which, by the names that both have.
        let mut known: BTreeMap<Id, u64> = BTreeMap::new();
        for (path, id) in &self.names {
            let Some(inode) = paths.get(path) else {
                return Err(format!("{} is missing", path.display()));
            };
            if *known.entry(*id).or_insert(*inode) != *inode {
                return Err(format!("{} is no hard link any more", path.display()));
            }
            let right = match (&self.things[id], &found.nodes[inode].kind) {
                (Thing::Directory, Kind::Directory) => Ok(()),
                (Thing::Link(target), Kind::Link(found)) if target == found => Ok(()),
                (Thing::File(file), Kind::File(bytes)) => file.allows(bytes),
                (_, found) => Err(format!("it is {found:?}")),
            };
            right.map_err(|error| format!("{}: {error}", path.display()))?;
            let attributes = self.attributes.get(id);
            let allowed = attributes.map_or(Ok(()), |known| known.allows(&found.nodes[inode]));
            allowed.map_err(|error| format!("{}: {error}", path.display()))?;
        }
        let inodes: BTreeSet<&u64> = known.values().collect();
        match inodes.len() == known.len() {
            true => Ok(()),
            false => Err(String::from("two files have become one")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durable_bytes_are_exact_and_others_one_of_those_written() {
        let mut file = File::new(vec![1; 4]);
        file.write(2, &[2; 4], false);
        for legal in [&[1, 1, 1, 1][..], &[1, 1, 2, 2, 2, 2], &[1, 1, 2, 1, 0, 2]] {
            assert_eq!(file.allows(legal), Ok(()), "{legal:?}");
        }
        for illegal in [&[1, 1, 1][..], &[0, 1, 1, 1], &[1, 1, 2, 2, 2]] {
            assert!(file.allows(illegal).is_err(), "{illegal:?}");
        }
        file.write(0, &[3], true);
        assert!(file.allows(&[1, 1, 1, 1]).is_err());
        assert_eq!(file.allows(&[3, 1, 1, 1]), Ok(()));
        file.sync();
        assert_eq!(file.allows(&[3, 1, 2, 2, 2, 2]), Ok(()));
        assert!(file.allows(&[3, 1, 1, 1]).is_err());
    }

    #[test]
    fn a_mode_is_exact_from_its_sync_on() {
        let mut model = Model::default();
        let path = Path::new("a");
        let id = model.make(path, Thing::Directory);
        let allowed = |model: &Model| {
            let legal = |mode: &u32| model.attributes[&id].allows_mode(*mode);
            [DIRECTORY_MODE, 0o700, 0o711, 0o777]
                .iter()
                .copied()
                .filter(legal)
                .collect::<Vec<u32>>()
        };
        model.set_mode(path, 0o700);
        model.set_mode(path, 0o711);
        assert_eq!(allowed(&model), [DIRECTORY_MODE, 0o700, 0o711]);
        model.sync_mode(id);
        assert_eq!(allowed(&model), [0o711]);
    }

    #[test]
    fn directories_are_renamed_with_all_in_them() {
        let mut model = Model::default();
        model.make(Path::new("a"), Thing::Directory);
        let inner = model.make(Path::new("a/x"), Thing::File(File::default()));
        model.make(Path::new("b"), Thing::Directory);
        model.rename(Path::new("a"), Path::new("b"), true);
        assert_eq!(model.names.get(Path::new("b/x")), Some(&inner));
        assert!(model.names.contains_key(Path::new("a")));
        assert!(!model.names.contains_key(Path::new("a/x")));
    }
}
