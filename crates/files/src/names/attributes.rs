//! Attributes: how callers change them, and what the log says of them. A change is applied to the
//! backing first, whose errors are the answer; what came of it is what is recorded.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::XattrFlags;

pub(crate) use super::seen::Moment;
use super::seen::{KIND_BITS, PRIVILEGE_BITS, Seen};

/// A longer value is not recorded: what must not lose it syncs the backing.
pub(crate) const VALUE_BYTES_MAX: usize = 7 << 10;

/// What a program may do beyond its user's rights (`capabilities(7)`): a change of the file's content or owner takes
/// it.
pub(crate) const CAPABILITY: &str = "security.capability";
/// The access list of an inode: its mask is the group's bits of the mode.
pub(super) const ACCESS_LIST: &str = "system.posix_acl_access";

/// A change of attributes, as the system's calls have it.
#[derive(Clone, Copy, Debug)]
pub enum AttributeChange<'a> {
    /// Permissions, with the bits for set-user-id, set-group-id and sticky.
    Mode(u32),
    /// Owner and group, where they are to change.
    Owner {
        /// The owner's number.
        user: Option<u32>,
        /// The group's number.
        group: Option<u32>,
    },
    /// An extended attribute, as `setxattr` takes it.
    Set {
        /// Its name, with the name space.
        name: &'a OsStr,
        /// At most 64 KiB.
        value: &'a [u8],
        /// Whether it must be there, or must not.
        flags: XattrFlags,
    },
    /// An extended attribute goes.
    Remove(&'a OsStr),
}

impl AttributeChange<'_> {
    /// Whether it gives a file what a later write takes away: a capability, set-id bits.
    pub(crate) fn is_ended_by_writes(&self) -> bool {
        match self {
            AttributeChange::Mode(mode) => mode & PRIVILEGE_BITS != 0,
            AttributeChange::Set { name, .. } => *name == CAPABILITY,
            AttributeChange::Owner { .. } | AttributeChange::Remove(_) => false,
        }
    }
}

/// Whether an extended attribute is one that the system makes nothing of.
pub(super) fn is_plain(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.starts_with(b"user.") || name.starts_with(b"trusted.")
}

/// Who may do what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rights {
    /// Permission bits.
    pub mode: u32,
    pub user: u32,
    pub group: u32,
}

/// User and group.
pub(crate) type Owner = (u32, u32);

impl Rights {
    pub(crate) fn of(seen: &Seen) -> Rights {
        Rights {
            mode: seen.mode & !KIND_BITS,
            user: seen.user,
            group: seen.group,
        }
    }

    pub(crate) fn owner(&self) -> Owner {
        (self.user, self.group)
    }
}

/// What of an inode was changed after the log's last word: by others, or by a call that a crash cut short.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Theirs {
    /// Mode or owner. Then its extended attributes count as theirs too.
    pub rights: bool,
    /// It was changed after the machine started: its owner may be one that it had before the log's last word, which a crash
    /// brought back.
    pub restarted: bool,
    pub values: bool,
}

impl Theirs {
    pub(super) fn is_nothing(self) -> bool {
        self == Theirs::default()
    }

    /// Both: what was others' once stays theirs.
    pub(super) fn and(self, more: Theirs) -> Theirs {
        Theirs {
            rights: self.rights | more.rights,
            restarted: self.restarted | more.restarted,
            values: self.values | more.values,
        }
    }

    /// As the log has it.
    pub(super) fn bits(self) -> u8 {
        u8::from(self.rights) | u8::from(self.values) << 1 | u8::from(self.restarted) << 2
    }

    /// None if nothing gives these.
    pub(super) fn from_bits(bits: u8) -> Option<Theirs> {
        (bits < 1 << 3).then_some(Theirs {
            rights: bits & 1 != 0,
            values: bits & 2 != 0,
            restarted: bits & 4 != 0,
        })
    }
}

/// What came of a change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Mode and owner are these.
    Rights(Rights),
    /// An extended attribute's value; none if it is not there any more.
    Value(OsString, Option<Vec<u8>>),
}

impl Outcome {
    /// What a change made of an inode that was seen after it. Files' set-id bits are none of the log's.
    pub(super) fn of(change: &AttributeChange<'_>, after: &Seen) -> Outcome {
        match change {
            AttributeChange::Mode(_) | AttributeChange::Owner { .. } => {
                let mut rights = Rights::of(after);
                if after.is_file() {
                    rights.mode &= !PRIVILEGE_BITS;
                }
                Outcome::Rights(rights)
            }
            AttributeChange::Set { name, value, .. } => {
                Outcome::Value(name.to_os_string(), Some(value.to_vec()))
            }
            AttributeChange::Remove(name) => Outcome::Value(name.to_os_string(), None),
        }
    }
}

/// The attributes of an inode that were changed while the log ran, as they are in the end.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Attributes {
    /// Its last ones.
    pub(super) rights: Option<Rights>,
    /// Extended attributes; none where one was removed.
    pub(super) values: BTreeMap<OsString, Option<Vec<u8>>>,
    /// The latest time of change (ctime) that the inode is known to have had when these were changed, or before: what it has
    /// later, somebody changed after that.
    pub(super) changed: Option<Moment>,
}

impl Attributes {
    pub(super) fn is_empty(&self) -> bool {
        self.rights.is_none() && self.values.is_empty()
    }

    pub(super) fn apply(&mut self, changed: Moment, outcome: &Outcome) {
        self.changed = self.changed.max(Some(changed));
        match outcome {
            Outcome::Rights(rights) => self.rights = Some(*rights),
            Outcome::Value(name, value) => {
                self.values.insert(name.clone(), value.clone());
            }
        }
    }

    /// Whether mode or owner are others than told.
    pub(super) fn has_other_rights(&self, seen: &Seen) -> bool {
        self.rights.is_some_and(|told| told != Rights::of(seen))
    }
}
