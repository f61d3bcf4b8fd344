//! What a log says in the end: which inode has which names, and every name that any inode ever had
//! while the log ran, for that is where a crash may have left it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use super::file_system::Mark;
use super::media::Record;
use super::space::{Creation, Identity, Mounting, Place};
use crate::metadata::FileId;

impl FileId {
    /// The directory that all others are under; never drawn.
    pub(crate) const ROOT: FileId = FileId(u64::MAX);
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What is known of an inode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Node {
    /// Kind and permissions as they were first seen.
    pub mode: u32,
    /// The newest last: a lost inode that was made anew has several.
    pub identities: Vec<Identity>,
    /// It was made while the log ran, so the backing may have lost it.
    pub creation: Option<Creation>,
    /// Its names in the end.
    pub names: BTreeSet<Place>,
    /// All its names ever.
    pub mentioned: BTreeSet<Place>,
    /// Another program took its name: where it is now is not known here.
    pub displaced: bool,
}

impl Node {
    /// Its last identity.
    pub(crate) fn identity(&self) -> Identity {
        *self.identities.last().expect("a node has an identity")
    }
}

/// Inodes and names.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Table {
    nodes: BTreeMap<FileId, Node>,
    places: HashMap<Place, FileId>,
    by_inode: HashMap<(u64, u64), FileId>,
    /// Recovery may have left staged names.
    pub(crate) reconciling: bool,
    /// In which mounting of each device all of it was done.
    pub(crate) mountings: BTreeMap<u64, Mounting>,
    /// Which file system each device is.
    pub(crate) marks: BTreeMap<u64, Mark>,
}

impl Table {
    /// The inode, if the log knows it.
    pub(crate) fn node(&self, id: FileId) -> Option<&Node> {
        self.nodes.get(&id)
    }

