//! Changes of attributes, recorded where that makes them durable.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use crate::buffer::FileBuffer;
use crate::identity::FileIdentity;
use crate::names::AttributeChange;
use crate::naming::Naming;

impl FileBuffer {
    /// Changes attributes of an inode, which may be open as `O_PATH`. The change is made in the backing and, where that is enough
    /// to find it after a crash, recorded in the pool: a sync has nothing left to do then. What is not recorded
    /// (see `docs/inside/names.md`) the next sync of the inode makes durable in the backing. Returns whether it is recorded.
    ///
    /// # Errors
    /// The backing's, as the system call's.
    pub fn change_attributes(
        &self,
        inode: impl AsFd,
        change: &AttributeChange<'_>,
    ) -> io::Result<bool> {
        let inode = inode.as_fd();
        let identity = FileIdentity::of(inode)?;
        let held = Arc::new(inode.try_clone_to_owned()?);
        let apply = || self.names().change(&held, change);
        let content = match change.is_ended_by_writes() {
            true => self.registry().content(identity),
            false => None,
        };
        let is_recorded = match content {
            Some(content) => content.without_writes(apply)?,
            None => apply()?,
        };
        if !is_recorded {
            self.registry().awaits_backing(identity);
        }
        Ok(is_recorded)
    }

    /// Times of a file or directory were changed in the backing: its next [`SyncKind::All`](crate::SyncKind), or sync of the
    /// directory, makes that durable there.
    pub fn times_changed(&self, identity: FileIdentity) {
        self.registry().awaits_backing(identity);
    }

    /// The same of mode, owner or extended attributes, changed past [`FileBuffer::change_attributes`]. Until that sync, recovery
    /// takes them for others': of the rights that were recorded before and those that it finds, the narrower.
    pub fn attributes_changed(&self, identity: FileIdentity) {
        Naming::changed_without_record(self.shared_names(), identity);
        self.registry().awaits_backing(identity);
    }

    /// Whether attributes of the inode were changed and not recorded, and no sync has made them durable in the backing since.
    pub fn awaits_backing(&self, identity: FileIdentity) -> bool {
        match self.registry().content(identity) {
            Some(content) => content.has_unsynced_attributes(),
            None => self.registry().unsynced(identity).is_some(),
        }
    }

    /// Has `sync` make an inode durable in the backing, with what of its attributes was not recorded.
    pub(crate) fn settle(
        &self,
        identity: FileIdentity,
        sync: &dyn Fn() -> io::Result<()>,
    ) -> io::Result<()> {
        Naming::settle(self.shared_names(), identity, sync)
    }
}
