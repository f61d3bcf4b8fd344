//! One change of an inode's attributes at a time, without a lock for all.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// So many inodes are changed at once at most.
const STRIPES: usize = 64;

/// See the module.
#[derive(Debug)]
pub(super) struct Changing([Mutex<()>; STRIPES]);

impl Changing {
    pub(super) fn new() -> Changing {
        Changing([const { Mutex::new(()) }; STRIPES])
    }

    /// Excludes other changes of the inode of this device and number.
    pub(super) fn lock(&self, (device, inode): (u64, u64)) -> MutexGuard<'_, ()> {
        let mixed = (device ^ inode).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let stripe = &self.0[(mixed >> 58) as usize];
        stripe.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
