//! What a member of a mirrored pool does wrong, and when.

mod harming;
mod kinds;

pub use harming::{Harming, MediumMap};
pub use kinds::{Combination, Harm, Kind, area_name, is_of_membership, round, round_of_one_copy};
