//! Which pages the medium lost.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

/// Pages that the medium lost.
#[derive(Default)]
pub(super) struct LostPages {
    /// By number; whether zeroes were put over it since the medium was mapped last.
    pub(super) pages: Mutex<BTreeMap<usize, bool>>,
    pub(super) is_any: AtomicBool,
}
