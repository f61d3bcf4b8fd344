//! What becomes of attributes before files get their data: nobody may see that who must not, and no program may run with another
//! user's rights before it is whole. Rights are only taken here; what is given, and all else, comes behind the data
//! ([`super::restore`]). What an owner may do with its own is no matter: it can give itself any right.

use std::io;

use super::Names;
use super::attributes::{AttributeChange, Rights};
use super::locate::{Held, hold_same};
use super::reconcile::Reconciled;
use super::space::{KIND_BITS, NameSpace, PRIVILEGE_BITS};
use super::subjects::{Subject, subjects};
use crate::mutants::{Mutant, mutated};

/// Bits of a mode by which others than the owner get at an inode.
const NOT_OWNERS_BITS: u32 = 0o077;

impl<S: NameSpace> Names<S> {
    /// Takes rights, as above, of all that was found, durably: a power cut must not give new bytes the rights of the old ones. What
    /// cannot be kept from others does not get its data: see [`Reconciled::is_barred`].
    pub(crate) fn restrict(&self, found: &mut Reconciled<S>) {
        let mut restricted = Vec::new();
        for subject in subjects(found) {
            let result = match hold_same(&self.space, &found.now, subject.id) {
                Ok(Held::It(handle)) => self.restrict_one(&handle, &subject),
                // What is not there gets nothing.
                Ok(_) => Ok(()),
                Err(error) => Err(error),
            };
            match result {
                Ok(()) if subject.wanted.rights.is_some() => restricted.push(subject),
                Ok(()) => {}
                Err(error) => bar(found, &subject, &error),
            }
        }
        if restricted.is_empty() {
            return;
        }
        // Also of what has nothing to lose now: a try that was cut short may have taken it in memory alone.
        if let Err(error) = self.space.sync_all() {
            for subject in &restricted {
                bar(found, subject, &error);
            }
        }
    }

    fn restrict_one(&self, handle: &S::Handle, subject: &Subject) -> io::Result<()> {
        let Some(rights) = subject.wanted.rights else {
            return Ok(());
        };
        if mutated(Mutant::FilesRightsNotRestored) {
            return Ok(());
        }
        let seen = self.space.seen(handle)?;
        let mode = seen.mode & !KIND_BITS;
        let owner = subject.owner(&seen);
        let is_owned = owner == Rights::of(&seen).owner();
        let narrow = narrowed(subject, mode, rights, is_owned);
        if narrow != mode {
            let change = AttributeChange::Mode(narrow);
            self.space.change(handle, &change)?;
        }
        if !is_owned {
            // Neither the owner that it has nor the one that it is to have may see what is between the old content and the
            // new one. Where others have changed it, whose it was would not be known any more.
            let (user, group) = match subject.theirs.rights {
                true => owner,
                false => (0, 0),
            };
            let change = AttributeChange::Owner {
                user: Some(user),
                group: Some(group),
            };
            unless_refused(self.space.change(handle, &change))?;
        }
        Ok(())
    }
}

fn bar<S: NameSpace>(found: &mut Reconciled<S>, subject: &Subject, error: &io::Error) {
    let path = subject.path.display();
    let why = format!("{path}: others cannot be kept from it ({error})");
    found.barred.insert(subject.id, why);
}

/// The rights that both allow.
fn narrowed(subject: &Subject, mode: u32, rights: Rights, is_owned: bool) -> u32 {
    if mutated(Mutant::FilesSetIdBeforeData) {
        return rights.mode;
    }
    let mut narrow = match is_owned {
        true => mode & (rights.mode | !NOT_OWNERS_BITS),
        false => mode & !NOT_OWNERS_BITS,
    };
    if subject.is_directory() {
        narrow |= rights.mode & libc::S_ISVTX;
    } else {
        narrow &= !PRIVILEGE_BITS;
    }
    narrow
}

/// Without root no files are given away: what was recorded by root is told of where it could not be restored.
fn unless_refused(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => Ok(()),
        result => result,
    }
}
