//! What every replacement policy does.

/// A replacement policy over entries `0..capacity`. All methods may be called from any thread.
pub trait Replacement: Send + Sync {
    /// `entry` now caches a block. Inserting one that is present counts as a hit.
    fn on_insert(&self, entry: u32);

    /// As `on_insert` for entries none of which is present: what recovery found.
    fn insert_all(&self, entries: &mut dyn Iterator<Item = u32>) {
        for entry in entries {
            self.on_insert(entry);
        }
    }

    /// The block of `entry` was read or overwritten. Unknown entries are ignored: a hit may race
    /// with the removal.
    fn on_hit(&self, entry: u32);

    /// `entry` no longer caches anything. Unknown entries are ignored.
    fn on_remove(&self, entry: u32);

    /// Appends up to `wanted` entries for which `eligible` holds to `out`, best victim first, each
    /// at most once a call. They stay until `on_remove`. Others (dirty, in a commit) are passed over
    /// and stay. The scan is bounded, so fewer than wanted may come back although more are eligible
    /// (calling again goes on from there), but none only where none was. `eligible` runs under the
    /// policy's lock and must not block.
    fn victims(&self, wanted: usize, eligible: &mut dyn FnMut(u32) -> bool, out: &mut Vec<u32>);

    /// Entries present.
    fn len(&self) -> usize;

    /// Whether no entry is present.
    #[cfg(any(test, feature = "unstable-internals"))]
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// DRAM held, in bytes.
    fn dram_bytes(&self) -> u64;
}

/// Entries looked at per call of `victims` for each one wanted, once one was found: with three
/// quarters of the pool dirty or recently hit, a call still finds what it wants on average.
pub(super) const SCAN_PER_WANTED: usize = 16;
