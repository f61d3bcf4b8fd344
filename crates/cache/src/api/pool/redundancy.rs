//! Members of a mirrored pool that are taken out.

use super::Pool;
use crate::error::Result;

// Hidden until members can come back, too.
impl Pool {
    /// The numbers of the members that have all that was acknowledged.
    #[doc(hidden)]
    pub fn members_in(&self) -> Vec<u32> {
        self.pipeline().media().members_in()
    }

    /// Takes a member of a mirrored pool out for good, as if it had failed. When this returns, the member that is left
    /// says so, durably.
    ///
    /// # Errors
    /// [`ErrorKind::Options`](crate::ErrorKind::Options): no mirror, no such member, or the last one.
    /// [`ErrorKind::Media`](crate::ErrorKind::Media): a fence failed.
    #[doc(hidden)]
    pub fn take_member_out(&self, number: u32) -> Result<()> {
        self.pipeline().engine().take_out(number)
    }
}
