//! Changes of attributes, durable when they return.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::fs::UTIME_OMIT;

use crate::buffer::FileBuffer;
use crate::identity::FileIdentity;
use crate::names::AttributeChange;

/// A capability goes with the next byte that is written to the backing.
const CAPABILITY: &str = "security.capability";

impl FileBuffer {
    /// Changes attributes of an inode, which may be open as `O_PATH`. The change is made in the backing and
    /// recorded in the pool, so that a sync has nothing left to do. What cannot be recorded (a value of more
    /// than 7 KiB, an inode without a name, a pool that refuses) the next sync of the inode makes durable in
    /// the backing.
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
        if let AttributeChange::Set { name, .. } = change
            && *name == CAPABILITY
            && let Some(content) = self.registry().content(identity)
        {
            // What the pool writes or cuts there later would take it.
            content.drain_and_leave()?;
        }
        let held = Arc::new(inode.try_clone_to_owned()?);
        let is_recorded = self.names().change(&held, change)?;
        if !is_recorded {
            self.registry().attributes_changed(identity);
        }
        let chooses =
            |times: &rustix::fs::Timestamps| times.last_modification.tv_nsec != UTIME_OMIT;
        if matches!(change, AttributeChange::Times(times) if chooses(times))
            && let Some(content) = self.registry().content(identity)
        {
            content.time_chosen();
            content.target.times.chosen(&content.target.descriptor())?;
        }
        Ok(())
    }
}
