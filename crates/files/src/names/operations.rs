//! The changes of names, one at a time.

use std::ffi::{OsStr, OsString};
use std::io;

use super::introduce::Need;
use super::media::Record;
use super::space::{Creation, KIND_BITS, NameSpace, Place, Renaming, Seen};
use super::{Inner, Names};
use crate::metadata::FileId;
use crate::mutants::{Mutant, mutated};

impl<S: NameSpace> Names<S> {
    /// `make` makes an inode of this name in the directory; it is recorded when this returns.
    ///
    /// # Errors
    /// `make`'s, the backing's or the pool's.
    pub(crate) fn create<T>(
        &self,
        directory: &S::Handle,
        name: &OsStr,
        make: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let mut inner = self.lock();
        self.make_room(&mut inner)?;
        let place = self.place(&mut inner, directory, name)?;
        inner.check()?;
        let made = make()?;
        let Some(seen) = self.space.look(directory, name)? else {
            // Another process has removed it already.
            return Ok(made);
        };
        let id = inner.new_id()?;
        self.record_made(&mut inner, directory, &seen, id, place)?;
        Ok(made)
    }

    fn record_made(
        &self,
        inner: &mut Inner,
        directory: &S::Handle,
        seen: &Seen,
        id: FileId,
        place: Place,
    ) -> io::Result<()> {
        let target = match seen.mode & KIND_BITS {
            libc::S_IFLNK => self.space.target(directory, &place.name)?,
            _ => OsString::new(),
        };
        inner.commit(vec![Record::Create {
            id,
            identity: seen.identity,
            creation: Creation::of(seen, target),
            place,
        }])?;
        inner.introduced.insert(id);
        Ok(())
    }

    /// Gives a held inode one more name: `perform` does it.
    ///
    /// # Errors
    /// `perform`'s, the backing's or the pool's.
    pub(crate) fn link(
        &self,
        subject: &S::Handle,
        directory: &S::Handle,
        name: &OsStr,
        perform: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let mut inner = self.lock();
        self.make_room(&mut inner)?;
        let place = self.place(&mut inner, directory, name)?;
        let before = self.space.seen(subject)?;
        let sync = || self.space.sync_inode(subject);
        let known = match self.introduced(&mut inner, subject, &before, &sync) {
            // The name that it was opened by is gone, and its others are not known here.
            Err(error) if error.raw_os_error() == Some(libc::ESTALE) => {
                inner.check()?;
                perform()?;
                // With its other names, which recovery would not look at, it must not be lost.
                sync()?;
                let seen = self.space.seen(subject)?;
                let need = Need::Passing;
                return self
                    .ensure(&mut inner, directory, &seen, place, need)
                    .map(drop);
            }
            known => known?,
        };
        inner.check()?;
        perform()?;
        if let Some(id) = known {
            return inner.commit(vec![Record::Link { id, place }]);
        }
        // It had no name, so the backing may lose all of it.
        let seen = self.space.seen(subject)?;
        let id = match inner.table.find(&seen.identity) {
            Some(id) => id,
            None => inner.new_id()?,
        };
        self.record_made(&mut inner, directory, &seen, id, place)
    }

    /// Removes a name; a directory's if `is_directory`.
    ///
    /// # Errors
    /// As `unlinkat`, or the pool's.
    pub(crate) fn remove(
        &self,
        directory: &S::Handle,
        name: &OsStr,
        is_directory: bool,
    ) -> io::Result<()> {
        let mut inner = self.lock();
        self.make_room(&mut inner)?;
        let place = self.place(&mut inner, directory, name)?;
        let victim = self.look(directory, name)?;
        match (victim.is_directory(), is_directory) {
            (true, false) => return Err(refusal(libc::EISDIR)),
            (false, true) => return Err(refusal(libc::ENOTDIR)),
            _ => {}
        }
        self.space.check_removable(directory, &victim)?;
        if is_directory && !self.space.is_empty(directory, name)? {
            return Err(refusal(libc::ENOTEMPTY));
        }
        let need = Need::Passing;
        let id = self.ensure_in(&mut inner, directory, &victim, place.clone(), need)?;
        let record = Record::Unlink { id, place };
        inner.displace(record, || self.space.remove(directory, name, is_directory))?;
        inner.forget_if_gone(id);
        Ok(())
    }

