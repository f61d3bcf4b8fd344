//! From a recovered medium to a running pool: everything in DRAM is made anew.

use std::sync::{Mutex, RwLock};

use forebay_pmem::PersistenceDomain;

use crate::api::stats::Tallies;
use crate::background::wakeup::Wakeup;
use crate::background::writeback::WriteBack;
use crate::engine::content::Content;
use crate::engine::core::{CheckpointState, Core, STATE_DIRTY};
use crate::log::lanes::Lanes;
use crate::media::Media;
use crate::media::entry::Entry;
use crate::media::layout::LINE_BYTES;
use crate::mutants::{Mutant, mutated};
use crate::options::{RuntimeOptions, VerifyPolicy};
use crate::policy::replace::Switchable;
use crate::recovery::NewIncarnation;
use crate::sync::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use crate::table::index::Index;
use crate::table::live::LiveVolumes;
use crate::table::pins::Pins;
use crate::table::slots::Slots;
use crate::table::word_set_queue::WordSetQueue;

/// Lane records of a plain file start on fresh pages.
const PAGE_BYTES: u64 = 4096;

/// Packed slots that are asked for before their headers are read.
const READ_AHEAD_SLOTS: usize = 4096;

/// The slots that hold packed blocks, each once, ascending.
fn packed_slots(mappings: &[(u32, Entry)]) -> Vec<u32> {
    let packed = mappings.iter().filter(|(_, entry)| entry.is_packed());
    let mut slots: Vec<u32> = packed.filter_map(|(_, entry)| entry.slot()).collect();
    slots.sort_unstable();
    slots.dedup();
    slots
}

impl Core {
    pub(super) fn start(
        media: Media,
        strict: bool,
        incarnation: NewIncarnation,
        mappings: &[(u32, Entry)],
        options: RuntimeOptions,
    ) -> Core {
        let geometry = media.geometry;
        let mut used_entries = vec![0u64; (geometry.entries as usize).div_ceil(64)];
        let mut used_slots = vec![0u64; (geometry.slots() as usize).div_ceil(64)];
        let set = |words: &mut [u64], bit: u32| words[bit as usize / 64] |= 1 << (bit % 64);
        let is_set = |words: &[u64], bit: u32| words[bit as usize / 64] >> (bit % 64) & 1 != 0;
        let content = Content::new(geometry.slots(), &options);
        let mut hold = |slot: u32| {
            if is_set(&used_slots, slot) && !mutated(Mutant::ReferencesNotRebuilt) {
                content.references.hold_found(slot);
            }
            set(&mut used_slots, slot);
        };
        for (index, entry) in mappings {
            set(&mut used_entries, *index);
            let Some(slot) = entry.slot() else { continue };
            hold(slot);
        }
        for some in packed_slots(mappings).chunks(READ_AHEAD_SLOTS) {
            media.read_slots_ahead(some.iter().copied());
            for slot in some {
                // What cannot be read any more has no base; readers of the block get an error.
                let base = media.packing(*slot).and_then(|packing| packing.base);
                if let Some(base) = base.filter(|_| !mutated(Mutant::BasesNotHeld)) {
                    hold(base);
                }
            }
        }
        let page_domain = media
            .members()
            .iter()
            .any(|m| m.domain() == PersistenceDomain::Page);
        let align = if page_domain && geometry.unit_bytes as u64 >= PAGE_BYTES {
            PAGE_BYTES
        } else {
            LINE_BYTES
        };
        let core = Core {
            index: Index::with_used(geometry.entries, |entry| is_set(&used_entries, entry)),
            slots: Slots::new(geometry.slots(), geometry.lanes, |slot| {
                is_set(&used_slots, slot)
            }),
            content,
            lanes: Lanes::new(
                geometry.lanes,
                geometry.lane_bytes,
                align,
                incarnation.sequence,
            ),
            states: (0..geometry.entries).map(|_| AtomicU8::new(0)).collect(),
            dirty: WordSetQueue::new(geometry.entries),
            dirty_count: AtomicU64::new(0),
            table_lines: (0..geometry.entries.div_ceil(4 * 64))
                .map(|_| AtomicU64::new(0))
                .collect(),
            checkpoint: Mutex::new(CheckpointState {
                next_line: incarnation.next_checkpoint_line,
                sequence: incarnation.sequence,
                count: 0,
            }),
            replacement: Switchable::new(options.replacement, geometry.entries as usize),
            volumes: RwLock::new(vec![None; geometry.volumes as usize]),
            live: LiveVolumes::new(geometry.volumes),
            pins: Pins::default(),
            salt: incarnation.salt,
            incarnation: incarnation.incarnation,
            strict,
            verify: AtomicBool::new(options.verify == VerifyPolicy::Always),
            poisoned: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            tallies: Tallies::default(),
            write_back: WriteBack::new(options.defer_journal),
            wakeup: Wakeup::new(
                u64::from(geometry.slots()),
                u64::from(geometry.block_bytes),
                &options,
            ),
            options,
            has_background: AtomicBool::new(false),
            media,
        };
        core.apply_watermarks();
        core.know_volumes();
        core.know_mappings(mappings);
        core
    }

    fn know_mappings(&self, mappings: &[(u32, Entry)]) {
        self.replacement
            .insert_all(&mut mappings.iter().map(|(index, _)| *index));
        for (index, entry) in mappings {
            self.index.link(self.bucket(entry.key()), *index);
            if !entry.is_clean() {
                self.set_state(*index, STATE_DIRTY);
                self.dirty_count.fetch_add(1, Ordering::Relaxed);
                self.dirty.insert(*index);
            }
        }
    }
}
