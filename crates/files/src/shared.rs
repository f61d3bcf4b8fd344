//! What all files of a buffer share.

use std::sync::Arc;

use forebay::Volume;

use crate::naming::Naming;
use crate::segments::SegmentTable;
use crate::sizes::SizeTable;
use crate::store::VirtualStore;

/// The pool's volume with its tables.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) volume: Volume,
    pub(crate) store: Arc<VirtualStore>,
    pub(crate) sizes: SizeTable,
    pub(crate) segments: SegmentTable,
    pub(crate) naming: Box<dyn Naming>,
    /// With more unsynced bytes than this, a sync goes to the backing.
    pub(crate) absorbed_bytes_max: u64,
    /// After so many bytes without a sync, a file is not worth the pool.
    pub(crate) cold_after_bytes: u64,
}
