//! The journals of a pool's volumes as far as they are known: what was found, when, and what decided it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::policy::journal::table::Table;
use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// How often a thread that detaches a volume asks whether it is still being scanned.
const LOOKED_AT_PAUSE: Duration = Duration::from_millis(1);

/// The journals of each volume that has been looked at.
pub(crate) type Tables = Arc<BTreeMap<u32, Arc<Table>>>;

/// A volume that has been looked at.
pub(super) struct Watch {
    pub(super) table: Arc<Table>,
    pub(super) size_bytes: u64,
    /// The blocks that decided it, and what the pool had of them.
    pub(super) seen: Vec<(u64, Option<u64>)>,
    pub(super) looked_at: Instant,
    pub(super) retry_at: Option<Instant>,
    pub(super) retries: u32,
}

/// What is known of the pool's volumes.
#[derive(Default)]
pub(crate) struct Watches {
    pub(super) volumes: BTreeMap<u32, Watch>,
    pub(super) rest_until: Option<Instant>,
}

/// Not the number of a volume, which has 32 bits.
pub(super) const NO_VOLUME: u64 = u64::MAX;

/// What others ask about blocks that are deferred.
pub(crate) struct DeferredJournal {
    /// Whether journal blocks are to be deferred.
    is_on: AtomicBool,
    /// Blocks of all journals that are known.
    journal_blocks: AtomicU64,
    /// State of the search for journals; no thread waits for this lock.
    pub(super) watches: Mutex<Watches>,
    /// The journals that were found last.
    tables: Mutex<Tables>,
    /// The volume that is being looked at, or `NO_VOLUME`.
    pub(super) looked_at: AtomicU64,
}

impl DeferredJournal {
    /// Whether journals are left for last.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }
    pub(crate) fn set_on(&self, is_on: bool) {
        self.is_on.store(is_on, Ordering::Relaxed);
    }
    /// Blocks of all journals that are known.
    pub(crate) fn blocks(&self) -> u64 {
        self.journal_blocks.load(Ordering::Relaxed)
    }

    pub(crate) fn new(is_on: bool) -> DeferredJournal {
        DeferredJournal {
            is_on: AtomicBool::new(is_on),
            journal_blocks: AtomicU64::new(0),
            watches: Mutex::default(),
            tables: Mutex::default(),
            looked_at: AtomicU64::new(NO_VOLUME),
        }
    }

    /// The journals that were found last.
    pub(super) fn tables(&self) -> Tables {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&tables)
    }

    pub(super) fn publish(&self, watches: &Watches) {
        let tables = watches.volumes.iter();
        let tables: BTreeMap<_, _> = tables
            .map(|(id, watch)| (*id, Arc::clone(&watch.table)))
            .collect();
        let blocks = tables.values().map(|table| table.blocks()).sum();
        self.journal_blocks.store(blocks, Ordering::Relaxed);
        *self.tables.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(tables);
    }

    /// Returns once no thread scans a volume that is in no table any more.
    pub(crate) fn wait_until_unseen(&self, id: u32) {
        while self.looked_at.load(Ordering::SeqCst) == id.into() {
            crate::sync::spin_hint();
            std::thread::sleep(LOOKED_AT_PAUSE);
        }
    }
}
