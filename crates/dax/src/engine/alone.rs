//! Whether other programs have the region.

use crate::error::Result;
use crate::medium::Medium;

/// That no other program has an extent open or mapped, for as long as it lives.
pub(crate) trait Alone {
    /// An error if one waits to open an extent, or has been let in.
    fn check(&self) -> Result<()>;

    /// Whether no other program has had one since the region's tracker looked last: else what differs may be a store that it
    /// did not see.
    fn was_alone(&self) -> bool {
        true
    }
}

/// Makes sure of that, or says by an error that a program has an extent.
pub(crate) type TakeAlone<'a> = &'a dyn for<'m> Fn(&'m Medium) -> Result<Box<dyn Alone + 'm>>;

/// Where nobody has to be asked.
pub(super) struct NotAsked;

impl Alone for NotAsked {
    fn check(&self) -> Result<()> {
        Ok(())
    }
}
