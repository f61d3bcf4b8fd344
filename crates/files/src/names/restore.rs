//! Brings attributes of the backing to what the log says, after a power cut. After a mere kill the kernel has
//! them all, and what others made of them since.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use super::Names;
use super::attributes::{AttributeChange, Attributes};
use super::reconcile::Reconciled;
use super::space::NameSpace;
use crate::metadata::FileId;
use crate::mutants::{Mutant, mutated};

/// How much is restored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Before files get their data: a user that may not read a file any more must not see it.
    RightsOfFiles,
    /// When they have it, since writing moves times and takes capabilities.
    Everything,
}

impl<S: NameSpace> Names<S> {
    /// What the log says of attributes becomes so in the backing; nothing of it is durable there when this
    /// returns. Idempotent.
    ///
    /// # Errors
    /// The backing's. What it refuses to this user, or cannot have, is among the complaints instead.
    pub(crate) fn restore(&self, found: &mut Reconciled<S>, pass: Pass) -> io::Result<()> {
        let changed = found
            .table
            .nodes()
            .filter(|(_, node)| !node.attributes.is_empty() && !found.now.is_unbroken(node));
        let changed: Vec<(FileId, Attributes)> = changed
            .map(|(id, node)| (id, node.attributes.clone()))
            .collect();
        for (id, attributes) in changed {
            let mut work = Restoring {
                space: &self.space,
                path: found.path(id),
                refused: Vec::new(),
            };
            let directory = found.now.handles.get(&id).cloned();
            if directory.is_some() && pass == Pass::RightsOfFiles {
                // What is in it must stay within reach.
                continue;
            }
            let handle = match directory {
                Some(handle) => Some(handle),
                None => work
                    .unless_refused("attributes", found.hold(&self.space, id))?
                    .flatten(),
            };
            if let Some(handle) = handle {
                work.restore(&handle, &attributes, pass)?;
            }
            if pass == Pass::Everything {
                found.complaints.append(&mut work.refused);
            }
        }
        Ok(())
    }
}

/// Restores attributes of one inode.
struct Restoring<'a, S> {
    space: &'a S,
    path: PathBuf,
    /// In words.
    refused: Vec<String>,
}

impl<S: NameSpace> Restoring<'_, S> {
    fn restore(&mut self, handle: &S::Handle, wanted: &Attributes, pass: Pass) -> io::Result<()> {
        if !mutated(Mutant::FilesRightsNotRestored) {
            for change in wanted.changes_of_rights(&self.space.seen(handle)?) {
                self.change(handle, &change)?;
            }
        }
        if pass == Pass::RightsOfFiles {
            return Ok(());
        }
        for change in wanted.changes_of_extended() {
            self.change(handle, &change)?;
        }
        if !mutated(Mutant::FilesRightsNotRestored) {
            // An access list has changed the mode, or a mode is to change it.
            for change in wanted.changes_of_rights(&self.space.seen(handle)?) {
                self.change(handle, &change)?;
            }
        }
        match wanted.times(&self.space.seen(handle)?) {
            Some(times) => self.change(handle, &AttributeChange::Times(&times)),
            None => Ok(()),
        }
    }

    fn change(&mut self, handle: &S::Handle, change: &AttributeChange<'_>) -> io::Result<()> {
        let changed = match (change, self.space.change(handle, change)) {
            // It is as it should be.
            (AttributeChange::Remove(_), Err(error)) if is_absent(&error) => Ok(()),
            (_, changed) => changed,
        };
        self.unless_refused(&called(change), changed).map(drop)
    }

    /// Where the system refuses something to this user for good, the rest goes on.
    fn unless_refused<T>(&mut self, what: &str, result: io::Result<T>) -> io::Result<Option<T>> {
        let path = match self.path.as_os_str().is_empty() {
            true => Path::new("the directory itself"),
            false => &self.path,
        };
        match result {
            Ok(done) => Ok(Some(done)),
            Err(error) if is_refusal(&error) => {
                self.refused.push(format!(
                    "{}: its {what} could not be restored ({error})",
                    path.display()
                ));
                Ok(None)
            }
            Err(error) => Err(io::Error::new(
                error.kind(),
                format!(
                    "{}: its {what} could not be restored ({error}); remove the cause and recover again",
                    path.display()
                ),
            )),
        }
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENODATA | libc::EOPNOTSUPP))
}

fn is_refusal(error: &io::Error) -> bool {
    let refusals = [libc::EPERM, libc::EACCES, libc::EOPNOTSUPP];
    error
        .raw_os_error()
        .is_some_and(|number| refusals.contains(&number))
}

fn called(change: &AttributeChange<'_>) -> String {
    let extended = |name: &OsStr| format!("extended attribute {}", name.display());
    match change {
        AttributeChange::Mode(mode) => format!("mode {mode:o}"),
        AttributeChange::Owner { .. } => String::from("owner"),
        AttributeChange::Times(_) => String::from("times"),
        AttributeChange::Set { name, .. } | AttributeChange::Remove(name) => extended(name),
    }
}
