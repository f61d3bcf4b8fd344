//! Faults that a test asks for, on real media.
//!
//! What the medium holds a drill changes by stores, as any thread does. A page that fails under an access it cannot make
//! that way: the system has to raise the signal, so that what meets it is what meets a real one.

use super::{Backing, Region};
use crate::{PAGE_BYTES, PmemError, PmemErrorKind};

impl Region {
    /// Has the medium fail on the page of this byte, for drills: the next access raises SIGBUS, and what the file had
    /// there is gone. For other processes, and after the region is mapped anew, the page reads as zeroes.
    ///
    /// # Errors
    /// It is no file that this process maps for everyone; the system refuses.
    pub fn fail_page(&self, offset: u64) -> Result<(), PmemError> {
        let page = offset / PAGE_BYTES as u64 * PAGE_BYTES as u64;
        match &self.backing {
            Backing::Shared(mapping) if page < self.len => mapping
                .fail_page(page)
                .map_err(|error| PmemError::io("have a page of it fail", &self.path, error)),
            _ => Err(PmemError::new(
                PmemErrorKind::Unsupported("only a page of a mapped file can be made to fail"),
                &self.path,
            )),
        }
    }
}
