//! Brings attributes of the backing to what the log says, after a power cut, when files have their data.
//!
//! Nothing of it may be put on another file than it was said of. What others changed after all that the log tells keeps what they
//! made of it, with no more rights than the log allows. The order: owners, since a change of owner takes capabilities; extended
//! attributes, those first that go, since others may need the room; modes and times last, files before directories and
//! these from the deepest up, so that nothing gets out of reach, and nothing inherits what its directory is to have.
//! What cannot be done to one inode holds up no other.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use rustix::fs::XattrFlags;

use super::Names;
use super::attributes::{AttributeChange, CAPABILITY, Rights};
use super::change::is_absent;
use super::compare::GROUP_BITS;
use super::locate::{Held, hold_same};
use super::permit::{Permits, attempt};
use super::reconcile::Reconciled;
use super::recovery_log::Attempt;
use super::space::{KIND_BITS, NameSpace, PRIVILEGE_BITS, Seen};
use super::subjects::{Subject, subjects};
use crate::metadata::FileId;
use crate::mutants::{Mutant, mutated};
use crate::naming::WithoutData;

impl<S: NameSpace> Names<S> {
    /// What the log says of attributes becomes so in the backing, but for files `without` their data, which keep no more
    /// rights than others may have on what they hold; nothing of it is durable there when this returns. Idempotent. Returns what failed and may be tried again, in words. What the file
    /// system refuses to this user, has no room for or cannot have is among the complaints, as are files that are not
    /// where they were found.
    pub(crate) fn restore(&self, found: &mut Reconciled<S>, without: &WithoutData) -> Vec<String> {
        let mut inner = self.lock();
        let mut subjects = subjects(found);
        let saved = subjects.extract_if(.., |subject| without.saved.contains(&subject.id));
        let saved: Vec<Subject> = saved.collect();
        subjects.retain(|subject| {
            !without.kept.contains(&subject.id) && found.is_barred(subject.id).is_none()
        });
        let mut work = Restoring {
            space: &self.space,
            permits: Permits::new(inner.recovery_log()),
            found,
            told: BTreeSet::new(),
            refused: Vec::new(),
            failed: Vec::new(),
        };
        work.everything(&subjects);
        work.each(&saved, |work, _, subject| {
            work.complain(subject, "attributes", "its data was saved beside the pool");
        });
        let (mut permits, refused, failed) = (work.permits, work.refused, work.failed);
        permits.tell(&mut found.table);
        found.attributes_left += refused.len() as u64;
        found.complaints.extend(refused);
        failed
    }

    /// Opens a file that its owner may not write: what is in the pool was written while the owner still could.
    ///
    /// # Errors
    /// `open`'s, the pool's.
    pub(super) fn open_with_rights<T>(
        &self,
        found: &mut Reconciled<S>,
        id: FileId,
        handle: &S::Handle,
        open: impl Fn() -> io::Result<T>,
    ) -> io::Result<T> {
        let mut inner = self.lock();
        let mut permits = Permits::new(inner.recovery_log());
        let opened = permits.with(&self.space, &found.table, (id, handle), open);
        permits.tell(&mut found.table);
        opened
    }

    /// Recovery ends, and is to be begun again: what others change from now on is theirs.
    pub(crate) fn rest(&self) -> io::Result<()> {
        let mut inner = self.lock();
        if inner.attempt == Attempt::Recorded {
            inner.recovery_log().may(&[attempt(&self.space, true)])?;
        }
        inner.attempt = Attempt::NotBegun;
        Ok(())
    }
}

/// Restores attributes.
struct Restoring<'a, 'log, S: NameSpace> {
    space: &'a S,
    permits: Permits<'log>,
    found: &'a Reconciled<S>,
    /// Inodes that were told of as not being where they were.
    told: BTreeSet<FileId>,
    /// What could not be restored, in words.
    refused: Vec<String>,
    /// The same of what may succeed another time.
    failed: Vec<String>,
}

impl<S: NameSpace> Restoring<'_, '_, S> {
    fn everything(&mut self, subjects: &[Subject]) {
        self.each(subjects, |work, handle, subject| {
            work.restore_owner(handle, subject);
            work.remove_values(handle, subject);
        });
        let mut crowded: BTreeSet<(FileId, OsString)> = BTreeSet::new();
        self.each(subjects, |work, handle, subject| {
            work.set_values(handle, subject, &mut |name| {
                crowded.insert((subject.id, name.to_os_string()));
            });
        });
        // A shorter value of another may have made room.
        self.each(subjects, |work, handle, subject| {
            if !crowded.iter().any(|(id, _)| *id == subject.id) {
                return;
            }
            let mut without = Vec::new();
            work.set_values(handle, subject, &mut |name| without.push(called(name)));
            for what in without {
                work.complain(subject, &what, "the file system has no room for it");
            }
        });
        self.each(subjects, |work, handle, subject| {
            let restored = work.restore_mode_and_times(handle, subject);
            work.unless_refused(subject, "mode or times", restored);
        });
    }

    /// Does it with each inode that is where it was found.
    fn each(&mut self, subjects: &[Subject], mut act: impl FnMut(&mut Self, &S::Handle, &Subject)) {
        for subject in subjects {
            match hold_same(self.space, &self.found.now, subject.id) {
                Ok(Held::It(handle)) => act(self, &handle, subject),
                Ok(Held::Nothing) => {}
                Ok(Held::Another) => {
                    if self.told.insert(subject.id) {
                        let why = "another program has put another file in its place";
                        self.complain(subject, "attributes", why);
                    }
                }
                Err(error) => {
                    if self.told.insert(subject.id) {
                        self.unless_refused(subject, "attributes", Err(error));
                    }
                }
            }
        }
    }

