//! Brings attributes of the backing to what the log says, after a power cut. After a mere kill the kernel has
//! them all, and what others made of them since.
//!
//! Nothing of it may be put on another file than it was said of, nor may a file that has not its data yet run with
//! another user's rights. The order: owners, since a change of owner takes capabilities; extended attributes, which need
//! the right to write; modes and times last, files before directories and these from the deepest up, so that nothing gets
//! out of reach, and nothing inherits what its directory is to have.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::XattrFlags;

use super::Names;
use super::attributes::{ACCESS_LIST, AttributeChange, Attributes, CAPABILITY};
use super::change::is_absent;
use super::outcomes::made_with_privileges;
use super::reconcile::Reconciled;
use super::space::{KIND_BITS, NameSpace, PRIVILEGE_BITS};
use super::table::Node;
use crate::metadata::FileId;
use crate::mutants::{Mutant, mutated};

/// How much is restored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Before files get their data: a user that may not read a file any more must not see it.
    BeforeData,
    /// When they have it, since writing moves times and takes capabilities.
    Everything,
}

impl<S: NameSpace> Names<S> {
    /// What the log says of attributes becomes so in the backing; nothing of it is durable there when this
    /// returns. Idempotent.
    ///
    /// # Errors
    /// The backing's. What it refuses to this user, has no room for or cannot have is among the complaints instead, as
    /// are files that are not where they were found.
    pub(crate) fn restore(&self, found: &mut Reconciled<S>, pass: Pass) -> io::Result<()> {
        let subjects = subjects(found);
        let mut work = Restoring {
            space: &self.space,
            found,
            told: BTreeSet::new(),
            refused: Vec::new(),
        };
        match pass {
            Pass::BeforeData => work.before_data(&subjects)?,
            Pass::Everything => work.everything(&subjects)?,
        }
        let refused = work.refused;
        if pass == Pass::Everything {
            found.attributes_left += refused.len() as u64;
            found.complaints.extend(refused);
        }
        Ok(())
    }
}

/// An inode of which the log says something.
struct Subject {
    id: FileId,
    path: PathBuf,
    /// Bits of its kind.
    kind: u32,
    wanted: Attributes,
}

impl Subject {
    fn is_directory(&self) -> bool {
        self.kind == libc::S_IFDIR
    }

    fn is_file(&self) -> bool {
        self.kind == libc::S_IFREG
    }
}

/// Files and others first, then directories, the deepest first.
fn subjects<S: NameSpace>(found: &Reconciled<S>) -> Vec<Subject> {
    let mut subjects: Vec<Subject> = found
        .table
        .nodes()
        .filter(|(_, node)| !found.now.is_unbroken(node))
        .filter_map(|(id, node)| {
            let mut wanted = node.attributes.clone();
            if is_remade(found, id, node) && wanted.rights.is_none() {
                wanted.rights = node.creation.as_ref().and_then(made_with_privileges);
            }
            (!wanted.is_empty()).then(|| Subject {
                id,
                path: found.path(id),
                kind: node.mode & KIND_BITS,
                wanted,
            })
        })
        .collect();
    let depth = |subject: &Subject| match subject.is_directory() {
        true => subject.path.components().count(),
        false => usize::MAX,
    };
    subjects.sort_by_key(|subject| Reverse(depth(subject)));
    subjects
}

/// Whether the backing had lost the inode, in a crash before this recovery or an earlier one.
fn is_remade<S: NameSpace>(found: &Reconciled<S>, id: FileId, node: &Node) -> bool {
    found.remade.contains(&id) || node.identities.len() > 1
}

/// Restores attributes.
struct Restoring<'a, S: NameSpace> {
    space: &'a S,
    found: &'a Reconciled<S>,
    /// Inodes that were told of as not being where they were.
    told: BTreeSet<FileId>,
    /// What could not be restored, in words.
    refused: Vec<String>,
}

