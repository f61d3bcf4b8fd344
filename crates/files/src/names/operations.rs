//! The changes of names, one at a time.

use std::ffi::{OsStr, OsString};
use std::io;

use super::introduce::{Locked, Need, Stop};
use super::record::Record;
use super::space::{Creation, KIND_BITS, NameSpace, Place, Renaming, Seen};
use super::{Inner, Names};
use crate::metadata::{Durable, FileId};
use crate::mutants::{Mutant, mutated};

impl<S: NameSpace> Names<S> {
    /// `make` makes an inode of this name in the directory; it is recorded when this returns, durable after a sync of the pool.
    ///
    /// # Errors
    /// `make`'s, the backing's or the pool's.
    pub(crate) fn create<T>(
        &self,
        directory: &S::Handle,
        name: &OsStr,
        make: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let (mut inner, place) = self.begin_operation(None, |inner| {
            let place = self.place(inner, directory, name)?;
            inner.check()?;
            Ok(place)
        })?;
        let made = make()?;
        let Some(seen) = self.space.look(directory, name)? else {
            // Another process has removed it already.
            return Ok(made);
        };
        self.record_made(&mut inner, directory, &seen, place)?;
        Ok(made)
    }

    fn record_made(
        &self,
        inner: &mut Inner,
        directory: &S::Handle,
        seen: &Seen,
        place: Place,
    ) -> io::Result<()> {
        let target = match seen.mode & KIND_BITS {
            libc::S_IFLNK => self.space.target(directory, &place.name)?,
            _ => OsString::new(),
        };
        let id = inner.new_id()?;
        inner.commit(vec![Record::Create {
            id,
            identity: seen.identity,
            creation: Creation::of(seen, target),
            place,
        }])?;
        inner.introduced.insert(id);
        Ok(())
    }

    /// Records a name that was given to an inode which is durable in the backing with it, if it has it still.
    fn record_found(&self, directory: &S::Handle, name: &OsStr, made: &Seen) -> io::Result<()> {
        let recorded = self.begin_operation(None, |inner| {
            let place = self.place(inner, directory, name)?;
            inner.check()?;
            match self.space.look(directory, name)? {
                Some(seen) if seen.identity == made.identity => self
                    .ensure(inner, directory, &seen, place, Need::Passing)
                    .map(drop),
                _ => Ok(()),
            }
        });
        Ok(recorded.map(drop)?)
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
        let (mut inner, (place, known)) = self.begin_operation(None, |inner| {
            let place = self.place(inner, directory, name)?;
            let before = self.space.seen(subject)?;
            let known = match self.introduced(inner, subject, &before) {
                // The name that it was opened by is gone, and its others are not known here.
                Err(Stop::Error(error)) if error.raw_os_error() == Some(libc::ESTALE) => None,
                known => known?,
            };
            inner.check()?;
            Ok((place, known))
        })?;
        perform()?;
        if let Some(id) = known {
            return inner.commit(vec![Record::Link { id, place }]);
        }
        drop(inner);
        // It had no name, so the backing may have lost all of it, and what was changed of it is not recorded; or it has
        // others, which recovery would not look at: it must not be lost.
        let seen = self.space.seen(subject)?;
        self.sync_found(subject, &seen)?;
        self.record_found(directory, name, &seen)
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
        let (mut inner, (id, place)) = self.begin_operation(None, |inner| {
            let place = self.place(inner, directory, name)?;
            let victim = self.look(directory, name)?;
            match (victim.is_directory(), is_directory) {
                (true, false) => return Err(refusal(libc::EISDIR).into()),
                (false, true) => return Err(refusal(libc::ENOTDIR).into()),
                _ => {}
            }
            self.space.check_removable(directory, &victim)?;
            if is_directory && !self.space.is_empty(directory, name)? {
                return Err(refusal(libc::ENOTEMPTY).into());
            }
            let need = Need::Passing;
            let id = self.ensure_in(inner, directory, &victim, place.clone(), need)?;
            Ok((id, place))
        })?;
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
        let (mut inner, prepared) =
            self.begin_operation(None, |inner| self.prepare_rename(inner, from, to, how))?;
        let Some((record, victim)) = prepared else {
            // Two names of one inode: both stay.
            return self.space.rename(from, to, how);
        };
        inner.displace(record, || self.space.rename(from, to, how))?;
        if let Some(victim) = victim {
            inner.forget_if_gone(victim);
        }
        Ok(())
    }

