//! What all files of a buffer share.

use std::io;
use std::sync::Arc;

use forebay::{ErrorKind, Volume};

use crate::errors::from_pool;
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

impl Shared {
    /// Makes durable what the pool was told before and the backing need not have: names, by one flush of an SSD, or by none where all
    /// of it is durable. A sync ends with it, whatever the pool has of its file: an answer says that all names before it stay.
    ///
    /// # Errors
    /// The pool's: something of it may be lost.
    pub(crate) fn sync_names(&self) -> io::Result<()> {
        let synced = match self.volume.has_unsynced() {
            Ok(true) => self.volume.sync(),
            known => known.map(drop),
        };
        match synced {
            // Its end has made durable whatever it had.
            Err(error) if matches!(error.kind(), ErrorKind::Closed { .. }) => Ok(()),
            synced => synced.map_err(from_pool),
        }
    }
}
