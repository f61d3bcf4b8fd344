//! From a recovered medium to a running engine: everything in DRAM is made anew.

use std::sync::Mutex;

use forebay_pmem::PersistenceDomain;

use super::Engine;
use super::checkpoint::CheckpointState;
use super::content::Content;
use super::suspects::Suspects;
use super::wakeup::Wakeup;
use crate::error::Result;
use crate::log::Log;
use crate::log::lanes::Lanes;
use crate::media::Media;
use crate::media::entry::Entry;
use crate::media::layout::LINE_BYTES;
use crate::options::RuntimeOptions;
use crate::policy::replace::Switchable;
use crate::recovery::NewIncarnation;
use crate::sync::{AtomicBool, AtomicU8};
use crate::table::Table;
use crate::tallies::Tallies;

/// Lane records of a plain file start on fresh pages.
const PAGE_BYTES: u64 = 4096;

/// At what bytes of a lane its records start.
fn record_align(media: &Media) -> u64 {
    let has_pages = media
        .members()
        .any(|member| member.domain() == PersistenceDomain::Page);
    match has_pages && u64::from(media.geometry.unit_bytes) >= PAGE_BYTES {
        true => PAGE_BYTES,
        false => LINE_BYTES,
    }
}

impl Engine {
    /// The engine of a medium with these mappings, in an incarnation that has just begun.
    ///
    /// # Errors
    /// There is no memory for the entries, which were to be in DRAM.
    pub(crate) fn start(
        media: Media,
        strict: bool,
        incarnation: NewIncarnation,
        mappings: &[(u32, Entry)],
        options: &RuntimeOptions,
    ) -> Result<Engine> {
        let geometry = media.geometry;
        let slots = u64::from(geometry.room());
        let lanes = Lanes::new(
            geometry.lanes,
            geometry.lane_bytes,
            record_align(&media),
            incarnation.sequence,
        );
        let engine = Engine {
            table: Table::start(media, mappings, options.entries_in_dram)?,
            log: Log::new(lanes, incarnation.salt, incarnation.incarnation, strict),
            content: Content::new(geometry.slots(), options),
            replacement: Switchable::new(options.replacement, geometry.entries as usize),
            checkpoint: Mutex::new(CheckpointState {
                next_line: incarnation.next_checkpoint_line,
                sequence: incarnation.sequence,
                round: incarnation.kept.round,
                count: 0,
            }),
            scrub: Mutex::new(incarnation.kept.scrub),
            rebuilding: Mutex::new(()),
            free_low_per_mille: options.free_low_per_mille,
            verify: AtomicU8::new(options.verify as u8),
            poisoned: AtomicBool::new(false),
            line_failed: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            tallies: Tallies::default(),
            suspects: Suspects::default(),
            wakeup: Wakeup::new(slots, u64::from(geometry.block_bytes), options),
        };
        let found = &mut mappings.iter().map(|(index, _)| *index);
        engine.replacement.insert_all(found);
        engine.retire_bad_slots();
        Ok(engine)
    }
}
