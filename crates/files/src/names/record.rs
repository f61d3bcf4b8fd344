//! What the namespace log has to say, one record each.

use super::attributes::{Moment, Outcome, Theirs};
use super::file_system::Mark;
use super::space::{BOOT_BYTES, Creation, Identity, Mounting, Place};
use crate::metadata::FileId;

/// What happened to names and attributes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Record {
    /// An inode that was there before the log knew of it, durable in the backing under this name.
    Introduce {
        id: FileId,
        mode: u32,
        identity: Identity,
        place: Place,
    },
    /// An inode was made.
    Create {
        id: FileId,
        identity: Identity,
        creation: Creation,
        place: Place,
    },
    /// A known inode has this name too.
    Link { id: FileId, place: Place },
    /// The name goes; of a directory as of anything else.
    Unlink { id: FileId, place: Place },
    /// The name changes; what had the new one loses it.
    Rename { id: FileId, from: Place, to: Place },
    /// Two names change their inodes.
    Exchange { one: Place, other: Place },
    /// The record before this one did not come about.
    Abort,
    /// A lost inode was made anew.
    Remade { id: FileId, identity: Identity },
    /// Recovery has begun to change the backing: there may be staged names.
    Reconciling,
    /// What the log says of inodes on this device was done in this mounting of it.
    Mounted { device: u64, mounting: Mounting },
    /// Which file system that is.
    FileSystem { device: u64, mark: Mark },
    /// An attribute of a known inode was changed to this; the inode's time of change (ctime) was this then, or earlier.
    Attribute {
        id: FileId,
        changed: Moment,
        outcome: Outcome,
    },
    /// What was told of the inode's attributes is durable in the backing, or something newer is.
    Settled { id: FileId },
    /// Recovery found that this of these inodes had been changed after what the log tells of.
    Others { theirs: Theirs, ids: Vec<FileId> },
    /// Recovery has been at work, and may have changed inodes, from this moment on (or up to it, where it ends).
    Recovering {
        boot: [u8; BOOT_BYTES],
        at: Moment,
        ends: bool,
    },
}

impl Record {
    /// The directories in which a name comes or goes.
    pub(super) fn changed_directories(&self) -> [Option<FileId>; 2] {
        match self {
            Record::Create { place, .. }
            | Record::Link { place, .. }
            | Record::Unlink { place, .. } => [Some(place.parent), None],
            Record::Rename { from, to, .. } => [Some(from.parent), Some(to.parent)],
            Record::Exchange { one, other } => [Some(one.parent), Some(other.parent)],
            _ => [None, None],
        }
    }

    /// The directories that it names.
    pub(super) fn directories(&self) -> [Option<FileId>; 2] {
        match self {
            Record::Introduce { id, place, .. } if *id != FileId::ROOT => {
                [Some(place.parent), None]
            }
            _ => self.changed_directories(),
        }
    }

    /// The inode that has to be known for it.
    pub(super) fn subject(&self) -> Option<FileId> {
        match self {
            Record::Link { id, .. }
            | Record::Unlink { id, .. }
            | Record::Rename { id, .. }
            | Record::Remade { id, .. }
            | Record::Attribute { id, .. }
            | Record::Settled { id, .. } => Some(*id),
            _ => None,
        }
    }
}
