//! Brings the names of the backing to what the log says, from wherever a crash left them.
//!
//! It is declarative: where each inode is now (see [`super::locate`], [`super::search`]) is compared with where it
//! belongs, from the root down, so a directory is in place before anything is placed in it. What is in
//! the way is renamed to a staged name beside it, what is lost is made anew under a staged name, its
//! identity is recorded, and only then it gets its name. What others have moved stays where it is, and
//! where the kernel kept every change since the log began, so does everything. Names are removed last,
//! when every inode that stays has its own. So a crash in the middle leaves nothing that the next try
//! could not find again: under a name that the log mentions, or a staged one.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};

use super::attributes::Theirs;
use super::judge::judge;
use super::locate::{Located, staged_name};
use super::record::Record;
use super::recovery_log::RecoveryLog;
use super::search::locate;
use super::space::{Creation, KIND_BITS, NameSpace, PRIVILEGE_BITS};
use super::space::{Identity, Place, Renaming, is_directory};
use super::table::{Node, Table};
use crate::metadata::FileId;
use crate::mutants::{Mutant, mutated};

/// What became of an inode that the log knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// It has its names.
    There,
    /// It was removed, or the log never knew it.
    Gone,
    /// It is not to be found, or another program's file has its name; why, in words.
    Missing(String),
}

/// What was found and done.
pub(crate) struct Reconciled<S: NameSpace> {
    /// Changes made to the backing's names.
    pub changes: u64,
    /// Files, directories and others that the backing had lost, made anew.
    pub made: Vec<PathBuf>,
    /// What could not be brought about, in words.
    pub complaints: Vec<String>,
    /// Attributes that could not be restored, or were left as others made them: each is among the complaints.
    pub attributes_left: u64,
    pub(super) table: Table,
    pub(super) now: Located<S::Handle>,
    lost: BTreeMap<FileId, String>,
    /// What others changed of inodes after what the log tells of their attributes.
    pub(super) others: BTreeMap<FileId, Theirs>,
    /// What must not get its data, since too many could read that; why, in words.
    pub(super) barred: BTreeMap<FileId, String>,
}

impl<S: NameSpace> Reconciled<S> {
    /// What became of an inode.
    pub(crate) fn outcome(&self, id: FileId) -> Outcome {
        if let Some(why) = self.lost.get(&id) {
            return Outcome::Missing(why.clone());
        }
        let Some(node) = self.table.node(id) else {
            return Outcome::Gone;
        };
        let is_unbroken = self.now.is_unbroken(node);
        if self.now.elsewhere.contains_key(&id) || is_unbroken && self.now.is_found(id) {
            return Outcome::There;
        }
        match node.names.first() {
            Some(place) if is_unbroken => Outcome::Missing(missing(&self.table, place, REMOVED)),
            Some(_) => Outcome::There,
            None if node.displaced => {
                Outcome::Missing(format!("inode {id} lost its name to another file"))
            }
            None => Outcome::Gone,
        }
    }

    /// What an inode is called below the root, for people.
    pub(crate) fn path(&self, id: FileId) -> PathBuf {
        let node = self.table.node(id);
        let at = self.now.at.get(&id).and_then(|at| at.first());
        let place = at.or_else(|| node.and_then(|node| node.names.first()));
        place.map_or_else(PathBuf::new, |place| self.table.path_of(place))
    }

    /// Holds an inode that is there.
    ///
    /// # Errors
    /// The backing's.
    pub(crate) fn hold(&self, space: &S, id: FileId) -> io::Result<Option<S::Handle>> {
        self.now.hold(space, id)
    }

    /// Why an inode must not get its data: it could not be kept from others, or a directory on the way to it.
    pub(crate) fn is_barred(&self, id: FileId) -> Option<&str> {
        if self.barred.is_empty() {
            return None;
        }
        // By every name: each is a way to it.
        let mut open = vec![id];
        let mut climbed = HashSet::new();
        while let Some(at) = open.pop() {
            if !climbed.insert(at) {
                continue;
            }
            if let Some(why) = self.barred.get(&at) {
                return Some(why);
            }
            let found = self.now.at.get(&at).filter(|at| !at.is_empty());
            let names = found.or_else(|| Some(&self.table.node(at)?.names));
            open.extend(names.into_iter().flatten().map(|place| place.parent));
        }
        None
    }
}

