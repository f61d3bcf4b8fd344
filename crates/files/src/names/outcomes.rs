//! Attributes as they were seen: what came of a change, and what is to be changed of them.

use rustix::fs::{Timespec, Timestamps, UTIME_OMIT};

use super::attributes::{
    AttributeChange, Attributes, Modified, Moment, Outcome, Rights, VALUE_BYTES_MAX,
};
use super::space::{KIND_BITS, Seen};

/// What a change of content or owner takes from a file (`capabilities(7)`).
const CAPABILITY: &str = "security.capability";

impl Rights {
    pub(crate) fn of(seen: &Seen) -> Rights {
        Rights {
            mode: seen.mode & !KIND_BITS,
            user: seen.user,
            group: seen.group,
        }
    }
}

/// What a change made of an inode; none where that cannot be recorded.
pub(super) fn outcomes(
    change: &AttributeChange<'_>,
    before: &Seen,
    after: &Seen,
) -> Option<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    match change {
        AttributeChange::Mode(_) => {}
        AttributeChange::Owner { .. } if after.is_file() && is_moved(before, after) => {
            outcomes.push(Outcome::Extended {
                name: CAPABILITY.into(),
                value: None,
            });
        }
        AttributeChange::Owner { .. } => {}
        AttributeChange::Times(times) => {
            if times.last_access.tv_nsec != UTIME_OMIT {
                outcomes.push(Outcome::Accessed(after.accessed));
            }
            if times.last_modification.tv_nsec != UTIME_OMIT {
                let chosen = Modified::Chosen(after.modified);
                outcomes.push(Outcome::Modified(chosen));
            }
        }
        AttributeChange::Set { name, value, .. } => {
            outcomes.push(Outcome::Extended {
                name: name.to_os_string(),
                value: Some((value.len() <= VALUE_BYTES_MAX).then(|| value.to_vec())?),
            });
        }
        AttributeChange::Remove(name) => outcomes.push(Outcome::Extended {
            name: name.to_os_string(),
            value: None,
        }),
    }
    // An access list changes the mode as well.
    if Rights::of(before) != Rights::of(after) {
        outcomes.push(Outcome::Rights(Rights::of(after)));
    }
    Some(outcomes)
}

fn is_moved(before: &Seen, after: &Seen) -> bool {
    (before.user, before.group) != (after.user, after.group)
}

impl Attributes {
    /// What makes an inode's rights what they are to be, in this order.
    pub(super) fn changes_of_rights(&self, seen: &Seen) -> Vec<AttributeChange<'static>> {
        let Some(wanted) = self.rights else {
            return Vec::new();
        };
        let mut changes = Vec::new();
        let is_owned = (seen.user, seen.group) == (wanted.user, wanted.group);
        if !is_owned {
            changes.push(AttributeChange::Owner {
                user: Some(wanted.user),
                group: Some(wanted.group),
            });
        }
        // Another owner takes some of the bits.
        if !is_owned || seen.mode & !KIND_BITS != wanted.mode {
            changes.push(AttributeChange::Mode(wanted.mode));
        }
        changes
    }

    /// Its times, if they are to be others than were seen.
    pub(super) fn times(&self, seen: &Seen) -> Option<Timestamps> {
        let modified = match self.modified {
            Some(Modified::Chosen(moment)) => Some(moment),
            Some(Modified::NotBefore(moment)) => Some(moment).filter(|at| *at > seen.modified),
            None => None,
        };
        let is_set = self.accessed.is_some() || modified.is_some();
        let or_omitted = |moment: Option<Moment>| {
            moment.map_or(
                Timespec {
                    tv_sec: 0,
                    tv_nsec: UTIME_OMIT,
                },
                Moment::timespec,
            )
        };
        is_set.then(|| Timestamps {
            last_access: or_omitted(self.accessed),
            last_modification: or_omitted(modified),
        })
    }
}
