//! Attributes: how callers change them, and what the log says of them. A change is applied to the
//! backing first, whose errors are the answer; what came of it is what is recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};

use rustix::fs::{Timespec, Timestamps, XattrFlags};

/// A longer value is not recorded: what must not lose it syncs the backing.
pub(crate) const VALUE_BYTES_MAX: usize = 7 << 10;

/// What a program may do beyond its user's rights (`capabilities(7)`): a change of the file's content or owner takes
/// it.
pub(crate) const CAPABILITY: &str = "security.capability";
/// The access list of an inode, and that which what is made in a directory inherits.
pub(super) const ACCESS_LIST: &str = "system.posix_acl_access";
pub(super) const DEFAULT_LIST: &str = "system.posix_acl_default";

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
    /// Times, as `utimensat` takes them.
    Times(&'a Timestamps),
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

/// A moment, as inodes have it: since 1970.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) struct Moment {
    pub seconds: i64,
    pub nanoseconds: u32,
}

impl Moment {
    pub(crate) fn of_ns(ns: i128) -> Moment {
        Moment {
            seconds: ns.div_euclid(1_000_000_000) as i64,
            nanoseconds: ns.rem_euclid(1_000_000_000) as u32,
        }
    }

    pub(super) fn ns(self) -> i128 {
        i128::from(self.seconds) * 1_000_000_000 + i128::from(self.nanoseconds)
    }

    pub(super) fn timespec(self) -> Timespec {
        Timespec {
            tv_sec: self.seconds,
            tv_nsec: i64::from(self.nanoseconds),
        }
    }
}

/// Who may do what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rights {
    /// Permission bits.
    pub mode: u32,
    pub user: u32,
    pub group: u32,
}

/// When an inode was modified, as far as a caller chose it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Modified {
    /// Then: a caller chose that.
    Chosen(Moment),
    /// Then or later: it was changed after a caller had chosen a time.
    NotBefore(Moment),
}

/// User and group.
pub(crate) type Owner = (u32, u32);

impl Rights {
    pub(crate) fn owner(&self) -> Owner {
        (self.user, self.group)
    }
}

/// When something was told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Told {
    /// Greater for what was told later. Records of the next log keep it.
    pub stamp: u64,
    /// The latest time of change (ctime) that the inode is known to have had, when the change was made or before: what it
    /// has later, somebody changed after that.
    pub changed: Moment,
}

/// What of an inode was changed after the log's last word: by others, or by a call that a crash cut short.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Theirs {
    /// Mode or owner. Then its extended attributes count as theirs too.
    pub rights: bool,
    pub values: bool,
    pub times: bool,
}

impl Theirs {
    pub(super) fn is_nothing(self) -> bool {
        self == Theirs::default()
    }

    /// Both: what was others' once stays theirs.
    pub(super) fn and(self, more: Theirs) -> Theirs {
        Theirs {
            rights: self.rights | more.rights,
            values: self.values | more.values,
            times: self.times | more.times,
        }
    }

    /// As the log has it.
    pub(super) fn bits(self) -> u8 {
        u8::from(self.rights) | u8::from(self.values) << 1 | u8::from(self.times) << 2
    }

    /// None if nothing gives these.
    pub(super) fn from_bits(bits: u8) -> Option<Theirs> {
        let has = |bit: u8| bits & 1 << bit != 0;
        (bits < 1 << 3).then(|| Theirs {
            rights: has(0),
            values: has(1),
            times: has(2),
        })
    }
}

/// What came of a change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// These; the owner was the other one before.
    Rights(Rights, Owner),
    Accessed(Moment),
    Modified(Modified),
    /// An extended attribute's value; none if it is not there any more.
    Extended {
        name: OsString,
        value: Option<Vec<u8>>,
    },
}

impl Outcome {
    /// A change of content or owner took it, or it was never there.
    pub(super) fn without_capability() -> Outcome {
        Outcome::Extended {
            name: CAPABILITY.into(),
            value: None,
        }
    }
}

/// An attribute, and the stamp of what told it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Stamped<T> {
    stamp: u64,
    is: T,
}

/// The attributes of an inode that were changed while the log ran, as they are in the end.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Attributes {
    rights: Option<Stamped<Rights>>,
    accessed: Option<Stamped<Moment>>,
    modified: Option<Stamped<Modified>>,
    extended: BTreeMap<OsString, Stamped<Option<Vec<u8>>>>,
    /// The latest of the times of change that were told.
    changed: Option<Moment>,
    /// Owners that it had before.
    earlier_owners: BTreeSet<Owner>,
}