    /// Changes a name.
    ///
    /// # Errors
    /// As `renameat2`, or the pool's.
    pub(crate) fn rename(
        &self,
        from: (&S::Handle, &OsStr),
        to: (&S::Handle, &OsStr),
        how: Renaming,
    ) -> io::Result<()> {
        let mut inner = self.lock();
        self.make_room(&mut inner)?;
        let old = self.place(&mut inner, from.0, from.1)?;
        let new = self.place(&mut inner, to.0, to.1)?;
        let subject = self.look(from.0, from.1)?;
        let target = self.space.look(to.0, to.1)?;
        if how == Renaming::NoReplace && target.is_some() {
            return Err(refusal(libc::EEXIST));
        }
        let is_same = |target: &Seen| target.identity == subject.identity;
        if target.as_ref().is_some_and(is_same) {
            // Two names of one inode: both stay.
            return self.space.rename(from, to, how);
        }
        self.check_renameable(&subject, from, target.as_ref(), to, how)?;
        let need = Need::Lasting;
        let id = self.ensure_in(&mut inner, from.0, &subject, old.clone(), need)?;
        if self.is_under(&mut inner, (to.0, new.parent), id)? {
            return Err(refusal(libc::EINVAL));
        }
        let mut victim = None;
        if let Some(target) = &target {
            let need = match how {
                Renaming::Exchange => Need::Lasting,
                _ => Need::Passing,
            };
            let target = self.ensure_in(&mut inner, to.0, target, new.clone(), need)?;
            let is_exchange = how == Renaming::Exchange;
            if is_exchange && self.is_under(&mut inner, (from.0, old.parent), target)? {
                return Err(refusal(libc::EINVAL));
            }
            victim = Some(target);
        }
        let record = match how {
            Renaming::Exchange => Record::Exchange {
                one: old,
                other: new,
            },
            _ => Record::Rename {
                id,
                from: old,
                to: new,
            },
        };
        inner.displace(record, || self.space.rename(from, to, how))?;
        if let Some(victim) = victim {
            inner.forget_if_gone(victim);
        }
        Ok(())
    }

    /// Whether recovery would find the inode when this name of it is gone.
    ///
    /// # Errors
    /// The backing's.
    pub(crate) fn knows_another(&self, directory: &S::Handle, name: &OsStr) -> io::Result<bool> {
        let mut inner = self.lock();
        self.make_room(&mut inner)?;
        let place = self.place(&mut inner, directory, name)?;
        let seen = self.look(directory, name)?;
        let id = inner.table.find(&seen.identity);
        let id = id.filter(|id| inner.introduced.contains(id));
        let node = id.and_then(|id| inner.table.node(id));
        Ok(node.is_some_and(|node| node.names.iter().any(|other| *other != place)))
    }

    /// Refuses what the backing would, before it is recorded.
    fn check_renameable(
        &self,
        subject: &Seen,
        from: (&S::Handle, &OsStr),
        target: Option<&Seen>,
        to: (&S::Handle, &OsStr),
        how: Renaming,
    ) -> io::Result<()> {
        self.space.check_removable(from.0, subject)?;
        self.space
            .check_removable(to.0, target.unwrap_or(subject))?;
        if self.space.seen(to.0)?.identity.device != subject.identity.device {
            return Err(refusal(libc::EXDEV));
        }
        if how == Renaming::Exchange && target.is_none() {
            return Err(refusal(libc::ENOENT));
        }
        let Some(target) = target.filter(|_| how == Renaming::Replace) else {
            return Ok(());
        };
        match (subject.is_directory(), target.is_directory()) {
            (true, false) => Err(refusal(libc::ENOTDIR)),
            (false, true) => Err(refusal(libc::EISDIR)),
            (true, true) if !self.space.is_empty(to.0, to.1)? => Err(refusal(libc::ENOTEMPTY)),
            _ => Ok(()),
        }
    }

    fn look(&self, directory: &S::Handle, name: &OsStr) -> io::Result<Seen> {
        let seen = self.space.look(directory, name)?;
        seen.ok_or_else(|| refusal(libc::ENOENT))
    }

    fn place(&self, inner: &mut Inner, directory: &S::Handle, name: &OsStr) -> io::Result<Place> {
        Ok(Place {
            parent: self.directory(inner, directory)?,
            name: name.to_os_string(),
        })
    }
}

impl Inner {
    /// Nothing may be changed that could not be recorded.
    fn check(&self) -> io::Result<()> {
        match &self.broken {
            Some(reason) => Err(io::Error::other(reason.clone())),
            None => Ok(()),
        }
    }

    /// What takes a name away is recorded before it is done. Afterwards a crash could leave an inode
    /// where the log does not look for it, or none, and no trace of what it was: neither the state
    /// before nor the one after could be made.
    fn displace(
        &mut self,
        record: Record,
        perform: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        if mutated(Mutant::FilesNameRecordedAfter) {
            perform()?;
            return self.commit(vec![record]);
        }
        self.write(std::slice::from_ref(&record))?;
        if let Err(error) = perform() {
            self.write(&[Record::Abort])?;
            return Err(error);
        }
        self.learn(record)
    }
}

fn refusal(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}
