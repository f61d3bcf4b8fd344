//! What a mirror's witness says when the pool is opened.
//!
//! Its roster is never older than a member's. If it is that of the members that are there, nobody went on without them, and they
//! may go on without one that is missing. If it is newer, the missing one may have gone on alone; or a crash met a
//! change of the roster, in which nothing was acknowledged yet. If it is older, it is an old copy, and says nothing.

use std::path::Path;

use forebay_pmem::Region;

use crate::error::Result;
use crate::media::geometry::Geometry;
use crate::media::layout::WITNESSED_MEMBERS;
use crate::media::roster::{Roster, WitnessName};
use crate::media::witness::{Witness, absent};
use crate::mutants::{Mutant, mutated};

/// A witness that is further ahead is of another history.
const AHEAD_MAX: u64 = 64;

/// See the module.
pub(super) struct Quorum {
    named: Option<WitnessName>,
    found: std::result::Result<(Witness, Roster), String>,
}

/// The roster to go on with, once the witness has it.
pub(super) struct Agreed {
    pub(super) roster: Roster,
    /// The witness, if it is there.
    pub(super) witness: Option<Witness>,
    /// It has another roster.
    pub(super) is_witness_lagging: bool,
}

impl Quorum {
    /// Asks the witness that the newest roster of the members names, at `path` if it was moved there.
    pub(super) fn ask(
        newest: &Roster,
        path: Option<&Path>,
        member: &Region,
        geometry: &Geometry,
        pool_uuid: &[u8; 16],
    ) -> Quorum {
        let named = newest.witness().cloned();
        let found = match &named {
            None => Err(String::new()),
            Some(name) => {
                let path = path.unwrap_or(&name.path);
                let members = geometry.members;
                Witness::open(name, path, members, pool_uuid, member.is_private()).and_then(
                    |(witness, seen)| match seen.epoch.abs_diff(newest.epoch) {
                        0..=AHEAD_MAX => Ok((witness, seen)),
                        _ => Err(String::from("it is of another time")),
                    },
                )
            }
        };
        Quorum { named, found }
    }

    /// Whether no member went on without those that have the roster `newest`.
    pub(super) fn vouches_for(&self, newest: &Roster) -> bool {
        matches!(&self.found, Ok((_, seen)) if seen == newest
            || seen.epoch < newest.epoch && mutated(Mutant::OldWitnessBelieved))
    }

    /// Why it does not, in words that follow others.
    pub(super) fn why(&self, newest: &Roster) -> String {
        let Some(name) = &self.named else {
            return String::new();
        };
        let path = match &self.found {
            Ok((witness, _)) => witness.name().path.display(),
            Err(_) => name.path.display(),
        };
        match &self.found {
            Ok((_, seen)) if seen.epoch < newest.epoch => {
                format!(
                    "; the witness {path} is an old copy: the members changed since, and it does not know"
                )
            }
            Ok(_) => format!(
                "; the witness {path} says that the pool changed since: the other member may have gone on alone"
            ),
            Err(why) => format!("; the witness {path} says nothing: {why}"),
        }
    }

    /// The roster to go on with: `roster`, which follows `newest`, in an epoch that the witness does not have for another.
    /// Where it is not there, no new one, unless the caller's word stands for it: then it is given up. So it is where a
    /// member is out already, which without the witness no roster could call in again. A member that still names it is
    /// behind it and does not go on with it, if it comes back.
    ///
    /// # Errors
    /// There must be a new roster, and the witness cannot have it.
    pub(super) fn agree(
        self,
        roster: Roster,
        newest: &Roster,
        without_missing: bool,
    ) -> Result<Agreed> {
        let mut roster = roster;
        match (&self.named, self.found) {
            (None, _) => Ok(Agreed {
                roster,
                witness: None,
                is_witness_lagging: false,
            }),
            (Some(_), Ok((witness, seen))) => {
                while seen.epoch > roster.epoch || seen.epoch == roster.epoch && seen != roster {
                    roster = roster.renewed();
                }
                Ok(Agreed {
                    is_witness_lagging: seen != roster,
                    roster,
                    witness: Some(witness),
                })
            }
            (Some(name), Err(why)) => {
                let is_new = roster != *newest;
                if is_new && !without_missing {
                    return Err(absent(
                        &name.path,
                        &format!("must have a new roster first: {why}"),
                    ));
                }
                let is_one_out = newest.all_in().count() < WITNESSED_MEMBERS;
                if is_new || is_one_out && without_missing {
                    roster = roster.witnessed(None);
                }
                Ok(Agreed {
                    roster,
                    witness: None,
                    is_witness_lagging: false,
                })
            }
        }
    }
}