    /// The record of a rename, and the inode that loses its name; none if both names are of one inode.
    fn prepare_rename(
        &self,
        inner: &mut Locked<'_>,
        from: (&S::Handle, &OsStr),
        to: (&S::Handle, &OsStr),
        how: Renaming,
    ) -> Result<Prepared, Stop<S::Handle>> {
        let old = self.place(inner, from.0, from.1)?;
        let new = self.place(inner, to.0, to.1)?;
        let subject = self.look(from.0, from.1)?;
        let target = self.space.look(to.0, to.1)?;
        if how == Renaming::NoReplace && target.is_some() {
            return Err(refusal(libc::EEXIST).into());
        }
        let is_same = |target: &Seen| target.identity == subject.identity;
        if target.as_ref().is_some_and(is_same) {
            return Ok(None);
        }
        self.check_renameable(&subject, from, target.as_ref(), to, how)?;
        let need = Need::Lasting;
        let id = self.ensure_in(inner, from.0, &subject, old.clone(), need)?;
        if self.is_under(inner, (to.0, new.parent), id)? {
            return Err(refusal(libc::EINVAL).into());
        }
        let mut victim = None;
        if let Some(target) = &target {
            let need = match how {
                Renaming::Exchange => Need::Lasting,
                _ => Need::Passing,
            };
            let target = self.ensure_in(inner, to.0, target, new.clone(), need)?;
            let is_exchange = how == Renaming::Exchange;
            if is_exchange && self.is_under(inner, (from.0, old.parent), target)? {
                return Err(refusal(libc::EINVAL).into());
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
        Ok(Some((record, victim)))
    }

    /// Whether recovery would find the inode when this name of it is gone.
    ///
    /// # Errors
    /// The backing's.
    pub(crate) fn knows_another(&self, directory: &S::Handle, name: &OsStr) -> io::Result<bool> {
        let (inner, (place, seen)) = self.begin_operation(None, |inner| {
            let place = self.place(inner, directory, name)?;
            Ok((place, self.look(directory, name)?))
        })?;
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

    fn place(
        &self,
        inner: &mut Locked<'_>,
        directory: &S::Handle,
        name: &OsStr,
    ) -> Result<Place, Stop<S::Handle>> {
        Ok(Place {
            parent: self.directory(inner, directory)?,
            name: name.to_os_string(),
        })
    }
}

/// The record of a rename, and the inode that loses its name; none if nothing is to be done.
type Prepared = Option<(Record, Option<FileId>)>;

impl Inner {
    /// Nothing may be changed that could not be recorded.
    pub(super) fn check(&self) -> io::Result<()> {
        match &self.broken {
            Some(reason) => Err(io::Error::other(reason.clone())),
            None => Ok(()),
        }
    }

    /// What takes a name away is recorded before it is done. Afterwards a crash could leave an inode
    /// where the log does not look for it, or none, and no trace of what it was: neither the state
    /// before nor the one after could be made. So the record is durable before, and with it all that were before: what the backing
    /// may be ahead of the log by is names that were added. That it is taken back is durable as well: else a crash would carry it out.
    fn displace(
        &mut self,
        record: Record,
        perform: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        if mutated(Mutant::FilesNameRecordedAfter) {
            perform()?;
            return self.commit(vec![record]);
        }
        let durable = match mutated(Mutant::FilesRemovalUnsynced) {
            true => Durable::AfterSync,
            false => Durable::AtOnce,
        };
        self.write(std::slice::from_ref(&record), durable)?;
        if let Err(error) = perform() {
            self.write(&[Record::Abort], Durable::AtOnce)?;
            return Err(error);
        }
        self.learn(record)
    }
}

fn refusal(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}