    /// All inodes.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (FileId, &Node)> {
        self.nodes.iter().map(|(id, node)| (*id, node))
    }

    /// The inode that has the name in the end.
    pub(crate) fn at(&self, place: &Place) -> Option<FileId> {
        self.places.get(place).copied()
    }

    /// The inode of this identity.
    pub(crate) fn find(&self, identity: &Identity) -> Option<FileId> {
        let id = *self.by_inode.get(&(identity.device, identity.inode))?;
        (self.nodes[&id].identity().proof == identity.proof).then_some(id)
    }

    /// Whether an inode is the directory or in it, however deep.
    pub(crate) fn is_under(&self, mut id: FileId, directory: FileId) -> bool {
        // A damaged log may have a circle in it.
        for _ in 0..=self.nodes.len() {
            if id == directory {
                return true;
            }
            match self.nodes.get(&id).and_then(|node| node.names.first()) {
                Some(place) => id = place.parent,
                None => return false,
            }
        }
        true
    }

    /// Forgets an inode without names.
    pub(crate) fn forget(&mut self, id: FileId) {
        let Some(node) = self.nodes.remove(&id) else {
            return;
        };
        for place in &node.names {
            self.places.remove(place);
        }
        let identity = node.identity();
        let key = (identity.device, identity.inode);
        if self.by_inode.get(&key) == Some(&id) {
            self.by_inode.remove(&key);
        }
    }

    /// Why a record must not be appended: the log could not be read any more, or said that a directory is in itself. The
    /// records of one append are checked each by itself, so none may rely on another of them but for what the table has
    /// already.
    pub(crate) fn check(&self, record: &Record) -> Result<(), String> {
        match record {
            Record::Introduce { id, place, .. } | Record::Create { id, place, .. } => {
                self.check_circle(*id, place)
            }
            Record::Link { id, place } => {
                self.check_known(*id)?;
                self.check_circle(*id, place)
            }
            Record::Unlink { id, place } => self.check_named(*id, place),
            Record::Rename { id, from, to } => {
                self.check_circle(*id, to)?;
                self.check_named(*id, from)
            }
            Record::Exchange { one, other } => {
                let (first, second) = self.check_exchange(one, other)?;
                self.check_named(first, one)?;
                self.check_named(second, other)
            }
            Record::Remade { id, .. } => self.check_known(*id),
            // It is about the record before, which the table has not learned.
            Record::Abort
            | Record::Reconciling
            | Record::Mounted { .. }
            | Record::FileSystem { .. } => Ok(()),
        }
    }

    /// What the record says becomes so. The error is why it cannot be: none where [`Table::check`] found none.
    pub(crate) fn apply(&mut self, record: &Record) -> Result<(), String> {
        match record {
            Record::Introduce {
                id,
                mode,
                identity,
                place,
            } => {
                self.appear(*id, *mode, *identity, None);
                self.name(*id, place);
            }
            Record::Create {
                id,
                identity,
                creation,
                place,
            } => {
                let mode = creation.mode;
                self.appear(*id, mode, *identity, Some(creation.clone()));
                self.name(*id, place);
            }
            Record::Link { id, place } => {
                self.known(*id)?;
                self.name(*id, place);
            }
            Record::Unlink { id, place } => self.unname(*id, place)?,
            Record::Rename { id, from, to } => {
                self.check_circle(*id, to)?;
                self.unname(*id, from)?;
                self.give_way(to);
                self.name(*id, to);
            }
            Record::Exchange { one, other } => {
                let (first, second) = self.check_exchange(one, other)?;
                self.unname(first, one)?;
                self.unname(second, other)?;
                self.name(first, other);
                self.name(second, one);
            }
            Record::Abort => return Err(String::from("nothing to abort")),
            Record::Remade { id, identity } => {
                self.known(*id)?.identities.push(*identity);
                self.by_inode.insert((identity.device, identity.inode), *id);
            }
            Record::Reconciling => self.reconciling = true,
            Record::Mounted { device, mounting } => {
                self.mountings.insert(*device, *mounting);
            }
            Record::FileSystem { device, mark } => {
                self.marks.insert(*device, *mark);
            }
        }
        Ok(())
    }

    /// Applies a whole log: a record before an abort did not come about.
    pub(crate) fn replay(records: &[Record]) -> Result<Table, String> {
        let mut table = Table::default();
        for (number, record) in records.iter().enumerate() {
            let is_aborted = records.get(number + 1) == Some(&Record::Abort);
            if !is_aborted && *record != Record::Abort {
                table.apply(record)?;
            }
        }
        Ok(table)
    }

    fn appear(&mut self, id: FileId, mode: u32, identity: Identity, creation: Option<Creation>) {
        // Known inodes are introduced again so that the next log knows them too.
        self.nodes.entry(id).or_insert_with(|| Node {
            mode,
            identities: vec![identity],
            creation,
            names: BTreeSet::new(),
            mentioned: BTreeSet::new(),
            displaced: false,
        });
        self.by_inode.insert((identity.device, identity.inode), id);
    }

    fn check_circle(&self, id: FileId, to: &Place) -> Result<(), String> {
        match self.is_under(to.parent, id) {
            true => Err(format!("inode {id} would be in itself as {to:?}")),
            false => Ok(()),
        }
    }

    fn check_exchange(&self, one: &Place, other: &Place) -> Result<(FileId, FileId), String> {
        let at = |place| {
            self.at(place)
                .ok_or_else(|| format!("{place:?} is nothing"))
        };
        let (first, second) = (at(one)?, at(other)?);
        self.check_circle(first, other)?;
        self.check_circle(second, one)?;
        Ok((first, second))
    }

    fn check_known(&self, id: FileId) -> Result<(), String> {
        match self.nodes.contains_key(&id) {
            true => Ok(()),
            false => Err(format!("nothing introduces inode {id}")),
        }
    }

    fn check_named(&self, id: FileId, place: &Place) -> Result<(), String> {
        match self.places.get(place) == Some(&id) {
            true => Ok(()),
            false => Err(format!("{place:?} is not inode {id}")),
        }
    }

    fn known(&mut self, id: FileId) -> Result<&mut Node, String> {
        self.check_known(id)?;
        Ok(self.nodes.get_mut(&id).expect("it is known"))
    }

    fn name(&mut self, id: FileId, place: &Place) {
        if let Some(before) = self.places.insert(place.clone(), id)
            && before != id
        {
            // The log does not say where that one went.
            let node = self.nodes.get_mut(&before).expect("places name nodes");
            node.names.remove(place);
            node.displaced |= node.names.is_empty();
        }
        let node = self.nodes.get_mut(&id).expect("it has appeared");
        node.names.insert(place.clone());
        node.mentioned.insert(place.clone());
        node.displaced = false;
    }

    fn unname(&mut self, id: FileId, place: &Place) -> Result<(), String> {
        self.check_named(id, place)?;
        self.places.remove(place);
        self.known(id)?.names.remove(place);
        Ok(())
    }

    fn give_way(&mut self, place: &Place) {
        if let Some(victim) = self.places.remove(place) {
            let node = self.nodes.get_mut(&victim).expect("places name nodes");
            node.names.remove(place);
        }
    }
}
