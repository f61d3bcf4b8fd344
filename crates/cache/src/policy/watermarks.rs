//! How dirty a pool may become before write-back begins, and before writers wait.

use crate::options::RuntimeOptions;
use crate::sync::{AtomicU32, Ordering};

/// The watermarks as they were given; `pace` has them in blocks.
pub(crate) struct Watermarks {
    low_per_mille: AtomicU32,
    high_per_mille: AtomicU32,
}

impl Watermarks {
    /// Those of the options, the low one at most as high as the high one.
    pub(crate) fn new(options: &RuntimeOptions) -> Watermarks {
        let high = options.dirty_high_per_mille.min(1000);
        Watermarks {
            low_per_mille: AtomicU32::new(options.dirty_low_per_mille.min(high)),
            high_per_mille: AtomicU32::new(high),
        }
    }

    /// Sets both; the low one is at most as high as the high one.
    pub(crate) fn set(&self, low_per_mille: u32, high_per_mille: u32) {
        self.low_per_mille.store(low_per_mille, Ordering::Relaxed);
        self.high_per_mille.store(high_per_mille, Ordering::Relaxed);
    }

    pub(crate) fn low_per_mille(&self) -> u32 {
        self.low_per_mille.load(Ordering::Relaxed)
    }

    pub(crate) fn high_per_mille(&self) -> u32 {
        self.high_per_mille.load(Ordering::Relaxed)
    }
}
