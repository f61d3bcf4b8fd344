//! Memory that another process shares with this one and may take away while it is mapped.
//!
//! An access to what is not there any more would raise SIGBUS and end the process. Under a guard it
//! reads zeroes instead, and the guard says so before any thread can read them.

#![allow(unsafe_code, reason = "the promise about the mapping is the caller's")]

use crate::media_errors::Guard;
use crate::{GIANT_PAGE_BYTES, HUGE_PAGE_BYTES, PAGE_BYTES};

/// Keeps a mapping's faults from ending the process. To be dropped before it is unmapped.
#[derive(Debug)]
pub struct FaultGuard(Guard);

impl FaultGuard {
    /// Pages that can be guarded, in bytes, where the mapping consists of whole ones.
    pub const PAGE_SIZES: [u64; 3] = [
        PAGE_BYTES as u64,
        HUGE_PAGE_BYTES as u64,
        GIANT_PAGE_BYTES as u64,
    ];

    /// Guards `len` bytes from `start` on; `None` when too many mappings are guarded.
    ///
    /// # Safety
    /// The range is one mapping, of whole pages that this process may lose, and stays mapped and the
    /// caller's until the guard is dropped: pages of it are replaced when an access to them faults.
    pub unsafe fn new(start: *mut u8, len: usize) -> Option<FaultGuard> {
        Guard::new(start, len).map(FaultGuard)
    }

    /// Whether an access has met a page that is not there; whatever was read from the mapping before
    /// this says no was there.
    pub fn has_faulted(&self) -> bool {
        !self.0.errors().is_empty()
    }
}
