//! A volume as the journal finders see it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Instant;

use crate::background::Pipeline;
use crate::background::volume_state::VolumeState;
use crate::media::entry::Key;
use crate::policy::journal::Content;
use crate::table::CopiedFrom;

/// Looks at a block that keeps changing.
const READ_ATTEMPTS_MAX: u32 = 16;

/// How much one look may cost.
pub(super) struct Limits {
    /// Blocks of the pool that are read from the backing.
    pub(super) backing_reads: u32,
    /// When it has taken too long, if it matters.
    pub(super) until: Option<Instant>,
}

/// The content of a volume, from the pool or its backing, read within limits and without a trace.
pub(super) struct VolumeContent<'a> {
    pipeline: &'a Pipeline,
    volume: &'a VolumeState,
    size_bytes: u64,
    reading: RefCell<Reading>,
}

/// Where the reads stand.
struct Reading {
    limits: Limits,
    /// The block that was read last; what is read next often lies in the same one.
    last: Option<u64>,
    bytes: Vec<u8>,
    /// The blocks that were read, and what the pool had of them before (`Pipeline::seen`).
    read: BTreeMap<u64, Option<u64>>,
    has_failed: bool,
}

impl<'a> VolumeContent<'a> {
    pub(super) fn new(
        pipeline: &'a Pipeline,
        volume: &'a VolumeState,
        size_bytes: u64,
        limits: Limits,
    ) -> VolumeContent<'a> {
        VolumeContent {
            pipeline,
            volume,
            size_bytes,
            reading: RefCell::new(Reading {
                limits,
                last: None,
                bytes: vec![0; pipeline.engine.block_bytes()],
                read: BTreeMap::new(),
                has_failed: false,
            }),
        }
    }

    /// The blocks that were read and what the pool had of them, and whether any could not be.
    pub(super) fn finish(self) -> (BTreeMap<u64, Option<u64>>, bool) {
        let reading = self.reading.into_inner();
        (reading.read, reading.has_failed)
    }

    /// Reads a block as it stands.
    fn load(&self, block: u64, reading: &mut Reading) -> bool {
        let Reading {
            limits,
            bytes,
            read,
            ..
        } = reading;
        let key = Key::new(self.volume.id, block);
        let bucket = self.pipeline.table().bucket(key);
        for _ in 0..READ_ATTEMPTS_MAX {
            // One that is being detached must not be kept.
            let may_go_on = limits.until.is_none_or(|until| Instant::now() < until)
                && self.pipeline.table().live().contains(self.volume.id);
            if !may_go_on {
                return false;
            }
            let (version, found) = self.pipeline.table().peek(bucket, key);
            read.entry(block)
                .or_insert(found.map(|(_, entry)| entry.slot_half()));
            let is_good = match (found, self.volume.backing()) {
                (Some((_, raw)), _) => {
                    let entry = self.pipeline.media().sound(raw);
                    let copy = |entry| self.pipeline.table().copy_out(entry, true, bytes);
                    entry.map_or(CopiedFrom::Nowhere, copy) != CopiedFrom::Nowhere
                }
                (None, Ok(backing)) if limits.backing_reads > 0 => {
                    limits.backing_reads -= 1;
                    let offset = block * self.pipeline.engine.block_bytes() as u64;
                    backing.read_at(offset, bytes).is_ok()
                }
                (None, _) => return false,
            };
            if self
                .pipeline
                .table()
                .index()
                .read_valid(bucket.stripe, version)
            {
                return is_good;
            }
        }
        false
    }
}

impl Content for VolumeContent<'_> {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> bool {
        let block_bytes = self.pipeline.engine.block_bytes();
        let reading = &mut *self.reading.borrow_mut();
        let (mut offset, mut rest) = (offset, out);
        while !rest.is_empty() {
            let within = (offset % block_bytes as u64) as usize;
            let block = offset / block_bytes as u64;
            if reading.last != Some(block) {
                reading.last = None;
                if !self.load(block, reading) {
                    reading.has_failed = true;
                    return false;
                }
                reading.last = Some(block);
            }
            let count = rest.len().min(block_bytes - within);
            let (now, later) = rest.split_at_mut(count);
            now.copy_from_slice(&reading.bytes[within..within + count]);
            offset += count as u64;
            rest = later;
        }
        true
    }
}
