//! What a log says in the end: which inode has which names, and every name that any inode ever had
//! while the log ran, for that is where a crash may have left it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::path::PathBuf;

use super::attributes::{Attributes, Moment, Rights, Theirs};
use super::file_system::Mark;
use super::record::Record;
use super::space::{BOOT_BYTES, Creation, Identity, KIND_BITS, Mounting, Place};
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
    /// Recovery has made it anew.
    pub is_remade: bool,
    /// What was changed of its attributes.
    pub attributes: Attributes,
}

impl Node {
    /// Its last identity.
    pub(crate) fn identity(&self) -> Identity {
        *self.identities.last().expect("a node has an identity")
    }

    /// What its attributes are to be. One that was made anew has the rights that it was made with, if nothing else is told; a
    /// link has none.
    pub(super) fn wanted(&self) -> Attributes {
        let mut wanted = self.attributes.clone();
        let made = self.creation.as_ref().filter(|_| self.is_remade);
        let made = made.filter(|made| made.mode & KIND_BITS != libc::S_IFLNK);
        wanted.rights = wanted.rights.or(made.map(|made| Rights {
            mode: made.mode & !KIND_BITS,
            user: made.user,
            group: made.group,
        }));
        wanted
    }
}

/// A time at which recovery was at work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Attempt {
    pub boot: [u8; BOOT_BYTES],
    pub from: Moment,
    /// None if it was killed.
    pub to: Option<Moment>,
}

/// Inodes and names.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Table {
    nodes: BTreeMap<FileId, Node>,
    places: HashMap<Place, FileId>,
    by_inode: HashMap<(u64, u64), FileId>,
    /// Recovery may have left staged names.
    pub(crate) reconciling: bool,
    /// When recoveries were at work.
    pub(crate) attempts: Vec<Attempt>,
    /// What others had changed before those.
    pub(crate) others: BTreeMap<FileId, Theirs>,
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

    /// A name from the root, for people.
    pub(crate) fn path_of(&self, place: &Place) -> PathBuf {
        let mut names = vec![place.name.clone()];
        let mut parent = place.parent;
        // A damaged log may have a circle in it.
        for _ in 0..=self.nodes.len() {
            let place = self.node(parent).and_then(|node| node.names.first());
            let Some(place) = place.filter(|_| parent != FileId::ROOT) else {
                break;
            };
            names.push(place.name.clone());
            parent = place.parent;
        }
        names.iter().rev().collect()
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

    /// Why records must not be appended: the log could not be read any more, or said that a directory is in itself. Each is
    /// checked by what the table has, so none may rely on another of them but for an inode that this makes known.
    pub(crate) fn check_all(&self, records: &[Record]) -> Result<(), String> {
        let mut appeared = BTreeSet::new();
        for record in records {
            if let Record::Introduce { id, .. } | Record::Create { id, .. } = record {
                appeared.insert(*id);
            }
            self.check(record, &appeared)?;
        }
        Ok(())
    }

    fn check(&self, record: &Record, appeared: &BTreeSet<FileId>) -> Result<(), String> {
        let check_known = |id: &FileId| match appeared.contains(id) {
            true => Ok(()),
            false => self.check_known(*id),
        };
        match record {
            Record::Introduce { id, place, .. } | Record::Create { id, place, .. } => {
                self.check_circle(*id, place)
            }
            Record::Link { id, place } => {
                check_known(id)?;
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
            Record::Remade { id, .. } | Record::Attribute { id, .. } | Record::Settled { id } => {
                check_known(id)
            }
            // The first is about the record before, which the table has not learned.
            Record::Abort
            | Record::Reconciling
            | Record::Mounted { .. }
            | Record::FileSystem { .. }
            | Record::Others { .. }
            | Record::Recovering { .. } => Ok(()),
        }
    }

    /// What the record says becomes so. The error is why it cannot be: none where [`Table::check_all`] found none.
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
                self.appear(*id, creation.mode, *identity, Some(creation.clone()));
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
                let node = self.known(*id)?;
                node.identities.push(*identity);
                node.is_remade = true;
                self.by_inode.insert((identity.device, identity.inode), *id);
            }
            Record::Reconciling => self.reconciling = true,
            Record::Mounted { device, mounting } => {
                self.mountings.insert(*device, *mounting);
            }
            Record::FileSystem { device, mark } => {
                self.marks.insert(*device, *mark);
            }
            Record::Attribute {
                id,
                changed,
                outcome,
            } => self.known(*id)?.attributes.apply(*changed, outcome),
            Record::Settled { id } => self.known(*id)?.attributes = Attributes::default(),
            Record::Others { theirs, ids } => {
                for id in ids {
                    let known = self.others.entry(*id).or_default();
                    *known = known.and(*theirs);
                }
            }
            Record::Recovering { boot, at, ends } => self.recovering(*boot, *at, *ends),
        }
        Ok(())
    }

    fn recovering(&mut self, boot: [u8; BOOT_BYTES], at: Moment, ends: bool) {
        // Of one boot's recoveries one alone is at work: another that begins, or ends, ends those that were killed before.
        let is_open = |attempt: &&mut Attempt| attempt.boot == boot && attempt.to.is_none();
        for attempt in self.attempts.iter_mut().filter(is_open) {
            attempt.to = Some(at);
        }
        if !ends {
            self.attempts.push(Attempt {
                boot,
                from: at,
                to: None,
            });
        }
    }

    /// What an earlier table has of an inode, and this one, of a log that began later, has not: that it was made while
    /// this process had the pool, and, if it is held, that it is there although it has no name.
    pub(crate) fn keep(&mut self, id: FileId, earlier: &Node, is_held: bool) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.creation = node.creation.take().or_else(|| earlier.creation.clone());
        } else if is_held {
            let identity = earlier.identity();
            let key = (identity.device, identity.inode);
            let other = self.by_inode.get(&key).copied();
            self.appear(id, earlier.mode, identity, earlier.creation.clone());
            // Its number may be another one's by now.
            self.by_inode.insert(key, other.unwrap_or(id));
        }
    }

    /// Whether anything is told of an inode's attributes.
    pub(crate) fn has_attributes(&self, id: FileId) -> bool {
        self.node(id)
            .is_some_and(|node| !node.attributes.is_empty())
    }

    /// The inode that has this number now, as far as is known.
    pub(crate) fn numbered(&self, number: (u64, u64)) -> Option<FileId> {
        self.by_inode.get(&number).copied()
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
        self.by_inode.insert((identity.device, identity.inode), id);
        // Known inodes are introduced again so that the next log knows them too.
        self.nodes.entry(id).or_insert_with(|| Node {
            mode,
            identities: vec![identity],
            creation,
            names: BTreeSet::new(),
            mentioned: BTreeSet::new(),
            displaced: false,
            is_remade: false,
            attributes: Attributes::default(),
        });
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

    /// Whether it takes a place from what the log has there: a removal, or a name where others have removed or moved what had it.
    pub(crate) fn frees_place(&self, record: &Record) -> bool {
        match record {
            Record::Unlink { .. } => true,
            Record::Introduce { id, place, .. }
            | Record::Create { id, place, .. }
            | Record::Link { id, place } => self.at(place).is_some_and(|before| before != *id),
            _ => false,
        }
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
