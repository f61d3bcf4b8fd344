//! Brings attributes of the backing to what the log says, after a power cut, when files have their data.
//!
//! Nothing of it may be put on another file than it was said of. What others changed after all that the log tells keeps what they
//! made of it, with no more rights than the log allows; so does what has an access list, whose mask the mode would move: it
//! had none when its mode was recorded. Owners come first, then extended attributes, and modes last, files before directories
//! and these from the deepest up, so that nothing gets out of reach. What cannot be done to one inode holds up no other.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;

use rustix::fs::XattrFlags;

use super::Names;
use super::attributes::{ACCESS_LIST, AttributeChange, Rights};
use super::locate::{Held, hold_same};
use super::reconcile::Reconciled;
use super::space::{KIND_BITS, NameSpace, PRIVILEGE_BITS};
use super::subjects::{Subject, subjects};
use crate::metadata::FileId;
use crate::mutants::{Mutant, mutated};
use crate::naming::WithoutData;

impl<S: NameSpace> Names<S> {
    /// What the log says of attributes becomes so in the backing, but for files `without` their data, which keep no more
    /// rights than others may have on what they hold; nothing of it is durable there when this returns. Idempotent. Returns
    /// what failed and may be tried again, in words. What the file system refuses to this user or cannot have is among the
    /// complaints, as are files that are not where they were found.
    pub(crate) fn restore(&self, found: &mut Reconciled<S>, without: &WithoutData) -> Vec<String> {
        let mut subjects = subjects(found);
        let saved = subjects.extract_if(.., |subject| without.saved.contains(&subject.id));
        let saved: Vec<Subject> = saved.collect();
        // The error of the recovery says what is kept; what is barred may have no data that is.
        subjects.retain(|subject| !without.kept.contains(&subject.id));
        let mut failed = BTreeSet::new();
        subjects.retain(|subject| {
            let why = found.is_barred(subject.id);
            failed.extend(why.map(str::to_owned));
            why.is_none()
        });
        let mut work = Restoring {
            space: &self.space,
            found,
            told: BTreeSet::new(),
            refused: Vec::new(),
            failed: failed.into_iter().collect(),
        };
        work.each(&subjects, Restoring::restore_owner);
        work.each(&subjects, Restoring::restore_values);
        work.each(&subjects, Restoring::restore_mode);
        work.each(&saved, |work, _, subject| {
            work.complain(subject, "attributes", "its data was saved beside the pool");
        });
        let (refused, failed) = (work.refused, work.failed);
        found.attributes_left += refused.len() as u64;
        found.complaints.extend(refused);
        failed
    }

    /// Recovery ends, and is to be begun again: what others change from now on is theirs.
    ///
    /// # Errors
    /// The pool's.
    pub(crate) fn rest(&self) -> io::Result<()> {
        self.lock().recovery_log().end_attempt(&self.space)
    }
}

/// Restores attributes.
struct Restoring<'a, S: NameSpace> {
    space: &'a S,
    found: &'a Reconciled<S>,
    /// Inodes that were told of as not being where they were.
    told: BTreeSet<FileId>,
    /// What could not be restored, in words.
    refused: Vec<String>,
    /// The same of what may succeed another time.
    failed: Vec<String>,
}

impl<S: NameSpace> Restoring<'_, S> {
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
        let changed = self.space.seen(handle).and_then(|seen| {
            let (user, group) = subject.owner(&seen);
            let change = AttributeChange::Owner {
                user: Some(user),
                group: Some(group),
            };
            match (seen.user, seen.group) == (user, group)
                || mutated(Mutant::FilesRightsNotRestored)
            {
                true => Ok(()),
                false => self.space.change(handle, &change),
            }
        });
        self.unless_refused(subject, "owner", changed);
    }

    fn restore_values(&mut self, handle: &S::Handle, subject: &Subject) {
        if subject.theirs.values {
            return;
        }
        // Those first that go: others may need the room.
        let (removed, set): (Vec<_>, Vec<_>) = subject
            .wanted
            .values
            .iter()
            .partition(|(_, value)| value.is_none());
        for (name, value) in removed.into_iter().chain(set) {
            let restored = self.restore_value(handle, name, value.as_deref());
            let what = format!("extended attribute {}", name.display());
            self.unless_refused(subject, &what, restored);
        }
    }

    fn restore_value(
        &self,
        handle: &S::Handle,
        name: &OsStr,
        value: Option<&[u8]>,
    ) -> io::Result<()> {
        if self.space.value(handle, name)?.as_deref() == value {
            return Ok(());
        }
        let flags = XattrFlags::empty();
        let change = match value {
            Some(value) => AttributeChange::Set { name, value, flags },
            None => AttributeChange::Remove(name),
        };
        self.space.change(handle, &change)
    }

    fn restore_mode(&mut self, handle: &S::Handle, subject: &Subject) {
        if mutated(Mutant::FilesRightsNotRestored) {
            return;
        }
        if let Some(rights) = subject.wanted.rights {
            let restored = self.restore_rights(handle, subject, rights);
            self.unless_refused(subject, "mode", restored);
        }
    }

    fn restore_rights(
        &self,
        handle: &S::Handle,
        subject: &Subject,
        rights: Rights,
    ) -> io::Result<()> {
        let seen = self.space.seen(handle)?;
        let found = seen.mode & !KIND_BITS;
        let is_owned = Rights::of(&seen).owner() == rights.owner();
        let has_list =
            subject.has_told_rights && self.space.value(handle, ACCESS_LIST.as_ref())?.is_some();
        let mut mode = match (subject.theirs.rights || has_list, subject.is_directory()) {
            (false, _) => rights.mode,
            (true, true) => found & rights.mode | (found | rights.mode) & libc::S_ISVTX,
            (true, false) => found & rights.mode & !PRIVILEGE_BITS,
        };
        if !is_owned && !subject.is_directory() {
            // Nobody runs it with the rights of another user than was meant.
            mode &= !PRIVILEGE_BITS;
        }
        match mode == found {
            true => Ok(()),
            false => self.space.change(handle, &AttributeChange::Mode(mode)),
        }
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

fn could_not(subject: &Subject, what: &str, why: &str) -> String {
    format!(
        "{}: its {what} could not be restored ({why})",
        subject.path.display()
    )
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
