//! Reading blocks that are not cached: from the backing, and into the pool at the same time, unless they are of a long run of reads
//! that passes the pool by. What is cached is read from the pool in any case.
//!
//! Invariant: a block that the backing gave is used, and brought in, only if nothing happened to its
//! stripe since it was seen not to be cached. A write, a write-back and an evict may have passed
//! between that look and the backing's answer, which is then from before the write. Where something happened to the stripe of one block
//! of many, as it does where others are evicted to make room for them, it is looked at again: if it is not cached, and none of them
//! left the pool or was zeroed behind it meanwhile, it was another key's.

mod queued;

use std::ops::Range;

use super::MemoryVolume;
use crate::engine::fill::StreamedBlock;
use crate::error::Result;
use crate::media::entry::Key;
use crate::mutants::{Mutant, mutated};
use crate::table::index::{Bucket, Version};
use crate::table::pins::Watch;

pub use queued::QueuedReads;

/// Blocks that one request to the backing brings: enough for a slow device to stream.
const MISSING_RUN_BLOCKS_MAX: usize = 256;

/// A block that was not cached.
#[derive(Clone, Copy)]
struct Missing {
    bucket: Bucket,
    /// Of the stripe, when that was seen.
    version: Version,
    /// Whether what the backing has of it may be brought in.
    may_fill: bool,
    /// It is of a run that passes the pool by.
    passes_by: bool,
}

impl Missing {
    fn passing_by(self, passes_by: bool) -> Missing {
        Missing {
            may_fill: self.may_fill && !passes_by,
            passes_by,
            ..self
        }
    }
}

impl MemoryVolume {
    /// A block that was seen not to be cached at this version, before the backing is asked for it. A discard
    /// that zeroes it there lists that first, then gives the stripe a new version: what was settled now and
    /// is brought in at this version was not zeroed in between.
    fn missing(&self, block: u64, bucket: Bucket, version: Version, fill: bool) -> Missing {
        Missing {
            bucket,
            version,
            may_fill: fill
                && (self.state.zeroings.is_settled(block)
                    || mutated(Mutant::FilledFromUnsyncedZeroes)),
            passes_by: false,
        }
    }

    /// Reads the block at the start of `out`, and those after it as far as none of them is cached.
    /// Returns how many it read, at least one.
    pub(super) fn read_on(&self, block: u64, out: &mut [u8]) -> Result<usize> {
        let block_bytes = self.block_size();
        let count = out.len() / block_bytes;
        let passes_by = self.note_miss(block..block + count as u64);
        // Before the first look at any of them.
        let blocks = block..block + count.min(MISSING_RUN_BLOCKS_MAX) as u64;
        let watch = self.pipeline.table().pins().watch(self.id(), blocks);
        let mut missing = self.missing_run(block, count, passes_by);
        // Also of a single one, since the read has been noted.
        if !missing.is_empty() {
            let bytes = &mut out[..missing.len() * block_bytes];
            return self.read_missing(block, &mut missing, &watch, bytes);
        }
        drop(watch);
        self.read_versioned(block, &mut out[..block_bytes], false)?;
        Ok(1)
    }

    /// Notes a read that misses at least its first block, and has what follows read ahead; whether it is of a run that passes
    /// the pool by.
    fn note_miss(&self, blocks: Range<u64>) -> bool {
        let (streams, read_ahead) = (self.pipeline.streams(), self.pipeline.read_ahead());
        if streams.cutoff_bytes() == 0 && read_ahead.bytes() == 0 {
            return false;
        }
        let position = streams.note(self.id(), blocks);
        self.pipeline
            .want_ahead(&self.state, position, self.blocks());
        streams.is_past_cutoff(position)
    }

    /// The first blocks from `block` on, at most `count`, that are not cached and that no thread is changing.
    fn missing_run(&self, block: u64, count: usize, passes_by: bool) -> Vec<Missing> {
        let pipeline = &*self.pipeline;
        let missing = |number| {
            let key = self.key(number);
            let bucket = pipeline.table().bucket(key);
            let version = pipeline.table().index().try_read_begin(bucket.stripe)?;
            let missing = || {
                let missing = self.missing(number, bucket, version, true);
                missing.passing_by(passes_by)
            };
            let is_cached = pipeline.table().find(bucket, key).is_some();
            let is_missing = !is_cached || (passes_by && mutated(Mutant::PassedByWhatIsDirty));
            is_missing.then(missing)
        };
        let run_max = count.min(MISSING_RUN_BLOCKS_MAX);
        (block..).map_while(missing).take(run_max).collect()
    }

