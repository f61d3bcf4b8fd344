//! What a mirror starts with: which member leads, the roster, and who must have it before anything else is changed.

use forebay_pmem::Region;

use crate::error::Result;
use crate::media::geometry::Geometry;
use crate::media::roster::Roster;
use crate::media::witness::Witness;

/// The members of a mirrored pool that are served.
pub(crate) struct MirrorStart {
    /// Their numbers; first that of the one that leads.
    pub(crate) numbers: Vec<u32>,
    pub(crate) roster: Roster,
    pub(crate) pool_uuid: [u8; 16],
    /// The roster is newer than any that was found.
    pub(crate) is_changed: bool,
    pub(crate) witness: Option<Witness>,
    /// The witness has another roster.
    pub(crate) is_witness_lagging: bool,
    /// The member that the roster before called in and that was not given.
    pub(crate) left_out: Option<u32>,
}

impl MirrorStart {
    /// Makes a roster that takes members out durable on those that are left.
    ///
    /// # Errors
    /// A fence fails, or the witness cannot be written.
    pub(crate) fn store_roster(&self, regions: &[Region], geometry: &Geometry) -> Result<()> {
        let is_looked_at = regions.iter().any(Region::is_private);
        let lagging = self.witness.as_ref().filter(|_| self.is_witness_lagging);
        if let Some(witness) = lagging.filter(|_| !is_looked_at) {
            // Before the members': none is ever newer than the witness.
            witness.tell(&self.roster)?;
        }
        if self.is_changed {
            for region in regions {
                // Before anything that the members lack that are out.
                self.roster.settle(region, geometry, self.pool_uuid)?;
            }
        }
        Ok(())
    }
    /// The member that the pool is opened without.
    pub(crate) fn missing(&self, geometry: &Geometry) -> Option<u32> {
        let mut missing = (0..geometry.members).filter(|number| !self.numbers.contains(number));
        let first = missing.next();
        assert!(
            missing.next().is_none(),
            "each block has a half on a member that is there"
        );
        first
    }
}
