//! Which cuts of files are durable in the backing.
//!
//! Written straight into the side file, behind the metadata: write-back may have to say so in the
//! midst of a round, when no transaction is possible.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use forebay::{Backing, WriteRun};
use forebay_pmem::lock_or_yield;

use crate::metadata::LOG;
use crate::mutants::{Mutant, mutated};
use crate::sizes::ROWS_MAX;

const PAGE_BYTES: usize = 4096;
const MARKS_OF_A_PAGE: usize = PAGE_BYTES / 8;
/// Where the marks begin: behind the metadata and a page that names the file's pool.
const MARKS_AT: u64 = LOG.end + PAGE_BYTES as u64;

/// Bytes of the file beside the pool.
pub const SIDE_BYTES: u64 = MARKS_AT + ROWS_MAX as u64 * 8;

/// Syncs of the side file, which has the metadata and the marks: the system tells a failed sync to one
/// caller and forgets what it could not write, so both learn of each other's.
pub(crate) struct SideSyncs {
    side: Backing,
    /// Those that failed so far; held throughout a sync.
    failed: Mutex<u64>,
}

impl SideSyncs {
    /// What is known when this is taken, before the writes that a sync is to make durable.
    pub(crate) fn failed(&self) -> u64 {
        *lock_or_yield(&self.failed)
    }

    /// Makes durable what was written since `known` was taken, and takes it anew.
    ///
    /// # Errors
    /// This sync's, or that another one has failed meanwhile.
    pub(crate) fn sync(&self, known: &mut u64) -> io::Result<()> {
        let mut failed = lock_or_yield(&self.failed);
        let mut result = self.side.sync();
        if result.is_err() {
            *failed += 1;
        } else if *known != *failed && !mutated(Mutant::FilesSideSyncToldOnce) {
            result = Err(io::Error::other(
                "another sync of the pool's side file failed since this was written",
            ));
        }
        *known = *failed;
        result
    }
}

/// The newest durable cut of each row.
pub(crate) struct Cuts {
    side: Backing,
    pub(crate) syncs: SideSyncs,
    marks: Mutex<Vec<u64>>,
    newest_epoch: AtomicU64,
}

impl std::fmt::Debug for Cuts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cuts")
            .field("newest_epoch", &self.newest_epoch)
            .finish_non_exhaustive()
    }
}

impl Cuts {
    /// Reads the marks.
    ///
    /// # Errors
    /// The side file's.
    pub(crate) fn open(side: &Backing) -> io::Result<Cuts> {
        let mut raw = vec![0; ROWS_MAX as usize * 8];
        side.read_at(MARKS_AT, &mut raw)?;
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        let marks: Vec<u64> = raw.chunks_exact(8).map(word).collect();
        Ok(Cuts {
            side: side.clone(),
            syncs: SideSyncs {
                side: side.clone(),
                failed: Mutex::new(0),
            },
            newest_epoch: AtomicU64::new(marks.iter().copied().max().unwrap_or(0)),
            marks: Mutex::new(marks),
        })
    }

