//! What becomes of attributes before files get their data: nobody may see that who must not, and no program may run with another
//! user's rights before it is whole. Rights are only taken here; what is given, and all else, comes behind the data
//! ([`super::restore`]). What an owner may do with its own is no matter: it can give itself any right.

use std::ffi::OsStr;
use std::io;

use super::Names;
use super::attributes::{AttributeChange, CAPABILITY, Rights};
use super::change::is_absent;
use super::compare::{GROUP_BITS, NOT_OWNERS_BITS};
use super::locate::{Held, hold_same};
use super::reconcile::Reconciled;
use super::space::{KIND_BITS, NameSpace, PRIVILEGE_BITS, Seen};
use super::subjects::{Subject, subjects};
use crate::mutants::{Mutant, mutated};

impl<S: NameSpace> Names<S> {
    /// Takes rights, as above, of all that was found. What cannot be kept from others does not get its data: see
    /// [`Reconciled::is_barred`].
    pub(crate) fn restrict(&self, found: &mut Reconciled<S>) {
        for subject in subjects(found) {
            let restricted = match hold_same(&self.space, &found.now, subject.id) {
                Ok(Held::It(handle)) => self.restrict_one(&handle, &subject),
                // What is not there gets nothing.
                Ok(_) => Ok(()),
                Err(error) => Err(error),
            };
            if let Err(error) = restricted {
                let why = format!(
                    "{}: others cannot be kept from it ({error})",
                    subject.path.display()
                );
                found.barred.insert(subject.id, why);
            }
        }
    }

    fn restrict_one(&self, handle: &S::Handle, subject: &Subject) -> io::Result<()> {
        let space = &self.space;
        // One that is as told was given to what the file holds: a change of that would have taken it, and what the pool had was
        // drained before.
        let capability = OsStr::new(CAPABILITY);
        if let Some(told) = subject.wanted.told_of(capability)
            && subject.is_file()
            && space.value(handle, capability)?.as_deref() != told
        {
            unless_refused(space.change(handle, &AttributeChange::Remove(capability)))?;
        }
        let seen = space.seen(handle)?;
        let Some(rights) = subject.wanted.rights() else {
            return Ok(());
        };
        if mutated(Mutant::FilesRightsNotRestored) {
            return Ok(());
        }
        let owner = subject.owner(&seen);
        if subject.has_mode() {
            let has_other_list = subject.wanted.has_other_list(space, handle)?;
            let mode = seen.mode & !KIND_BITS;
            let is_owned = owner == Rights::of(&seen).owner();
            let narrow = narrowed(subject, mode, rights, is_owned, has_other_list);
            if narrow != mode {
                space.change(handle, &AttributeChange::Mode(narrow))?;
            }
        }
        self.take_from_owner(handle, subject, &seen)?;
        // The files in it get their data, durably, when it keeps others out, durably. A try that was killed may have made it
        // so only in memory.
        match subject.is_directory() {
            true => space.sync_inode(handle),
            false => Ok(()),
        }
    }

    /// Neither the owner that it has nor the one that it is to have may see what is between the old content and the new one.
    fn take_from_owner(
        &self,
        handle: &S::Handle,
        subject: &Subject,
        seen: &Seen,
    ) -> io::Result<()> {
        let owner = subject.owner(seen);
        let between = match subject.theirs.rights {
            // Whose it was is not known any more once it is changed.
            true => owner,
            false => (self.space.user(), owner.1),
        };
        if owner.0 == seen.user || between == (seen.user, seen.group) {
            return Ok(());
        }
        let change = AttributeChange::Owner {
            user: Some(between.0),
            group: Some(between.1),
        };
        unless_refused(self.space.change(handle, &change))
    }
}

/// The rights that both allow.
fn narrowed(
    subject: &Subject,
    mode: u32,
    rights: Rights,
    is_owned: bool,
    has_other_list: bool,
) -> u32 {
    let mut narrow = match is_owned {
        true => mode & (rights.mode | !NOT_OWNERS_BITS),
        false => mode & !NOT_OWNERS_BITS,
    };
    if has_other_list {
        narrow &= !GROUP_BITS;
    }
    if subject.is_directory() {
        narrow |= rights.mode & libc::S_ISVTX;
    }
    if mutated(Mutant::FilesSetIdBeforeData) {
        return rights.mode;
    }
    if subject.is_file() {
        narrow &= !PRIVILEGE_BITS;
    }
    narrow
}

/// Without root no files are given away, and no capabilities are taken: nothing was that needs it.
fn unless_refused(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) || is_absent(&error) => Ok(()),
        result => result,
    }
}