impl Attributes {
    pub(super) fn is_empty(&self) -> bool {
        self.rights.is_none()
            && self.accessed.is_none()
            && self.modified.is_none()
            && self.extended.is_empty()
    }

    pub(super) fn apply(&mut self, told: Told, outcome: &Outcome) {
        let stamp = told.stamp;
        self.changed = self.changed.max(Some(told.changed));
        match outcome {
            Outcome::Rights(rights, earlier) => {
                self.rights = Some(Stamped { stamp, is: *rights });
                self.earlier_owners.insert(*earlier);
            }
            Outcome::Accessed(moment) => self.accessed = Some(Stamped { stamp, is: *moment }),
            Outcome::Modified(modified) => {
                self.modified = Some(Stamped {
                    stamp,
                    is: *modified,
                });
            }
            Outcome::Extended { name, value } => {
                let is = value.clone();
                self.extended.insert(name.clone(), Stamped { stamp, is });
            }
        }
    }

    /// What was told before this stamp is durable in the backing, or something newer is.
    pub(super) fn settle(&mut self, before: u64) {
        fn keep<T>(attribute: &mut Option<Stamped<T>>, before: u64) {
            attribute.take_if(|told| told.stamp < before);
        }
        keep(&mut self.rights, before);
        keep(&mut self.accessed, before);
        keep(&mut self.modified, before);
        self.extended.retain(|_, told| told.stamp >= before);
        if self.is_empty() {
            *self = Attributes::default();
        }
    }

    /// The latest time of change of the inode of which the log knows.
    pub(super) fn changed(&self) -> Option<Moment> {
        self.changed
    }

    pub(super) fn rights(&self) -> Option<Rights> {
        self.rights.as_ref().map(|told| told.is)
    }

    /// The same, if nothing else is told: it was made so.
    pub(super) fn had_rights(&mut self, rights: Rights) {
        let made = Stamped {
            stamp: 0,
            is: rights,
        };
        self.rights.get_or_insert(made);
    }

    pub(super) fn accessed(&self) -> Option<Moment> {
        self.accessed.as_ref().map(|told| told.is)
    }

    pub(super) fn modified(&self) -> Option<Modified> {
        self.modified.as_ref().map(|told| told.is)
    }

    /// Whether it had this owner before it was given the one that is told of.
    pub(super) fn had_owner(&self, owner: Owner) -> bool {
        self.earlier_owners.contains(&owner)
    }

    /// What a change of the content ends: a time that a caller chose, a capability.
    pub(super) fn ended_by_change(&self, now: Moment) -> Vec<Outcome> {
        let mut ended = Vec::new();
        if self.chosen_time().is_some() {
            ended.push(Outcome::Modified(Modified::NotBefore(now)));
        }
        if self.has_value(CAPABILITY.as_ref()) {
            ended.push(Outcome::without_capability());
        }
        ended
    }

    /// Whether an extended attribute is told of with a value.
    pub(super) fn has_value(&self, name: &OsStr) -> bool {
        self.told_of(name).is_some_and(|value| value.is_some())
    }

    /// What is told of an extended attribute.
    pub(super) fn told_of(&self, name: &OsStr) -> Option<Option<&[u8]>> {
        let told = self.extended.get(name)?;
        Some(told.is.as_deref())
    }

    /// The time of modification that a caller chose, if the content was not changed since.
    pub(super) fn chosen_time(&self) -> Option<(Told, Outcome)> {
        let told = self.modified.as_ref()?;
        matches!(told.is, Modified::Chosen(_)).then(|| {
            let (stamp, changed) = (told.stamp, self.changed.unwrap_or_default());
            (Told { stamp, changed }, Outcome::Modified(told.is))
        })
    }

    /// The backing's own time of modification stands: names in the directory changed.
    pub(super) fn forget_modified(&mut self) {
        self.modified = None;
    }

    /// All extended attributes that are told of.
    pub(super) fn extended(&self) -> impl Iterator<Item = (&OsStr, Option<&[u8]>)> {
        let told = self.extended.iter();
        told.map(|(name, told)| (name.as_os_str(), told.is.as_deref()))
    }
}
