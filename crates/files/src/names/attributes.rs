//! Attributes: how callers change them, and what the log says of them. A change is applied to the
//! backing first, whose errors are the answer; what came of it is what is recorded.

use std::collections::BTreeMap;
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

/// What came of a change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Rights(Rights),
    Accessed(Moment),
    Modified(Modified),
    /// An extended attribute's value; none if it is not there any more.
    Extended {
        name: OsString,
        value: Option<Vec<u8>>,
    },
}

impl Outcome {
    /// Whether this one counts instead of an earlier one.
    pub(super) fn replaces(&self, earlier: &Outcome) -> bool {
        match (self, earlier) {
            (Outcome::Rights(_), Outcome::Rights(_))
            | (Outcome::Accessed(_), Outcome::Accessed(_))
            | (Outcome::Modified(_), Outcome::Modified(_)) => true,
            (Outcome::Extended { name, .. }, Outcome::Extended { name: other, .. }) => {
                name == other
            }
            _ => false,
        }
    }

    /// Bytes that vary in its record.
    pub(super) fn value_bytes(&self) -> usize {
        match self {
            Outcome::Extended { name, value } => name.len() + value.as_ref().map_or(0, Vec::len),
            _ => 0,
        }
    }

    /// A change of content or owner took it, or it was never there.
    pub(super) fn without_capability() -> Outcome {
        Outcome::Extended {
            name: CAPABILITY.into(),
            value: None,
        }
    }
}

/// The attributes of an inode that were changed while the log ran, as they are in the end.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Attributes {
    pub(super) rights: Option<Rights>,
    pub(super) accessed: Option<Moment>,
    pub(super) modified: Option<Modified>,
    extended: BTreeMap<OsString, Option<Vec<u8>>>,
}

impl Attributes {
    pub(super) fn is_empty(&self) -> bool {
        *self == Attributes::default()
    }

    pub(super) fn apply(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Rights(rights) => self.rights = Some(*rights),
            Outcome::Accessed(moment) => self.accessed = Some(*moment),
            Outcome::Modified(modified) => self.modified = Some(*modified),
            Outcome::Extended { name, value } => {
                self.extended.insert(name.clone(), value.clone());
            }
        }
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

    /// Whether it ends anything.
    pub(super) fn is_ended_by_change(&self) -> bool {
        !self.ended_by_change(Moment::default()).is_empty()
    }

    /// Whether an extended attribute is told of with a value.
    pub(super) fn has_value(&self, name: &OsStr) -> bool {
        self.extended.get(name).is_some_and(Option::is_some)
    }

    /// The time of modification that a caller chose, if the content was not changed since.
    pub(super) fn chosen_time(&self) -> Option<Outcome> {
        let is_chosen = |modified: &Modified| matches!(modified, Modified::Chosen(_));
        self.modified.filter(is_chosen).map(Outcome::Modified)
    }

    /// The backing's own time of modification stands: names in the directory changed.
    pub(super) fn forget_modified(&mut self) {
        self.modified = None;
    }

    /// Extended attributes that are to be there.
    pub(super) fn values(&self) -> impl Iterator<Item = (&OsStr, &[u8])> {
        self.extended
            .iter()
            .filter_map(|(name, value)| Some((name.as_os_str(), value.as_deref()?)))
    }

    /// Extended attributes that are not to be there.
    pub(super) fn removed(&self) -> impl Iterator<Item = &OsStr> {
        let gone = self.extended.iter().filter(|(_, value)| value.is_none());
        gone.map(|(name, _)| name.as_os_str())
    }
}
