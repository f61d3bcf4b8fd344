//! Reading several blocks: those that pages have by one batch of the device, pages that lie side by side by one read of it. Each
//! block is checked, and asked whether it has changed, for itself, as one that is read alone.

use super::core::Log;
use super::read::{Found, Reading};
use crate::device::PageRead;
use crate::error::Result;
use crate::page::{PAGE_BYTES, Pages};
use crate::state::{Entry, Held};

/// Pages of one read.
const RUN_PAGES_MAX: usize = 64;
/// Blocks that are read into other memory at once where the caller's is not aligned.
const COPIED_AT_ONCE: usize = 64;

impl Log {
    /// Reads blocks from where they were. Of each what [`Log::finish_read`] would return.
    ///
    /// # Panics
    /// `out` has not the length of the blocks.
    pub fn finish_reads(&self, readings: &[Reading], out: &mut [u8]) -> Vec<Result<Option<Found>>> {
        assert_eq!(out.len(), readings.len() * PAGE_BYTES, "whole blocks");
        let loaded = self.load_all(readings, out);
        let state = self.lock();
        let each = readings.iter().zip(loaded);
        each.map(|(reading, loaded)| reading.finished(&state, loaded))
            .collect()
    }

    fn load_all(&self, readings: &[Reading], out: &mut [u8]) -> Vec<Result<()>> {
        if out.as_ptr().addr().is_multiple_of(PAGE_BYTES) {
            return self.load_aligned(readings, out);
        }
        let mut all = Vec::with_capacity(readings.len());
        let parts = out.chunks_mut(COPIED_AT_ONCE * PAGE_BYTES);
        for (readings, out) in readings.chunks(COPIED_AT_ONCE).zip(parts) {
            let mut aligned = Pages::of_any_bytes(readings.len());
            let loaded = self.load_aligned(readings, &mut aligned);
            let blocks = out.chunks_exact_mut(PAGE_BYTES);
            let blocks = blocks.zip(aligned.chunks_exact(PAGE_BYTES));
            // What was not loaded has the bytes of others.
            for ((out, bytes), _) in blocks.zip(&loaded).filter(|one| one.1.is_ok()) {
                out.copy_from_slice(bytes);
            }
            all.extend(loaded);
        }
        all
    }

    fn load_aligned(&self, readings: &[Reading], out: &mut [u8]) -> Vec<Result<()>> {
        self.load_or(readings, out, Reading::entry, |reading, bytes| {
            self.load(reading, bytes)
        })
    }

    /// The bytes of blocks as they were at a moment, checked.
    pub(super) fn load_all_held(&self, blocks: &[Held], out: &mut [u8]) -> Vec<Result<()>> {
        self.load_or(blocks, out, Held::as_page, |held, bytes| {
            self.load_held(held, bytes)
        })
    }

    /// Reads the pages of blocks, and by `alone` each block that has none or did not come with the others.
    fn load_or<T>(
        &self,
        blocks: &[T],
        out: &mut [u8],
        entry_of: impl Fn(&T) -> Option<Entry>,
        alone: impl Fn(&T, &mut [u8]) -> Result<()>,
    ) -> Vec<Result<()>> {
        let entries: Vec<Option<Entry>> = blocks.iter().map(entry_of).collect();
        let is_loaded = self.load_pages(&entries, out);
        let each = blocks.iter().zip(out.chunks_exact_mut(PAGE_BYTES));
        each.zip(entries.into_iter().zip(is_loaded))
            .map(|((block, bytes), (entry, is_loaded))| match entry {
                _ if is_loaded => Ok(()),
                // One alone would ask the next member in turn, and the wrong page of this one would be noted by nobody.
                Some(entry) if self.load_other(entry, bytes) => Ok(()),
                _ => alone(block, bytes),
            })
            .collect()
    }

    /// Reads the pages of entries, each to its place in `out`: of which the bytes are the block's. Of a run of which something failed
    /// none is, so that no block has the error of another: each is to be loaded by itself.
    fn load_pages(&self, entries: &[Option<Entry>], out: &mut [u8]) -> Vec<bool> {
        let (mut reads, mut runs) = (Vec::new(), Vec::new());
        let (mut rest, mut first) = (out, 0);
        for run in runs_of(entries) {
            let (bytes, behind) = rest.split_at_mut(run.len() * PAGE_BYTES);
            rest = behind;
            if let Some(entry) = run[0] {
                let page = u64::from(entry.page);
                reads.push(PageRead { page, out: bytes });
                runs.push(first);
            }
            first += run.len();
        }
        let mut is_loaded = vec![false; entries.len()];
        self.device.read_many(&mut reads, &mut |number, bytes| {
            // The next ones are under way meanwhile.
            for (place, bytes) in (runs[number]..).zip(bytes.chunks_exact(PAGE_BYTES)) {
                let entry = entries[place].expect("a run of pages");
                is_loaded[place] = entry.has_bytes(bytes);
            }
        });
        is_loaded
    }
}

/// Runs of entries whose pages lie side by side, and runs of blocks without a page.
fn runs_of(entries: &[Option<Entry>]) -> impl Iterator<Item = &[Option<Entry>]> {
    let follows = |a: &Option<Entry>, b: &Option<Entry>| match (a, b) {
        (Some(a), Some(b)) => a.page.checked_add(1) == Some(b.page),
        (None, None) => true,
        _ => false,
    };
    let runs = entries.chunk_by(follows);
    runs.flat_map(|run| run.chunks(RUN_PAGES_MAX))
}