    /// Reads blocks that were not cached with one request to the backing, or those of them that were read ahead; returns how many it
    /// read. One that another thread changed meanwhile is read again by itself.
    fn read_missing(
        &self,
        block: u64,
        missing: &mut [Missing],
        watch: &Watch,
        out: &mut [u8],
    ) -> Result<usize> {
        self.pipeline.engine().check_table_whole()?;
        let count = self.ask(block, out)?;
        let missing = &mut missing[..count];
        let out = &mut out[..count * self.block_size()];
        for (number, seen) in (block..).zip(missing.iter_mut()) {
            self.look_again(self.key(number), seen, watch);
        }
        let streamed = self.stream_fills(missing, out);
        let blocks = out.chunks_exact_mut(self.block_size());
        let blocks = (block..).zip(blocks).zip(streamed);
        for (index, ((number, bytes), streamed)) in blocks.enumerate() {
            self.look_again(self.key(number), &mut missing[index], watch);
            let Missing {
                bucket, version, ..
            } = missing[index];
            let Some(after) = self.take_miss(self.key(number), missing[index], streamed) else {
                self.read_versioned(number, bytes, false)?;
                continue;
            };
            if after == version {
                continue;
            }
            note_own_fill(&mut missing[index + 1..], bucket, version, after);
        }
        Ok(count)
    }

    /// Where something happened to the stripe since the block was seen not to be cached, looks whether it was this block: if it is not
    /// cached, and nothing of what is watched since before that left the pool, it was not cached in between, and is as it was.
    fn look_again(&self, key: Key, seen: &mut Missing, watch: &Watch) {
        if self.is_as_seen(seen) {
            return;
        }
        let (version, found) = self.pipeline.table().peek(seen.bucket, key);
        // What the medium lost of the table is not found either.
        let is_whole = self.pipeline.engine().check_table_whole().is_ok();
        if found.is_none() && is_whole && !watch.is_stale() {
            seen.version = version;
        }
    }

    /// What the backing has of blocks that were seen not to be cached: as it was read ahead, or it is asked now. Returns of how
    /// many blocks, all of them if it was asked.
    fn ask(&self, block: u64, out: &mut [u8]) -> Result<usize> {
        let ahead = self.pipeline.take_ahead(&self.state, block, out);
        if ahead == 0 {
            self.read_backing(block, out)?;
            return Ok(out.len() / self.block_size());
        }
        self.pipeline
            .engine()
            .tallies()
            .mine()
            .read_ahead(ahead as u64);
        self.check_answer()?;
        Ok(ahead)
    }

    pub(super) fn read_backing(&self, block: u64, out: &mut [u8]) -> Result<()> {
        let offset = block * self.block_size() as u64;
        let backing = self.state.backing()?;
        // It is another volume's: that one's reads need not queue behind these.
        self.state.check_here()?;
        backing
            .read_at(offset, out)
            .map_err(|source| self.state.backing_error(source))?;
        self.check_answer()
    }

    /// What the backing gave since the pool was closed may be older than what another process acknowledged; since the volume
    /// was detached, than what its next one did.
    fn check_answer(&self) -> Result<()> {
        self.pipeline.engine().check_open()?;
        self.state.check_here()
    }

    /// A block that is not cached. False if something happened to its stripe meanwhile: a write, a
    /// write-back and an evict may have passed between the look and the backing's answer.
    pub(super) fn read_miss(
        &self,
        key: Key,
        bucket: Bucket,
        version: Version,
        out: &mut [u8],
        fill: bool,
    ) -> Result<bool> {
        self.pipeline.engine().check_table_whole()?;
        let passes_by = fill && self.note_miss(key.block()..key.block() + 1);
        let missing = self.missing(key.block(), bucket, version, fill);
        let missing = missing.passing_by(passes_by);
        match fill {
            true => drop(self.ask(key.block(), out)?),
            false => self.read_backing(key.block(), out)?,
        }
        let streamed = self.stream_fill(&missing, out, self.may_fill());
        let streamed = streamed.filter(|_| self.fence_fills());
        let taken = self.take_miss(key, missing, streamed);
        Ok(taken.is_some())
    }

    /// Whether reads bring blocks into the pool.
    fn may_fill(&self) -> bool {
        let pipeline = &*self.pipeline;
        pipeline.options().fill_on_read && pipeline.engine().check_writable().is_ok()
    }

    /// Streams what the backing gave for a block that was not cached to a slot; none if it is not to be brought in, or there is no room.
    fn stream_fill(
        &self,
        missing: &Missing,
        bytes: &[u8],
        may_fill: bool,
    ) -> Option<StreamedBlock> {
        if !(may_fill && missing.may_fill && self.is_as_seen(missing)) {
            return None;
        }
        crate::sync::look_hint();
        self.pipeline.engine().stream_fill(bytes)
    }

    /// Has one fence for all blocks that were streamed; whether it was done. A failed one has poisoned the pool, which every writer learns; the bytes that
    /// the backing gave are right all the same.
    fn fence_fills(&self) -> bool {
        self.pipeline.engine().fence_fills().is_ok()
    }

