//! Where the file systems on a volume have their journals.
//!
//! A journal is a ring: each of its blocks is overwritten once a lap, and is read only after a crash.
//! So write-back leaves its blocks for last, and nearly all of them are overwritten in the pool before
//! they reach the disk. What is found here is a hint about the order of write-back and nothing else:
//! a superblock may be stale, wrong, or made to mislead. A dirty block is dropped only when it is
//! overwritten or discarded, journal or not.
//!
//! A finder is given a `Region` of the volume and adds the journals that it sees there; `ext4` and
//! `xfs` are finders (btrfs has no journal of this kind), `partitions` tells where they should look.
//! All of them read untrusted bytes: every number is checked, every walk is bounded.

mod ext4;
pub(crate) mod jbd2;
mod located;
mod partitions;
mod region;
pub(crate) mod table;
pub(crate) mod xfs;

pub use located::{Journal, JournalKind, JournalRun, Located};
pub use region::Content;
use region::{Budget, Region};

/// Finds the journals of the file systems on a volume, and in the partitions of its partition table.
pub fn locate(content: &dyn Content) -> Located {
    let budget = Budget::default();
    let whole = Region::whole(content, &budget);
    let mut located = Located::default();
    look_in(&whole, &mut located);
    for part in partitions::find(&whole, &mut located.watched_offsets) {
        look_in(&whole.part(part), &mut located);
    }
    located.watched_offsets.sort_unstable();
    located.watched_offsets.dedup();
    located
}

/// Asks every finder.
fn look_in(region: &Region<'_>, located: &mut Located) {
    ext4::find(region, located);
    xfs::find(region, located);
}