/// Why something is missing that was there.
const REMOVED: &str = "it was removed or replaced without us";

fn missing(table: &Table, place: &Place, why: &str) -> String {
    format!("{} is missing: {why}", table.path_of(place).display())
}

struct Work<'a, 'log, S: NameSpace> {
    space: &'a S,
    table: &'a Table,
    log: &'a mut RecoveryLog<'log>,
    now: Located<S::Handle>,
    started: bool,
    changes: u64,
    made: Vec<PathBuf>,
    complaints: Vec<String>,
    lost: BTreeMap<FileId, String>,
    remade: BTreeMap<FileId, Identity>,
}

/// Brings the backing to what the table says, and finds the inodes `with_data`; the log is told what it
/// has to know before the work goes on. Nothing of it is durable in the backing when this
/// returns.
///
/// # Errors
/// The log is of another directory; the backing or the pool failed.
pub(super) fn reconcile<S: NameSpace>(
    space: &S,
    table: &Table,
    with_data: &HashSet<FileId>,
    log: &mut RecoveryLog<'_>,
) -> io::Result<Reconciled<S>> {
    let now = locate(space, table, with_data)?;
    let others = judge(space, table, &now, log)?;
    let mut work = Work {
        space,
        table,
        log,
        now,
        started: table.reconciling,
        changes: 0,
        made: Vec::new(),
        complaints: Vec::new(),
        lost: BTreeMap::new(),
        remade: BTreeMap::new(),
    };
    work.remove_unfinished()?;
    work.place_all()?;
    work.remove_names()?;
    let mut reconciled = Reconciled {
        changes: work.changes,
        made: work.made,
        complaints: work.complaints,
        attributes_left: others.len() as u64,
        table: table.clone(),
        now: work.now,
        lost: work.lost,
        others,
        barred: BTreeMap::new(),
    };
    for (id, identity) in work.remade {
        let remade = Record::Remade { id, identity };
        let known = reconciled.table.apply(&remade);
        known.expect("what was made anew is known");
    }
    let others = reconciled.others.iter();
    let others = others.map(|(id, theirs)| others_changed(&reconciled.path(*id), *theirs));
    let others: Vec<String> = others.collect();
    reconciled.attributes_left += reconciled.now.complaints.len() as u64;
    reconciled.complaints.append(&mut reconciled.now.complaints);
    reconciled.complaints.extend(others);
    Ok(reconciled)
}

fn others_changed(path: &Path, theirs: Theirs) -> String {
    let kept = match theirs.rights {
        true if theirs.restarted => {
            "it has no more rights than both allow, is root's if it had not the recorded owner, and keeps the extended attributes"
        }
        true => "it has no more rights than both allow, and keeps the extended attributes",
        false => "it keeps the extended attributes",
    };
    format!(
        "{}: it was changed after its last recorded change, by others or by a call that a crash cut short: {kept} that it was \
         given then",
        path.display()
    )
}

