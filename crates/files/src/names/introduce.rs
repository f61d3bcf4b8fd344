//! How inodes get into the log: with the way from the root to one of their names.

use std::ffi::OsStr;
use std::io;

use super::media::Record;
use super::space::{NameSpace, Place, Seen};
use super::{Inner, Names};
use crate::metadata::FileId;
use crate::mutants::{Mutant, mutated};

/// Whether an inode is to be found after a crash.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// The backing must not lose it.
    Lasting,
    /// It is about to be removed, or synced already.
    Passing,
}

impl<S: NameSpace> Names<S> {
    /// The id by which an open inode is found after a crash, from now until it is released.
    ///
    /// # Errors
    /// The backing's or the pool's; `ENOENT` if it has no name.
    pub(crate) fn acquire(
        &self,
        handle: &S::Handle,
        sync: &dyn Fn() -> io::Result<()>,
    ) -> io::Result<FileId> {
        let mut inner = self.lock();
        self.make_room(&mut inner)?;
        let seen = self.space.seen(handle)?;
        let id = match self.introduced(&mut inner, handle, &seen, sync) {
            // The name it was opened by is gone, or it is not below the root.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ESTALE | libc::EXDEV)) => None,
            found => found?,
        };
        let id = id.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))?;
        inner.held.insert(id);
        Ok(id)
    }

    /// The id of an open inode, introduced by one of its names; none if it has no name.
    pub(super) fn introduced(
        &self,
        inner: &mut Inner,
        handle: &S::Handle,
        seen: &Seen,
        sync: &dyn Fn() -> io::Result<()>,
    ) -> io::Result<Option<FileId>> {
        if let Some(id) = inner.table.find(&seen.identity)
            && inner.introduced.contains(&id)
            && inner
                .table
                .node(id)
                .is_some_and(|node| !node.names.is_empty())
        {
            return Ok(Some(id));
        }
        if seen.links == 0 {
            return Ok(None);
        }
        let mut path = self.space.path(handle)?;
        let Some(name) = path.pop() else {
            return Ok(Some(FileId::ROOT));
        };
        let (directory, parent) = self.walk(inner, &path)?;
        match self.space.look(&directory, &name)? {
            Some(there) if there.identity == seen.identity => {}
            _ => return Err(moved_by_others()),
        }
        let place = Place { parent, name };
        if inner.must_sync(seen) {
            sync()?;
        }
        let id = self.ensure(inner, &directory, seen, place, Need::Passing)?;
        Ok(Some(id))
    }

    /// The id of a directory, introduced.
    pub(super) fn directory(&self, inner: &mut Inner, handle: &S::Handle) -> io::Result<FileId> {
        let seen = self.space.seen(handle)?;
        let sync = || self.space.sync_inode(handle);
        let id = self.introduced(inner, handle, &seen, &sync)?;
        id.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))
    }

    fn walk(
        &self,
        inner: &mut Inner,
        path: &[std::ffi::OsString],
    ) -> io::Result<(S::Handle, FileId)> {
        let mut directory = self.space.root();
        let mut parent = FileId::ROOT;
        for name in path {
            let seen = self.look_known(&directory, name)?;
            let name = name.clone();
            let place = Place { parent, name };
            parent = self.ensure(inner, &directory, &seen, place.clone(), Need::Lasting)?;
            directory = self.space.hold(&directory, &place.name)?;
        }
        Ok((directory, parent))
    }

    fn look_known(&self, directory: &S::Handle, name: &OsStr) -> io::Result<Seen> {
        self.space
            .look(directory, name)?
            .ok_or_else(moved_by_others)
    }

    /// Whether a directory is another one or in it, by what the log knows. Where that says so it looks again where the
    /// directory is: others may have moved it, or one on the way there.
    ///
    /// # Errors
    /// The backing's or the pool's.
    pub(super) fn is_under(
        &self,
        inner: &mut Inner,
        (directory, id): (&S::Handle, FileId),
        other: FileId,
    ) -> io::Result<bool> {
        if !inner.table.is_under(id, other) {
            return Ok(false);
        }
        // Each is introduced where it is before what is in it, so none comes to be in itself on the way.
        self.walk(inner, &self.space.path(directory)?)?;
        Ok(inner.table.is_under(id, other))
    }

    /// The same as [`Names::ensure`], in a directory that may not be any more where the log has it.
    pub(super) fn ensure_in(
        &self,
        inner: &mut Inner,
        directory: &S::Handle,
        seen: &Seen,
        place: Place,
        need: Need,
    ) -> io::Result<FileId> {
        if let Some(id) = inner.table.find(&seen.identity)
            && seen.is_directory()
            && self.is_under(inner, (directory, place.parent), id)?
        {
            return Err(moved_by_others());
        }
        self.ensure(inner, directory, seen, place, need)
    }

    /// The id of what was seen at a place, which the log knows to be there from now on.
    pub(super) fn ensure(
        &self,
        inner: &mut Inner,
        directory: &S::Handle,
        seen: &Seen,
        place: Place,
        need: Need,
    ) -> io::Result<FileId> {
        let known = inner.table.find(&seen.identity);
        if let Some(id) = known {
            if seen.is_directory() && inner.table.is_under(place.parent, id) {
                // Moved while we looked.
                return Err(moved_by_others());
            }
            inner.introduce_again(id)?;
        }
        if let Some(id) = known
            && inner.introduced.contains(&id)
        {
            let node = inner.table.node(id).expect("it was found");
            if node.names.contains(&place) {
                return Ok(id);
            }
            // A name that another program gave it. With one name in all, the old ones are gone; all in one append, since what
            // has no name would be removed. It is not told as a rename: what had the name may be elsewhere by now.
            let is_only = seen.links == 1 || seen.is_directory();
            let old = node.names.iter().filter(|_| is_only).cloned();
            let old = old.map(|place| Record::Unlink { id, place });
            let records = std::iter::once(Record::Link { id, place }).chain(old);
            inner.commit(records.collect())?;
            return Ok(id);
        }
        if need == Need::Lasting && inner.must_sync(seen) {
            let handle = self.space.hold(directory, &place.name)?;
            self.space.sync_inode(&handle)?;
        }
        let id = match known {
            Some(id) => id,
            None => inner.new_id()?,
        };
        self.note_file_system(inner, directory, seen, &place.name)?;
        let record = Record::Introduce {
            id,
            mode: seen.mode,
            identity: seen.identity,
            place,
        };
        if mutated(Mutant::FilesNotIntroduced) {
            inner.learn(record)?;
        } else {
            inner.commit(vec![record])?;
        }
        inner.introduced.insert(id);
        Ok(id)
    }

    /// What the log says of a file system that something in it lies on.
    pub(super) fn describe(&self, handle: &S::Handle, device: u64) -> io::Result<Vec<Record>> {
        let mounting = self.space.mounting(handle)?;
        let mounting = mounting.map(|mounting| Record::Mounted { device, mounting });
        let mark = self.space.mark(handle)?;
        let mark = mark.map(|mark| Record::FileSystem { device, mark });
        Ok(mounting.into_iter().chain(mark).collect())
    }

    /// The log is to know every file system that it tells of. What is made lies on that of its
    /// directory, which is known.
    fn note_file_system(
        &self,
        inner: &mut Inner,
        directory: &S::Handle,
        seen: &Seen,
        name: &OsStr,
    ) -> io::Result<()> {
        let device = seen.identity.device;
        if inner.file_systems.contains_key(&device) {
            return Ok(());
        }
        let described = self.describe(&self.space.hold(directory, name)?, device)?;
        inner.file_systems.insert(device, described.clone());
        inner.commit(described)
    }
}

impl Inner {
    /// What the current log knows, the next one knows too from now on, with all its names and the directories on the way
    /// there: what is recorded next may be about any of them.
    fn introduce_again(&mut self, id: FileId) -> io::Result<()> {
        let ids = self.on_the_way(&[id]);
        if !ids.is_empty() {
            self.commit(self.carried(&ids))?;
            self.introduced.extend(ids);
        }
        Ok(())
    }

    /// What others made since the last sync may be lost with them.
    fn must_sync(&self, seen: &Seen) -> bool {
        seen.made_ns >= self.synced_ns
    }
}

fn moved_by_others() -> io::Error {
    io::Error::from_raw_os_error(libc::ESTALE)
}
