//! How inodes get into the log: with the way from the root to one of their names.

use std::ffi::OsStr;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::MutexGuard;

use super::errors::NotBegun;
use super::record::Record;
use super::space::{Identity, NameSpace, Place, Seen};
use super::{Inner, Names};
use crate::metadata::{Durable, FileId};
use crate::mutants::{Mutant, mutated};

/// So many directories are synced one by one before the whole backing is.
const DIRECTORIES_SYNCED_ALONE: u32 = 4;

/// Whether an inode is to be found after a crash.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// The backing must not lose it.
    Lasting,
    /// It is about to be removed, or synced already.
    Passing,
}

/// Why an operation cannot be begun yet, or at all.
pub(super) enum Stop<H> {
    /// What others made has to be durable before the log may tell of it. The names are not locked meanwhile.
    Unsynced {
        handle: H,
        seen: Box<Seen>,
        /// It is what the operation is about, not a directory on the way.
        is_subject: bool,
    },
    Error(io::Error),
}

impl<H> From<io::Error> for Stop<H> {
    fn from(error: io::Error) -> Stop<H> {
        Stop::Error(error)
    }
}

/// The names, locked for an operation that may have to be begun again.
pub(super) struct Locked<'a> {
    inner: MutexGuard<'a, Inner>,
    /// What was synced for it.
    synced: Vec<Identity>,
}

impl Deref for Locked<'_> {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.inner
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Inner {
        &mut self.inner
    }
}

impl Locked<'_> {
    /// What others made since the last sync may be lost with them.
    fn must_sync(&self, seen: &Seen) -> bool {
        let is_durable = seen.made_ns < self.synced_ns && !self.was_left_out(seen.identity.device);
        !is_durable && !self.synced.contains(&seen.identity)
    }
}

