//! Attributes as they were seen: what came of a change, and what is to be changed of them.

use rustix::fs::{Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};

use super::attributes::{
    ACCESS_LIST, AttributeChange, Attributes, Modified, Moment, Outcome, Rights, VALUE_BYTES_MAX,
};
use super::space::{Creation, KIND_BITS, Seen};

impl Rights {
    pub(crate) fn of(seen: &Seen) -> Rights {
        Rights {
            mode: seen.mode & !KIND_BITS,
            user: seen.user,
            group: seen.group,
        }
    }
}

/// The rights that an inode was made with. One that is made anew has them in the end; a link has none.
pub(super) fn made_with(creation: &Creation) -> Option<Rights> {
    (creation.mode & KIND_BITS != libc::S_IFLNK).then_some(Rights {
        mode: creation.mode & !KIND_BITS,
        user: creation.user,
        group: creation.group,
    })
}

/// What a change made of an inode; none where that cannot be recorded.
pub(super) fn outcomes(
    change: &AttributeChange<'_>,
    before: &Seen,
    after: &Seen,
) -> Option<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    // What was asked for counts, though it was so already: the log may say otherwise. An access list and the mode are one: its
    // mask is the group's rights.
    let asks_for_rights = match change {
        AttributeChange::Mode(_) | AttributeChange::Owner { .. } => true,
        AttributeChange::Set { name, .. } | AttributeChange::Remove(name) => *name == ACCESS_LIST,
        AttributeChange::Times(_) => false,
    };
    match change {
        AttributeChange::Mode(_) => {}
        // It takes a capability even where user and group stay the same.
        AttributeChange::Owner { .. } if after.is_file() => {
            outcomes.push(Outcome::without_capability());
        }
        AttributeChange::Owner { .. } => {}
        AttributeChange::Times(times) => {
            let accessed = moment(&times.last_access, after.accessed);
            let modified = moment(&times.last_modification, after.modified);
            outcomes.extend(accessed.map(Outcome::Accessed));
            outcomes.extend(modified.map(|at| Outcome::Modified(Modified::Chosen(at))));
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
    if asks_for_rights || Rights::of(before) != Rights::of(after) {
        outcomes.push(Outcome::Rights(
            Rights::of(after),
            Rights::of(before).owner(),
        ));
    }
    Some(outcomes)
}

/// The time that was asked for: what is seen of the file may be that of a write-back meanwhile. Only of "now" the file
/// system says when that was.
fn moment(asked: &Timespec, seen: Moment) -> Option<Moment> {
    match asked.tv_nsec {
        UTIME_OMIT => None,
        UTIME_NOW => Some(seen),
        nanoseconds => Some(Moment {
            seconds: asked.tv_sec,
            nanoseconds: nanoseconds as u32,
        }),
    }
}

impl Attributes {
    /// Its times, if they are to be others than were seen.
    pub(super) fn times(&self, seen: &Seen) -> Option<Timestamps> {
        let modified = match self.modified() {
            Some(Modified::Chosen(moment)) => Some(moment),
            Some(Modified::NotBefore(moment)) => Some(moment).filter(|at| *at > seen.modified),
            None => None,
        };
        let accessed = self.accessed();
        let or_omitted = |moment: Option<Moment>| {
            moment.map_or(
                Timespec {
                    tv_sec: 0,
                    tv_nsec: UTIME_OMIT,
                },
                Moment::timespec,
            )
        };
        (accessed.is_some() || modified.is_some()).then(|| Timestamps {
            last_access: or_omitted(accessed),
            last_modification: or_omitted(modified),
        })
    }

    /// Whether the time of modification that was seen is another one than a caller chose.
    pub(super) fn is_time_moved(&self, seen: &Seen) -> bool {
        matches!(self.modified(), Some(Modified::Chosen(at)) if at != seen.modified)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::proof::Proof;
    use crate::names::space::Identity;

    #[test]
    fn the_time_that_was_asked_for_counts_not_that_of_a_write_behind_it() {
        let at = |seconds| Moment {
            seconds,
            nanoseconds: 9,
        };
        let seen = |seconds| Seen {
            identity: Identity {
                device: 1,
                inode: 2,
                proof: Proof::NOTHING,
            },
            mode: libc::S_IFREG | 0o600,
            links: 1,
            user: 0,
            group: 0,
            node_device: 0,
            made_ns: 0,
            accessed: at(seconds),
            modified: at(seconds),
            changed_ns: 0,
        };
        let mut times = Timestamps {
            last_access: Moment::timespec(at(5)),
            last_modification: Moment::timespec(at(5)),
        };
        let (before, after) = (seen(1), seen(77));
        let found =
            |times: &Timestamps| outcomes(&AttributeChange::Times(times), &before, &after).unwrap();
        let expected = |at| vec![Outcome::Modified(Modified::Chosen(at))];
        times.last_access.tv_nsec = UTIME_OMIT;
        assert_eq!(found(&times), expected(at(5)));
        times.last_modification.tv_nsec = UTIME_NOW;
        assert_eq!(found(&times), expected(at(77)));
    }
}