impl<S: NameSpace> Restoring<'_, S> {
    /// Who may read a file, and nothing that lets it run as somebody.
    fn before_data(&mut self, subjects: &[Subject]) -> io::Result<()> {
        let others = subjects.iter().filter(|subject| !subject.is_directory());
        self.each(others, |work, handle, subject| {
            work.restore_owner(handle, subject)?;
            let capability = OsStr::new(CAPABILITY);
            if subject.wanted.removed().any(|name| name == capability) {
                work.remove(handle, subject, capability)?;
            }
            for (name, value) in subject.wanted.values() {
                if name == ACCESS_LIST {
                    work.set(handle, subject, name, value)?;
                }
            }
            let withheld = match subject.is_file() && !mutated(Mutant::FilesSetIdBeforeData) {
                true => PRIVILEGE_BITS,
                false => 0,
            };
            work.restore_mode(handle, subject, withheld)
        })
    }

    fn everything(&mut self, subjects: &[Subject]) -> io::Result<()> {
        self.each(subjects.iter(), |work, handle, subject| {
            work.restore_owner(handle, subject)?;
            // First of all files: others may need the room.
            for name in subject.wanted.removed() {
                work.remove(handle, subject, name)?;
            }
            Ok(())
        })?;
        let mut crowded: Vec<(FileId, OsString)> = Vec::new();
        self.each(subjects.iter(), |work, handle, subject| {
            for (name, value) in subject.wanted.values() {
                if !work.set(handle, subject, name, value)? {
                    crowded.push((subject.id, name.to_os_string()));
                }
            }
            Ok(())
        })?;
        // A shorter value of another may have made room.
        let waits = |id, name: &OsStr| {
            let mut crowded = crowded.iter();
            crowded.any(|(of, called)| *of == id && called == name)
        };
        self.each(subjects.iter(), |work, handle, subject| {
            for (name, value) in subject.wanted.values() {
                if waits(subject.id, name) && !work.set(handle, subject, name, value)? {
                    let what = format!("extended attribute {}", name.display());
                    work.complain(subject, &what, "the file system has no room for it");
                }
            }
            Ok(())
        })?;
        self.each(subjects.iter(), |work, handle, subject| {
            work.restore_mode(handle, subject, 0)?;
            match subject.wanted.times(&work.space.seen(handle)?) {
                Some(times) => {
                    let changed = work.space.change(handle, &AttributeChange::Times(&times));
                    work.unless_refused(subject, "times", changed)
                }
                None => Ok(()),
            }
        })
    }

    /// Does it with each inode that is where it was found.
    fn each<'s>(
        &mut self,
        subjects: impl Iterator<Item = &'s Subject>,
        mut act: impl FnMut(&mut Self, &S::Handle, &Subject) -> io::Result<()>,
    ) -> io::Result<()> {
        for subject in subjects {
            match hold_same(self.space, self.found, subject.id) {
                Ok(Held::It(handle)) => act(self, &handle, subject)?,
                Ok(Held::Nothing) => {}
                Ok(Held::Another) => {
                    if self.told.insert(subject.id) {
                        let why = "another program has put another file in its place";
                        self.complain(subject, "attributes", why);
                    }
                }
                Err(error) => {
                    if self.told.insert(subject.id) {
                        self.unless_refused(subject, "attributes", Err(error))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn restore_owner(&mut self, handle: &S::Handle, subject: &Subject) -> io::Result<()> {
        if mutated(Mutant::FilesRightsNotRestored) {
            return Ok(());
        }
        let seen = self.space.seen(handle)?;
        match subject.wanted.change_of_owner(&seen) {
            Some(change) => {
                let changed = self.space.change(handle, &change);
                self.unless_refused(subject, "owner", changed)
            }
            None => Ok(()),
        }
    }

    fn restore_mode(
        &mut self,
        handle: &S::Handle,
        subject: &Subject,
        withheld: u32,
    ) -> io::Result<()> {
        if mutated(Mutant::FilesRightsNotRestored) {
            return Ok(());
        }
        let seen = self.space.seen(handle)?;
        match subject.wanted.change_of_mode(&seen, withheld) {
            Some(change) => {
                let changed = self.space.change(handle, &change);
                self.unless_refused(subject, "mode", changed)
            }
            None => Ok(()),
        }
    }

    fn remove(&mut self, handle: &S::Handle, subject: &Subject, name: &OsStr) -> io::Result<()> {
        let removed = match self.writing(handle, &AttributeChange::Remove(name)) {
            // It is as it should be.
            Err(error) if is_absent(&error) => Ok(()),
            removed => removed,
        };
        self.unless_refused(subject, &called(name), removed)
    }

    /// False if there is no room for it.
    fn set(
        &mut self,
        handle: &S::Handle,
        subject: &Subject,
        name: &OsStr,
        value: &[u8],
    ) -> io::Result<bool> {
        let change = AttributeChange::Set {
            name,
            value,
            flags: XattrFlags::empty(),
        };
        match self.writing(handle, &change) {
            Err(error) if is_crowded(&error) => Ok(false),
            set => self
                .unless_refused(subject, &called(name), set)
                .map(|()| true),
        }
    }

    /// A user that may not write its own file has to allow itself that for as long as it takes.
    fn writing(&self, handle: &S::Handle, change: &AttributeChange<'_>) -> io::Result<()> {
        let refused = match self.space.change(handle, change) {
            Err(error) if error.raw_os_error() == Some(libc::EACCES) => error,
            changed => return changed,
        };
        let mode = self.space.seen(handle)?.mode & !KIND_BITS;
        let writable = (mode | libc::S_IWUSR) & !PRIVILEGE_BITS;
        let set_mode = |mode| self.space.change(handle, &AttributeChange::Mode(mode));
        if mode & libc::S_IWUSR != 0 || set_mode(writable).is_err() {
            return Err(refused);
        }
        let changed = self.space.change(handle, change);
        set_mode(mode)?;
        changed
    }

    /// Where the system refuses something for good, the rest goes on.
    fn unless_refused(
        &mut self,
        subject: &Subject,
        what: &str,
        result: io::Result<()>,
    ) -> io::Result<()> {
        match result {
            Ok(()) => Ok(()),
            Err(error) if is_refusal(&error) => {
                self.complain(subject, what, &error.to_string());
                Ok(())
            }
            Err(error) => Err(io::Error::new(
                error.kind(),
                format!(
                    "{}: its {what} could not be restored ({error}); remove the cause and recover again",
                    for_people(&subject.path).display()
                ),
            )),
        }
    }

    fn complain(&mut self, subject: &Subject, what: &str, why: &str) {
        let path = for_people(&subject.path).display();
        self.refused
            .push(format!("{path}: its {what} could not be restored ({why})"));
    }
}

/// What becomes of an inode whose attributes are to be restored.
enum Held<H> {
    It(H),
    /// It has no name.
    Nothing,
    /// Another one has its name now, or none has.
    Another,
}

/// Holds the very inode that was found or made, if it is there still: others may be at work.
fn hold_same<S: NameSpace>(
    space: &S,
    found: &Reconciled<S>,
    id: FileId,
) -> io::Result<Held<S::Handle>> {
    let held = match found.now.handles.get(&id) {
        Some(directory) => Some(directory.clone()),
        None => match found.hold(space, id) {
            Err(error) if is_missing(&error) => return Ok(Held::Another),
            held => held?,
        },
    };
    let (Some(handle), Some(known)) = (held, found.now.seen.get(&id)) else {
        return Ok(Held::Nothing);
    };
    Ok(match space.seen(&handle)?.identity == known.identity {
        true => Held::It(handle),
        false => Held::Another,
    })
}

fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || matches!(error.raw_os_error(), Some(libc::ENOTDIR | libc::ESTALE))
}

fn for_people(path: &Path) -> &Path {
    match path.as_os_str().is_empty() {
        true => Path::new("the directory itself"),
        false => path,
    }
}

fn called(name: &OsStr) -> String {
    format!("extended attribute {}", name.display())
}

fn is_crowded(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}

/// What no later recovery could do either.
fn is_refusal(error: &io::Error) -> bool {
    let refusals = [
        libc::EPERM,
        libc::EACCES,
        libc::EOPNOTSUPP,
        libc::EINVAL,
        libc::EOVERFLOW,
        libc::E2BIG,
        libc::ERANGE,
    ];
    error
        .raw_os_error()
        .is_some_and(|number| refusals.contains(&number))
}