impl<S: NameSpace> Names<S> {
    /// Locks the names with room in the log, and does what an operation needs before anything is changed: `prepare` is
    /// repeated when what it found unsynced has been synced.
    ///
    /// # Errors
    /// `prepare`'s, the backing's or the pool's.
    pub(super) fn begin_operation<T>(
        &self,
        sync: Option<&dyn Fn() -> io::Result<()>>,
        mut prepare: impl FnMut(&mut Locked<'_>) -> Result<T, Stop<S::Handle>>,
    ) -> Result<(MutexGuard<'_, Inner>, T), NotBegun> {
        let mut synced = Vec::new();
        loop {
            let mut locked = Locked {
                inner: self.lock_with_room()?,
                synced,
            };
            let (handle, seen, is_subject) = match prepare(&mut locked) {
                Ok(prepared) => return Ok((locked.inner, prepared)),
                Err(Stop::Error(error)) => return Err(error.into()),
                Err(Stop::Unsynced {
                    handle,
                    seen,
                    is_subject,
                }) => (handle, seen, is_subject),
            };
            let Locked {
                inner,
                synced: done,
            } = locked;
            drop(inner);
            match sync.filter(|_| is_subject) {
                Some(sync) => sync()?,
                None => {
                    let synced = self.sync_found(&handle, &seen);
                    synced.map_err(NotBegun::Unsynced)?;
                }
            }
            synced = done;
            synced.push(seen.identity);
        }
    }

    /// The id by which an open inode is found after a crash, from now until it is released.
    ///
    /// # Errors
    /// The backing's or the pool's; `ENOENT` if it has no name.
    pub(crate) fn acquire(
        &self,
        handle: &S::Handle,
        sync: &dyn Fn() -> io::Result<()>,
    ) -> io::Result<FileId> {
        let (mut inner, id) = self.begin_operation(Some(sync), |inner| {
            let seen = self.space.seen(handle)?;
            match self.introduced(inner, handle, &seen) {
                // The name it was opened by is gone, or it is not below the root.
                Err(Stop::Error(error))
                    if matches!(error.raw_os_error(), Some(libc::ESTALE | libc::EXDEV)) =>
                {
                    Ok(None)
                }
                found => found,
            }
        })?;
        let id = id.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))?;
        inner.held.insert(id);
        Ok(id)
    }

    /// The id of an open inode, introduced by one of its names; none if it has no name.
    pub(super) fn introduced(
        &self,
        inner: &mut Locked<'_>,
        handle: &S::Handle,
        seen: &Seen,
    ) -> Result<Option<FileId>, Stop<S::Handle>> {
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
            _ => return Err(moved_by_others().into()),
        }
        let place = Place { parent, name };
        let is_known = inner.table.find(&seen.identity).is_some();
        if !is_known && inner.must_sync(seen) {
            return Err(Stop::Unsynced {
                handle: handle.clone(),
                seen: Box::new(seen.clone()),
                is_subject: true,
            });
        }
        let id = self.ensure(inner, &directory, seen, place, Need::Passing)?;
        Ok(Some(id))
    }

    /// The id of a directory, introduced.
    pub(super) fn directory(
        &self,
        inner: &mut Locked<'_>,
        handle: &S::Handle,
    ) -> Result<FileId, Stop<S::Handle>> {
        let seen = self.space.seen(handle)?;
        let id = self.introduced(inner, handle, &seen)?;
        id.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT).into())
    }

    /// Makes durable what others made. A sync of the whole backing does so for all that was made before; but it waits for
    /// what other programs wrote, too, so a few directories are synced alone.
    pub(super) fn sync_found(&self, handle: &S::Handle, seen: &Seen) -> io::Result<()> {
        if seen.is_directory() {
            if self.lock().syncs_alone(seen.identity.device) {
                return self.space.sync_inode(handle);
            }
            // Nothing else may have been seen of its file system, which is to be synced with the others.
            self.space.seen(handle)?;
        }
        let now_ns = self.space.now_ns();
        self.space.sync_all()?;
        let mut inner = self.lock();
        inner.synced_ns = inner.synced_ns.max(now_ns);
        inner.directories_synced = 0;
        Ok(())
    }

    fn walk(
        &self,
        inner: &mut Locked<'_>,
        path: &[std::ffi::OsString],
    ) -> Result<(S::Handle, FileId), Stop<S::Handle>> {
        let mut directory = self.space.root();
        let mut parent = FileId::ROOT;
        for name in path {
            let seen = self.look_known(&directory, name)?;
            let name = name.clone();
            let place = Place { parent, name };
            parent = self.ensure(inner, &directory, &seen, place.clone(), Need::Lasting)?;
            directory = self.space.hold(&directory, &place.name)?;
            // The file system that it is on will have to be synced.
            self.space.seen(&directory)?;
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
    /// As [`Names::ensure`].
    pub(super) fn is_under(
        &self,
        inner: &mut Locked<'_>,
        (directory, id): (&S::Handle, FileId),
        other: FileId,
    ) -> Result<bool, Stop<S::Handle>> {
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
        inner: &mut Locked<'_>,
        directory: &S::Handle,
        seen: &Seen,
        place: Place,
        need: Need,
    ) -> Result<FileId, Stop<S::Handle>> {
        if let Some(id) = inner.table.find(&seen.identity)
            && seen.is_directory()
            && self.is_under(inner, (directory, place.parent), id)?
        {
            return Err(moved_by_others().into());
        }
        self.ensure(inner, directory, seen, place, need)
    }

    /// The id of what was seen at a place, which the log knows to be there from now on.
    pub(super) fn ensure(
        &self,
        inner: &mut Locked<'_>,
        directory: &S::Handle,
        seen: &Seen,
        place: Place,
        need: Need,
    ) -> Result<FileId, Stop<S::Handle>> {
        let known = inner.table.find(&seen.identity);
        if let Some(id) = known {
            if seen.is_directory() && inner.table.is_under(place.parent, id) {
                // Moved while we looked.
                return Err(moved_by_others().into());
            }
            // The next log may not know it yet.
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
            let records: Vec<Record> = records.collect();
            inner.tell(records, Durable::AfterSync)?;
            return Ok(id);
        }
        if need == Need::Lasting && inner.must_sync(seen) {
            return Err(Stop::Unsynced {
                handle: self.space.hold(directory, &place.name)?,
                seen: Box::new(seen.clone()),
                is_subject: false,
            });
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
            inner.tell(vec![record], Durable::AfterSync)?;
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
        inner.tell(described.clone(), Durable::AfterSync)?;
        inner.file_systems.insert(device, described);
        Ok(())
    }
}

impl Inner {
    /// Whether one more directory that others made, on this device, is to be synced by itself.
    fn syncs_alone(&mut self, device: u64) -> bool {
        self.directories_synced += 1;
        self.directories_synced <= DIRECTORIES_SYNCED_ALONE && !self.was_left_out(device)
    }

    /// Whether the backing was synced when nothing of this file system had been seen: it was not synced with the rest.
    fn was_left_out(&self, device: u64) -> bool {
        self.synced_ns > self.durable_before_ns && !self.file_systems.contains_key(&device)
    }

    /// What the current log knows, the next one knows too from now on, with all its names and the directories on the way
    /// there: what is recorded next relies on them.
    fn introduce_again(&mut self, id: FileId) -> io::Result<()> {
        let ids = self.on_the_way(&[id]);
        if !ids.is_empty() {
            self.tell(self.carried(&[id]), Durable::AfterSync)?;
            self.introduced.extend(ids);
        }
        Ok(())
    }
}

fn moved_by_others() -> io::Error {
    io::Error::from_raw_os_error(libc::ESTALE)
}
