//! Changes of attributes, durable when they return.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use crate::buffer::FileBuffer;
use crate::identity::FileIdentity;
use crate::names::AttributeChange;
use crate::naming::Naming;

impl FileBuffer {
    /// Changes attributes of an inode, which may be open as `O_PATH`. The change is made in the backing and
    /// recorded in the pool, so that a sync has nothing left to do. What cannot be recorded (a value of more
    /// than 7 KiB, a pool that refuses) the next sync of the inode makes durable in the backing.
    ///
    /// # Errors
    /// The backing's, as the system call's: nothing has changed then.
    pub fn change_attributes(
        &self,
        inode: impl AsFd,
        change: &AttributeChange<'_>,
    ) -> io::Result<()> {
        let inode = inode.as_fd();
        let identity = FileIdentity::of(inode)?;
        let held = Arc::new(inode.try_clone_to_owned()?);
        let apply = || self.names().change(&held, change);
        let applied = match self.registry().content(identity) {
            Some(content) => content.change_attributes(change, apply)?,
            None => apply(),
        };
        if !applied.is_recorded {
            self.registry().awaits_backing(identity);
        }
        applied.result
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
