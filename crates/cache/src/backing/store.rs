//! What a store behind a volume does.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

use super::counters::BackingCounters;
use super::holes::BackingRun;

/// Which device or file this is, compared when a volume is attached again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackingIdentity {
    /// Canonical path, or a made-up name for a store that has none.
    pub path: PathBuf,
    /// Inode of a regular file; 0 for a block device, whose node is made anew at every boot.
    pub inode: u64,
    /// Size in bytes at the time of opening.
    pub size_bytes: u64,
}

/// One contiguous write: `bytes` at byte `offset` of the backing.
#[derive(Clone, Copy, Debug)]
pub struct WriteRun<'a> {
    /// Where it goes, in bytes from the start of the backing.
    pub offset: u64,
    /// What goes there; the part beyond the end of the backing is dropped.
    pub bytes: &'a [u8],
}

/// A part of a store that fails by itself, by a number of the store's own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct FaultDomain(pub u64);

/// What of a store failed: each domain once, with its first error.
pub type FailedDomains = BTreeMap<FaultDomain, io::Error>;

/// Slow, durable storage of a fixed size. Threads call its methods at once, for different ranges. The pool takes
/// nothing for durable before [`BackingStore::sync`] or [`BackingStore::sync_domains`] returned.
pub trait BackingStore: Send + Sync {
    /// Size in bytes; it need not be a multiple of anything.
    fn size_bytes(&self) -> u64;

    /// Looks again how large the store is, and from now on uses what it has gained. Returns the size
    /// found, which [`BackingStore::size_bytes`] tells too unless the store shrank.
    ///
    /// # Errors
    /// The device's own.
    fn refresh_size(&self) -> io::Result<u64> {
        Ok(self.size_bytes())
    }

    /// What is checked when a volume is attached to this store again.
    fn identity(&self) -> BackingIdentity;

    /// Fills `out` from byte `offset`; what lies past the end reads as zeroes.
    ///
    /// # Errors
    /// The device's own; `out` is then unspecified.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// The file on which reads within the store may be queued with the kernel, which then carries them out behind the caller's back
    /// and past the page cache; offsets are the store's. None where each read is to be made by [`BackingStore::read_at`].
    fn direct_file(&self) -> Option<&File> {
        None
    }

    /// A read of so many bytes is queued on the direct file: it counts as one of the store's.
    fn count_queued_read(&self, _len_bytes: usize) {}

    /// Writes all runs, many in flight at once and in no particular order, and returns one result
    /// for each, in the order given. Runs must not overlap. The part of a run past the end is clipped.
    fn write_runs(&self, runs: &[WriteRun<'_>]) -> Vec<io::Result<()>>;

    /// Makes `len_bytes` from `offset` read as zeroes, giving space back where the store can.
    ///
    /// # Errors
    /// The device's own; any part of the range may then be zero or not.
    fn zero_range(&self, offset: u64, len_bytes: u64) -> io::Result<()>;

    /// Makes every completed write durable (`fdatasync`).
    ///
    /// # Errors
    /// The device's own. The kernel may have dropped the pages it could not write, so a caller must
    /// treat every write since the last good sync as not done.
    fn sync(&self) -> io::Result<()>;

    /// Which fault domain the byte at `offset` belongs to. Where writes or syncs of one domain fail,
    /// those of the others are done and reported all the same; so what cannot be written to one never
    /// holds up another. Most stores are of one piece.
    fn domain_at(&self, _offset: u64) -> FaultDomain {
        FaultDomain::default()
    }

    /// As [`BackingStore::sync`], domain by domain: returns those of which it failed.
    fn sync_domains(&self) -> FailedDomains {
        let failed = self.sync().err();
        failed
            .map(|error| (FaultDomain::default(), error))
            .into_iter()
            .collect()
    }

    /// What to call a domain in reports, where it has a name of its own.
    fn domain_name(&self, _domain: FaultDomain) -> Option<String> {
        None
    }

    /// Whether write-back goes in few long rounds, each with one sync, rather than in many short ones:
    /// where writes are taken at once and syncs are what costs.
    fn prefers_long_rounds(&self) -> bool {
        false
    }

    /// Forgets what the store keeps in memory of bytes that are synced already, so that reads show what
    /// the medium has: after a sync that failed in an earlier incarnation the two may differ. Returns the byte
    /// ranges of which it may keep something all the same. Called when the store is attached, after a
    /// sync.
    fn forget_cached(&self) -> Vec<Range<u64>> {
        Vec::new()
    }

    /// What is known of the bytes from `offset` on without reading them: a run of at least one and at
    /// most `len_bytes` bytes. A hole reads as zeroes; of anything else nothing is known.
    fn run_at(&self, _offset: u64, len_bytes: u64) -> BackingRun {
        BackingRun::unknown(len_bytes)
    }

    /// What this store has done so far.
    fn counters(&self) -> BackingCounters;

    /// How bytes travel, for `stat`: for example `io_uring, O_DIRECT`.
    fn transport(&self) -> String;

    /// Whether it began with a pool's superblock when it was opened: such a thing is no new disk.
    fn holds_pool(&self) -> bool {
        false
    }

    /// Where the store keeps its mark, by which a lost pool is noticed (`docs/inside/marks.md`). Without one
    /// nothing is noticed.
    fn mark_place(&self) -> Option<&dyn MarkPlace> {
        None
    }

    /// Where the mark lies of a pool that stands in front of the pool which has the store. Without one no pool can stand there.
    fn front_mark_place(&self) -> Option<&dyn MarkPlace> {
        None
    }
}

/// Where a backing's mark lies.
pub trait MarkPlace: Send + Sync {
    /// Every mark that is there, in no order.
    ///
    /// # Errors
    /// The system's.
    fn read(&self) -> io::Result<Vec<Vec<u8>>>;

    /// Puts the mark in the place of what is there; durable when it returns.
    ///
    /// # Errors
    /// The system's; what is there then, before a crash or after, is the old one or the new one.
    fn write(&self, mark: &[u8]) -> io::Result<()>;

    /// Whether the backing is a directory with nothing in it, which cannot be out of date.
    fn is_empty_directory(&self) -> bool {
        false
    }

    /// Whether many processes attach it one after the other: the mark is written by the first in each
    /// boot, and the one that began them all says in the end that the backing is whole.
    fn is_kept_for_a_boot(&self) -> bool {
        false
    }
}

/// Why a backing could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("backing {}: {found}; {advice}", path.display())]
#[non_exhaustive]
pub struct BackingError {
    /// The file or device.
    pub path: PathBuf,
    /// What was found.
    pub found: String,
    /// What to do about it.
    pub advice: &'static str,
    /// The operating system's error, where there was one.
    #[source]
    pub source: Option<io::Error>,
}

/// How many of `len` bytes at `offset` lie within a store of `size_bytes`.
pub(crate) fn clipped_len(size_bytes: u64, offset: u64, len: usize) -> usize {
    usize::try_from(size_bytes.saturating_sub(offset)).map_or(len, |room| room.min(len))
}