    /// An epoch that no cut of the pool had.
    pub(crate) fn next_epoch(&self) -> u64 {
        self.newest_epoch.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Recovery found a row with this epoch.
    pub(crate) fn know_epoch(&self, epoch: u64) {
        self.newest_epoch.fetch_max(epoch, Ordering::Relaxed);
    }

    /// Whether the cut of this row in this epoch is durable in the backing.
    pub(crate) fn is_done(&self, row: u32, epoch: u64) -> bool {
        let marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        marks[row as usize] >= epoch
    }

    /// The cut is durable in the backing; when this returns that is known for good.
    ///
    /// # Errors
    /// The side file's.
    pub(crate) fn done(&self, row: u32, epoch: u64) -> io::Result<()> {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        if marks[row as usize] >= epoch {
            // A later cut of the file, or of the one that has the row now, is done already.
            return Ok(());
        }
        let page = row as usize / MARKS_OF_A_PAGE;
        let first = page * MARKS_OF_A_PAGE;
        let before = std::mem::replace(&mut marks[row as usize], epoch);
        let raw: Vec<u8> = marks[first..first + MARKS_OF_A_PAGE]
            .iter()
            .flat_map(|mark| mark.to_le_bytes())
            .collect();
        let run = WriteRun {
            offset: MARKS_AT + (page * PAGE_BYTES) as u64,
            bytes: &raw,
        };
        let mut known = self.syncs.failed();
        let written: io::Result<()> = self.side.write_runs(&[run]).into_iter().collect();
        let result = written.and_then(|()| self.syncs.sync(&mut known));
        if result.is_err() {
            marks[row as usize] = before;
        }
        result
    }
}

/// What the system keeps in memory of the side file may be what an earlier process could not sync: the
/// next sync succeeds and writes none of it. So it is dropped before anything here is believed; what
/// stays in memory all the same, as another process's mapping does, is written again.
///
/// # Errors
/// The side file's.
pub(crate) fn forget_cached(side: &Backing) -> io::Result<()> {
    // What a killed process wrote is not dropped while it is dirty.
    side.sync()?;
    let kept = side.forget_cached();
    let pages = kept.iter().flat_map(|kept| {
        let end = kept.end.min(SIDE_BYTES);
        (kept.start..end).step_by(PAGE_BYTES)
    });
    let mut bytes = [0; PAGE_BYTES];
    for offset in pages {
        let len = (SIDE_BYTES - offset).min(PAGE_BYTES as u64) as usize;
        side.read_at(offset, &mut bytes[..len])?;
        let bytes = &bytes[..len];
        side.write_runs(&[WriteRun { offset, bytes }])
            .into_iter()
            .collect::<io::Result<()>>()?;
    }
    match kept.is_empty() {
        true => Ok(()),
        false => side.sync(),
    }
}

/// The pool that owns the side file: 16 bytes that stand before the marks. All zero in a new one.
///
/// # Errors
/// The side file's.
pub(crate) fn read_owner(side: &Backing) -> io::Result<[u8; 16]> {
    let mut owner = [0; 16];
    side.read_at(LOG.end, &mut owner)?;
    Ok(owner)
}

/// Makes it that pool's, durably.
///
/// # Errors
/// The side file's.
pub(crate) fn write_owner(side: &Backing, owner: &[u8; 16]) -> io::Result<()> {
    let mut page = [0; PAGE_BYTES];
    page[..16].copy_from_slice(owner);
    let run = WriteRun {
        offset: LOG.end,
        bytes: &page,
    };
    let written: io::Result<()> = side.write_runs(&[run]).into_iter().collect();
    written.and_then(|()| side.sync())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use forebay::{BackingStore, FaultyStore, MemoryStore};

    use super::*;
    use crate::store::VirtualStore;

    #[test]
    fn a_mark_hears_of_a_failed_sync_that_the_metadata_was_told_of() {
        let faulty = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new(SIDE_BYTES))));
        let side = Backing::from_store(faulty.clone());
        let store = VirtualStore::new(PathBuf::from("files:"), side, None, 4096).expect("store");
        let syncs = &store.cuts.syncs;
        // Where `done` writes its mark.
        let mut known = syncs.failed();
        faulty.fail_syncs(1);
        assert_eq!(store.sync_domains().len(), 1);
        syncs.sync(&mut known).expect_err("the other one's");
        syncs.sync(&mut known).expect("nothing failed since");
        assert!(store.sync_domains().is_empty(), "it was told itself");
    }

    #[test]
    fn metadata_counted_as_durable_where_a_cut_was_told_of_the_sync_that_failed() {
        let faulty = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new(SIDE_BYTES))));
        let side = Backing::from_store(faulty.clone());
        let store = VirtualStore::new(PathBuf::from("files:"), side, None, 4096).expect("store");
        let metadata = WriteRun {
            offset: 0,
            bytes: &[1; PAGE_BYTES],
        };
        let write = || store.write_runs(&[metadata]).remove(0).expect("write");
        write();
        faulty.fail_syncs(1);
        let epoch = store.cuts.next_epoch();
        store.cuts.done(3, epoch).expect_err("the sync failed");
        assert_eq!(store.sync_domains().len(), 1, "the metadata's part");
        write();
        assert!(
            store.sync_domains().is_empty(),
            "told once, and written again"
        );
        store.cuts.done(3, epoch).expect("done");
    }

    #[test]
    fn what_is_known_to_be_done_stays_known_and_is_found_again() {
        let side = Backing::memory(SIDE_BYTES);
        let cuts = Cuts::open(&side).expect("open");
        let (first, second) = (cuts.next_epoch(), cuts.next_epoch());
        assert!(!cuts.is_done(3, first));
        cuts.done(3, second).expect("done");
        // A caller that was slower than the later cut.
        cuts.done(3, first).expect("done");
        assert!(cuts.is_done(3, first) && cuts.is_done(3, second));
        assert!(!cuts.is_done(4, first));
        let again = Cuts::open(&side).expect("open");
        assert!(again.is_done(3, second) && again.next_epoch() > second);
    }

    #[test]
    fn a_new_side_file_names_no_pool() {
        let side = Backing::memory(SIDE_BYTES);
        assert_eq!(read_owner(&side).expect("read"), [0; 16]);
        write_owner(&side, &[7; 16]).expect("write");
        assert_eq!(read_owner(&side).expect("read"), [7; 16]);
    }
}