    /// The same for several blocks, each with what was streamed of it.
    fn stream_fills(&self, missing: &[Missing], bytes: &[u8]) -> Vec<Option<StreamedBlock>> {
        let may_fill = self.may_fill();
        let blocks = bytes.chunks_exact(self.block_size()).zip(missing);
        let mut streamed: Vec<Option<StreamedBlock>> = blocks
            .map(|(bytes, missing)| self.stream_fill(missing, bytes, may_fill))
            .collect();
        self.fence_streamed(&mut streamed);
        streamed
    }

    /// Has one fence for what was streamed of all these blocks; what a failed one covered is not brought in.
    fn fence_streamed(&self, streamed: &mut [Option<StreamedBlock>]) {
        if streamed.iter().any(Option::is_some) && !self.fence_fills() {
            streamed.iter_mut().for_each(|block| *block = None);
        }
    }

    /// All of these blocks, as they were seen, if none of them is cached or being changed.
    fn all_missing(&self, block: u64, count: usize) -> Option<Vec<Missing>> {
        let is_inside = block.saturating_add(count as u64) <= self.blocks();
        if !is_inside {
            return None;
        }
        let missing = self.missing_run(block, count, false);
        // Behind the look, which finds what the medium lost of the table, and no entry there.
        let is_whole = self.pipeline.engine().check_table_whole().is_ok();
        (is_whole && missing.len() == count).then_some(missing)
    }

    /// Notes a read that misses and goes on with no run; whether it passes the pool by. None if it does go on with one, and
    /// then it is not noted.
    fn note_apart(&self, blocks: Range<u64>) -> Option<bool> {
        let (streams, read_ahead) = (self.pipeline.streams(), self.pipeline.read_ahead());
        if streams.cutoff_bytes() == 0 && read_ahead.bytes() == 0 {
            return Some(false);
        }
        let position = streams.note_apart(self.id(), blocks)?;
        Some(streams.is_past_cutoff(position))
    }

    fn count_misses(&self, missing: &[Missing]) {
        let tallies = self.pipeline.engine().tallies().mine();
        tallies.read_misses(missing.len() as u64);
        tallies.passed_by(missing.iter().filter(|seen| seen.passes_by).count() as u64);
    }

    /// Brings blocks in that were streamed and fenced, each if nothing happened to its stripe but that those before it were brought in.
    fn finish_fills(
        &self,
        blocks: &[u64],
        missing: &mut [Missing],
        streamed: Vec<Option<StreamedBlock>>,
    ) {
        let engine = self.pipeline.engine();
        for ((index, block), streamed) in blocks.iter().enumerate().zip(streamed) {
            let (bucket, version) = (missing[index].bucket, missing[index].version);
            let key = self.key(*block);
            let filled =
                streamed.and_then(|streamed| engine.finish_fill(key, bucket, version, streamed));
            if let Some(after) = filled {
                note_own_fill(&mut missing[index + 1..], bucket, version, after);
            }
        }
    }

    /// Whether nothing happened to its stripe since the block was seen not to be cached.
    fn is_as_seen(&self, missing: &Missing) -> bool {
        let index = self.pipeline.table().index();
        index.read_valid(missing.bucket.stripe, missing.version)
            || mutated(Mutant::FillIgnoresVersion)
    }

    /// Counts what the backing gave for a block that was not cached at `version`, and brings it in where it was streamed.
    /// Returns the stripe's version if that is all that happened to it since; otherwise `version`, or
    /// none if something had happened before: the bytes are not to be used.
    fn take_miss(
        &self,
        key: Key,
        missing: Missing,
        streamed: Option<StreamedBlock>,
    ) -> Option<Version> {
        let engine = self.pipeline.engine();
        let Missing {
            bucket,
            version,
            passes_by,
            ..
        } = missing;
        if !self.is_as_seen(&missing) {
            if let Some(block) = streamed {
                engine.abandon_fill(block);
            }
            return None;
        }
        let tallies = engine.tallies().mine();
        tallies.read_misses(1);
        tallies.passed_by(u64::from(passes_by));
        let filled = streamed.and_then(|block| engine.finish_fill(key, bucket, version, block));
        Some(filled.unwrap_or(version))
    }
}

/// If bringing a block in is all that happened to its stripe, what was seen of the later ones still holds, which are other blocks.
fn note_own_fill(later: &mut [Missing], bucket: Bucket, version: Version, after: Version) {
    let same_stripe = |seen: &&mut Missing| seen.bucket.stripe == bucket.stripe;
    for seen in later.iter_mut().filter(same_stripe) {
        if seen.version == version {
            seen.version = after;
        }
    }
}