    fn restore_owner(&mut self, handle: &S::Handle, subject: &Subject) {
        if mutated(Mutant::FilesRightsNotRestored) {
            return;
        }
        let changed = self.space.seen(handle).and_then(|seen| {
            let (user, group) = subject.owner(&seen);
            match (seen.user, seen.group) == (user, group) {
                true => Ok(()),
                false => {
                    let change = AttributeChange::Owner {
                        user: Some(user),
                        group: Some(group),
                    };
                    self.space.change(handle, &change)
                }
            }
        });
        self.unless_refused(subject, "owner", changed);
    }

    fn remove_values(&mut self, handle: &S::Handle, subject: &Subject) {
        let removed: Vec<&OsStr> = subject
            .wanted
            .extended()
            .filter(|(name, value)| value.is_none() && is_ours(subject, name))
            .map(|(name, _)| name)
            .collect();
        for name in removed {
            let removed = match self.writing(handle, subject, &AttributeChange::Remove(name)) {
                // It is as it should be.
                Err(error) if is_absent(&error) => Ok(()),
                removed => removed,
            };
            self.unless_refused(subject, &called(name), removed);
        }
    }

    /// `crowded` is told what there is no room for.
    fn set_values(
        &mut self,
        handle: &S::Handle,
        subject: &Subject,
        crowded: &mut dyn FnMut(&OsStr),
    ) {
        for (name, value) in subject.wanted.extended() {
            let Some(value) = value.filter(|_| is_ours(subject, name)) else {
                continue;
            };
            if self.has_value(handle, name, value) {
                continue;
            }
            let change = AttributeChange::Set {
                name,
                value,
                flags: XattrFlags::empty(),
            };
            match self.writing(handle, subject, &change) {
                Err(error) if is_crowded(&error) => crowded(name),
                set => self.unless_refused(subject, &called(name), set),
            }
        }
    }

    fn has_value(&self, handle: &S::Handle, name: &OsStr, value: &[u8]) -> bool {
        let found = self.space.value(handle, name);
        found.is_ok_and(|found| found.as_deref() == Some(value))
    }

    /// A user that may not write its own file allows itself that until its mode is restored.
    fn writing(
        &mut self,
        handle: &S::Handle,
        subject: &Subject,
        change: &AttributeChange<'_>,
    ) -> io::Result<()> {
        let about = (subject.id, handle);
        let (space, table) = (self.space, &self.found.table);
        let change = || space.change(handle, change);
        self.permits.with(space, table, about, change)
    }

    fn restore_mode_and_times(&mut self, handle: &S::Handle, subject: &Subject) -> io::Result<()> {
        let seen = self.space.seen(handle)?;
        let has_mode = subject.has_mode() && !mutated(Mutant::FilesRightsNotRestored);
        let rights = subject.wanted.rights().or_else(|| {
            // Those that had to be given to write a value.
            let node = self.permits.rights_told(subject.id);
            node.or_else(|| self.found.table.node(subject.id)?.attributes.rights())
        });
        if let Some(rights) = rights.filter(|_| has_mode) {
            let mode = match subject.theirs.rights {
                true => self.common_mode(handle, subject, &seen, rights)?,
                false => owned_mode(&seen, rights),
            };
            if seen.mode & !KIND_BITS != mode {
                self.space.change(handle, &AttributeChange::Mode(mode))?;
            }
        }
        match subject
            .wanted
            .times(&seen)
            .filter(|_| !subject.theirs.times)
        {
            Some(times) => self.space.change(handle, &AttributeChange::Times(&times)),
            None => Ok(()),
        }
    }

    /// What both allow, and no privileges.
    fn common_mode(
        &self,
        handle: &S::Handle,
        subject: &Subject,
        seen: &Seen,
        rights: Rights,
    ) -> io::Result<u32> {
        let mut mode = seen.mode & !KIND_BITS & rights.mode;
        if subject.is_directory() {
            mode |= (seen.mode | rights.mode) & libc::S_ISVTX;
        }
        if subject.is_file() {
            mode &= !PRIVILEGE_BITS;
        }
        if subject.wanted.has_other_list(self.space, handle)? {
            mode &= !GROUP_BITS;
        }
        Ok(mode)
    }

    /// Where the system refuses something for good, or fails, the rest goes on.
    fn unless_refused(&mut self, subject: &Subject, what: &str, result: io::Result<()>) {
        match result {
            Ok(()) => {}
            Err(error) if is_refusal(&error) => self.complain(subject, what, &error.to_string()),
            Err(error) => self
                .failed
                .push(could_not(subject, what, &error.to_string())),
        }
    }

    fn complain(&mut self, subject: &Subject, what: &str, why: &str) {
        self.refused.push(could_not(subject, what, why));
    }
}

/// Whether what the log says of an extended attribute is to be so. Where others changed the inode, only a capability goes.
fn is_ours(subject: &Subject, name: &OsStr) -> bool {
    !subject.theirs.values || (name == CAPABILITY && !subject.wanted.has_value(name))
}

/// Without privileges of another user than was meant.
fn owned_mode(seen: &Seen, rights: Rights) -> u32 {
    match Rights::of(seen).owner() == rights.owner() {
        true => rights.mode,
        false => rights.mode & !PRIVILEGE_BITS,
    }
}

fn could_not(subject: &Subject, what: &str, why: &str) -> String {
    let path = match subject.path.as_os_str().is_empty() {
        true => Path::new("the directory itself"),
        false => &subject.path,
    };
    format!(
        "{}: its {what} could not be restored ({why})",
        path.display()
    )
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