impl<'a, S: NameSpace> Work<'a, '_, S> {
    /// Before the first change: from now on there may be staged names.
    fn change(&mut self) -> io::Result<()> {
        if !self.started {
            self.log.must(Record::Reconciling)?;
            self.started = true;
        }
        self.log.begin_attempt(self.space, std::iter::empty())?;
        self.changes += 1;
        Ok(())
    }

    fn remove_unfinished(&mut self) -> io::Result<()> {
        for (place, is_directory) in std::mem::take(&mut self.now.unfinished) {
            self.change()?;
            let directory = &self.now.handles[&place.parent];
            self.space.remove(directory, &place.name, is_directory)?;
        }
        Ok(())
    }

    fn place_all(&mut self) -> io::Result<()> {
        let mut children: BTreeMap<FileId, Vec<(FileId, Place)>> = BTreeMap::new();
        for (id, node) in self.table.nodes() {
            for place in node.names.iter().filter(|_| id != FileId::ROOT) {
                let list = children.entry(place.parent).or_default();
                list.push((id, place.clone()));
            }
        }
        let mut open = VecDeque::from([FileId::ROOT]);
        while let Some(directory) = open.pop_front() {
            let Some(list) = children.remove(&directory) else {
                continue;
            };
            for (id, place) in list {
                self.place(id, &place)?;
                if self.now.handles.contains_key(&id) {
                    open.push_back(id);
                }
            }
        }
        // What is left belongs into directories that are lost.
        for (id, place) in children.into_values().flatten() {
            self.lose(id, &place, "its directory is missing");
        }
        Ok(())
    }

    /// Gives an inode one of its names.
    fn place(&mut self, id: FileId, place: &Place) -> io::Result<()> {
        let node = self.node(id);
        if self.has(id, place) || self.now.is_unbroken(node) {
            return Ok(());
        }
        if self.now.elsewhere.contains_key(&id) {
            let path = self.table.path_of(place);
            self.complaints.push(format!(
                "{} was renamed without us: it stays where it is",
                path.display()
            ));
            return Ok(());
        }
        if !self.is_found(id) && node.creation.is_none() {
            self.lose(id, place, REMOVED);
            return Ok(());
        }
        if !self.vacate(place)? {
            self.lose(id, place, "another file has its name");
            return Ok(());
        }
        if !self.is_found(id) {
            return self.make(id, place);
        }
        let at = &self.now.at[&id];
        match at.iter().find(|at| !node.names.contains(at)).cloned() {
            Some(from) => match self.rename(id, &from, place) {
                // Others have moved its directory into itself, as it were.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                    self.lose(id, place, "its directory was renamed without us");
                    Ok(())
                }
                renamed => renamed,
            },
            None => {
                let from = at.first().expect("it is found").clone();
                self.change()?;
                let handles = &self.now.handles;
                let source = (&handles[&from.parent], from.name.as_os_str());
                self.space
                    .link(source, &handles[&place.parent], &place.name)?;
                self.appears(id, place);
                Ok(())
            }
        }
    }

    /// Gets what has the name out of the way. `false` if the log does not know that.
    fn vacate(&mut self, place: &Place) -> io::Result<bool> {
        let id = match self.now.occupied.get(place) {
            None => return Ok(true),
            Some(None) => return Ok(false),
            Some(Some(id)) => *id,
        };
        let node = self.node(id);
        if node.displaced || self.now.is_unbroken(node) {
            return Ok(false);
        }
        let aside = Place {
            parent: place.parent,
            name: staged_name(id).into(),
        };
        if self.now.at[&id].contains(&aside) {
            // One more link to it is here already.
            self.remove(id, place)?;
        } else {
            self.rename(id, place, &aside)?;
        }
        Ok(true)
    }

    fn rename(&mut self, id: FileId, from: &Place, to: &Place) -> io::Result<()> {
        self.change()?;
        let handles = &self.now.handles;
        self.space.rename(
            (&handles[&from.parent], &from.name),
            (&handles[&to.parent], &to.name),
            Renaming::NoReplace,
        )?;
        self.disappears(id, from);
        self.appears(id, to);
        Ok(())
    }

    /// Makes a lost inode anew, empty: what it held and was acknowledged is in the pool.
    fn make(&mut self, id: FileId, place: &Place) -> io::Result<()> {
        self.change()?;
        let creation = self.node(id).creation.clone().expect("it was made");
        let staged = Place {
            parent: place.parent,
            name: staged_name(id).into(),
        };
        let directory = self.now.handles[&place.parent].clone();
        // A program gets its set-id bits when it has its bytes.
        let withheld = match creation.mode & KIND_BITS {
            libc::S_IFREG => PRIVILEGE_BITS,
            _ => 0,
        };
        let creation = Creation {
            mode: creation.mode & !withheld,
            ..creation
        };
        self.space.make(&directory, &staged.name, &creation)?;
        let seen = self.space.look(&directory, &staged.name)?;
        let seen = seen.expect("it was just made");
        let identity = seen.identity;
        self.now.seen.insert(id, seen);
        self.remade.insert(id, identity);
        // Before it has its name: under that one it could not be told from another program's file.
        if !mutated(Mutant::FilesRemadeUnrecorded) {
            self.log.must(Record::Remade { id, identity })?;
        }
        self.appears(id, &staged);
        self.rename(id, &staged, place)?;
        if is_directory(creation.mode) {
            let held = self.space.hold(&directory, &place.name)?;
            self.now.handles.insert(id, held);
        }
        self.made.push(self.table.path_of(place));
        Ok(())
    }

    /// Removes every name that an inode was found under and is not to have. Directories wait until
    /// what is in them has gone.
    fn remove_names(&mut self) -> io::Result<()> {
        let mut directories = Vec::new();
        for (id, at) in self.now.at.clone() {
            let node = self.node(id);
            let is_complete = node.names.iter().all(|place| at.contains(place));
            if node.displaced || !is_complete || self.now.is_unbroken(node) {
                continue;
            }
            for place in at.difference(&node.names) {
                match is_directory(node.mode) {
                    true => directories.push((id, place.clone())),
                    false => self.remove(id, place)?,
                }
            }
        }
        loop {
            let before = directories.len();
            let mut left = Vec::new();
            for (id, place) in directories {
                let handle = &self.now.handles[&place.parent];
                match self.space.is_empty(handle, &place.name)? {
                    true => self.remove(id, &place)?,
                    false => left.push((id, place)),
                }
            }
            directories = left;
            if directories.len() == before {
                break;
            }
        }
        for (_, place) in directories {
            let path = self.table.path_of(&place);
            self.complaints.push(format!(
                "{}: removed before the crash, but others' files are in it: remove it yourself",
                path.display()
            ));
        }
        Ok(())
    }

    fn remove(&mut self, id: FileId, place: &Place) -> io::Result<()> {
        self.change()?;
        let node = self.node(id);
        let is_directory = is_directory(node.mode);
        let is_last = self.now.at.get(&id).is_some_and(|at| at.len() == 1);
        // It may have names that the log does not know, and attributes that are to be restored.
        let held = match is_last && !node.attributes.is_empty() {
            true => self.now.hold(self.space, id).ok().flatten(),
            false => None,
        };
        let handle = &self.now.handles[&place.parent];
        self.space.remove(handle, &place.name, is_directory)?;
        if let Some(held) = held
            && self.space.seen(&held).is_ok_and(|seen| seen.links > 0)
        {
            self.now.elsewhere.insert(id, held);
        }
        self.disappears(id, place);
        Ok(())
    }

    fn lose(&mut self, id: FileId, place: &Place, why: &str) {
        let node = self.node(id);
        if self.now.is_unbroken(node) || self.now.elsewhere.contains_key(&id) {
            return;
        }
        let text = missing(self.table, place, why);
        self.complaints.push(text.clone());
        if !self.is_found(id) || !self.node(id).names.iter().any(|name| self.has(id, name)) {
            self.lost.insert(id, text);
        }
    }

    fn node(&self, id: FileId) -> &'a Node {
        self.table
            .node(id)
            .expect("only the table's are looked for")
    }

    fn has(&self, id: FileId, place: &Place) -> bool {
        self.now.at.get(&id).is_some_and(|at| at.contains(place))
    }

    fn is_found(&self, id: FileId) -> bool {
        self.now.is_found(id)
    }

    fn appears(&mut self, id: FileId, place: &Place) {
        self.now.at.entry(id).or_default().insert(place.clone());
        self.now.occupied.insert(place.clone(), Some(id));
    }

    fn disappears(&mut self, id: FileId, place: &Place) {
        if let Some(at) = self.now.at.get_mut(&id) {
            at.remove(place);
        }
        self.now.occupied.remove(place);
    }
}
