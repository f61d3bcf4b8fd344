//! Looks for inodes that are under no name that the log mentions. Only other programs can have put them
//! where they are: there they stay, and there their data goes.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::ffi::OsStr;
use std::io;

use super::locate::{Located, Search, look_at_names};
use super::space::{NameSpace, Sought};
use super::table::Table;
use crate::metadata::FileId;

/// Looks for everything in the table that is to have a name, or is one of `with_data`.
///
/// # Errors
/// The root is another directory than the log's; the backing failed.
pub(super) fn locate<S: NameSpace>(
    space: &S,
    table: &Table,
    with_data: &HashSet<FileId>,
) -> io::Result<Located<S::Handle>> {
    let mut search = look_at_names(space, table, with_data)?;
    seek_moved(&mut search, with_data)?;
    Ok(search.found)
}

/// Looks for what is not found yet and is to have a name, or is one of `with_data`: by the file
/// system's own means, else through the directories.
///
/// # Errors
/// The backing's.
fn seek_moved<S: NameSpace>(
    search: &mut Search<'_, S>,
    with_data: &HashSet<FileId>,
) -> io::Result<()> {
    let mut sought = BTreeSet::new();
    let mut unsure = BTreeSet::new();
    loop {
        let missing: Vec<FileId> = search.missing(with_data).collect();
        if missing.iter().all(|id| sought.contains(id)) {
            break;
        }
        for id in missing {
            // A directory that was moved has what was in it.
            if search.found.is_found(id) || !sought.insert(id) {
                continue;
            }
            match search.seek(id) {
                Ok(Sought::Held(handle)) => search.is_elsewhere(id, handle)?,
                Ok(Sought::Nowhere) => {}
                Ok(Sought::Unknown) => drop(unsure.insert(id)),
                // It has no name that the log knows, and no data.
                Err(error) if !search.must_be_found(id, with_data) => {
                    let left = format!("file {id}: its attributes could not be restored ({error})");
                    search.found.complaints.push(left);
                }
                Err(error) => return Err(error),
            }
        }
    }
    let missing: HashSet<FileId> = search.missing(with_data).collect();
    unsure.retain(|id| {
        missing.contains(id) && search.must_be_found(*id, with_data) && search.must_exist(*id)
    });
    match unsure.is_empty() {
        true => Ok(()),
        false => search.walk(unsure),
    }
}

impl<S: NameSpace> Search<'_, S> {
    /// What is wanted and not found. Where the kernel kept all names, only data needs its inode. One whose last
    /// known name was removed may have others, and attributes that are to be restored.
    fn missing(&self, with_data: &HashSet<FileId>) -> impl Iterator<Item = FileId> {
        self.table.nodes().filter_map(move |(id, node)| {
            let is_changed = !node.names.is_empty() || !node.attributes.is_empty();
            let is_to_be_restored = is_changed && !self.found.is_unbroken(node);
            let is_wanted = is_to_be_restored || with_data.contains(&id);
            (id != FileId::ROOT && is_wanted && !self.found.is_found(id)).then_some(id)
        })
    }

    /// Whether more than its attributes are to be restored.
    fn must_be_found(&self, id: FileId, with_data: &HashSet<FileId>) -> bool {
        let node = self.table.node(id).expect("only the table's are missing");
        !node.names.is_empty() || with_data.contains(&id)
    }

    fn seek(&self, id: FileId) -> io::Result<Sought<S::Handle>> {
        let node = self.table.node(id).expect("only the table's are missing");
        let mut sought = Sought::Nowhere;
        for identity in node.identities.iter().rev() {
            let Some(directory) = self.directory_on(identity.device) else {
                sought = Sought::Unknown;
                continue;
            };
            match self.space.seek(directory, identity)? {
                Sought::Nowhere => {}
                Sought::Unknown => sought = Sought::Unknown,
                held => return Ok(held),
            }
        }
        Ok(sought)
    }

    /// Whether an inode that is nowhere we know must be somewhere we do not, unless it was removed:
    /// a crash can have lost what was made just before it.
    fn must_exist(&self, id: FileId) -> bool {
        let node = self.table.node(id).expect("only the table's are missing");
        node.creation.is_none() || self.found.is_unbroken(node)
    }

    fn is_elsewhere(&mut self, id: FileId, handle: S::Handle) -> io::Result<()> {
        let seen = self.space.seen(&handle)?;
        let is_directory = seen.is_directory();
        self.found.seen.insert(id, seen);
        self.found.elsewhere.insert(id, handle.clone());
        if is_directory {
            self.found.handles.insert(id, handle);
            self.descend(id)?;
        }
        Ok(())
    }

    /// Looks at every name in the directories that were found and, where that is not everything there is,
    /// in those below.
    fn walk(&mut self, mut wanted: BTreeSet<FileId>) -> io::Result<()> {
        let mut open: VecDeque<S::Handle> = self.found.handles.values().cloned().collect();
        let mut seen_directories = HashSet::new();
        while let Some(directory) = open.pop_front() {
            if wanted.is_empty() {
                break;
            }
            let Some(seen) = unless_refused(self.space.seen(&directory))? else {
                continue;
            };
            if !seen_directories.insert(seen.identity) {
                continue;
            }
            let names = unless_refused(self.space.names(&directory, ""))?.unwrap_or_default();
            for name in names.iter().filter(|name| *name != "." && *name != "..") {
                self.visit(&directory, name, &mut wanted, &mut open)?;
            }
        }
        Ok(())
    }

    fn visit(
        &mut self,
        directory: &S::Handle,
        name: &OsStr,
        wanted: &mut BTreeSet<FileId>,
        open: &mut VecDeque<S::Handle>,
    ) -> io::Result<()> {
        let Some(seen) = unless_refused(self.space.look(directory, name))?.flatten() else {
            return Ok(());
        };
        let found = self.who_is(&seen, |id, _| wanted.contains(&id));
        let goes_on = seen.is_directory() && self.space.is_searchable();
        if found.is_none() && !goes_on {
            return Ok(());
        }
        let Some(handle) = unless_refused(self.space.hold(directory, name))? else {
            return Ok(());
        };
        if goes_on {
            open.push_back(handle.clone());
        }
        match found.filter(|id| wanted.remove(id)) {
            Some(id) => self.is_elsewhere(id, handle),
            None => Ok(()),
        }
    }
}

/// What the system refuses is passed over: among what is looked at are things of others, a mount that is
/// dead or a directory that is not for us to see, and they must not keep files from their data.
fn unless_refused<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.raw_os_error().is_some() => Ok(None),
        found => found.map(Some),
    }
}
