//! For checkers that run a pool again and again: looks into it, and turns of its background threads.
//! Nothing here is meant for programs that keep data.

use std::ops::Range;

use crate::media::geometry::Geometry;

pub use crate::repeatable::{MarkWatcher, set_duplicate_bits, set_mark_watcher, set_random_seed};

/// The number that decides where this thread starts to look for a lane or a slot. To a pool it is a new
/// thread from here on: what a pool held in it that was left as a kill leaves it is forgotten.
pub fn set_thread_hint(hint: usize) {
    crate::sync::held_stripes::forget();
    crate::log::lanes::set_thread_hint(hint);
}

/// Does once, on this thread, what the flusher (0), the reclaimer (1) or the checkpointer of a pool does
/// at a wakeup. The pool was opened without background threads.
///
/// # Errors
/// As the thread's work.
pub fn background_turn(pool: &crate::Pool, thread: u8) -> crate::Result<()> {
    pool.pipeline().background_turn(thread)
}

/// Where a pool has a block.
#[derive(Clone, Debug)]
pub struct BlockLocation {
    /// Its backing does not have it yet.
    pub is_dirty: bool,
    /// The number of a member, and bytes of it that hold the block or part of it, for each place of a mirror that may.
    pub bytes: Vec<(usize, Range<u64>)>,
}

/// Where a block is as far as the table says; `None` if it is not in the pool.
pub fn locate_block(volume: &crate::Volume, block: u64) -> Option<BlockLocation> {
    let table = volume.pipeline.table();
    let key = volume.key(block);
    let (_, found) = table.peek(table.bucket(key), key);
    let media = table.media();
    let entry = media.sound(found?.1)?;
    let packing = entry.slot().filter(|_| entry.is_packed());
    let base = packing.and_then(|slot| media.packing(slot)?.base);
    let slots = entry.slot().into_iter().chain(base);
    let bytes = slots.flat_map(|slot| {
        let places = places_of(&media.geometry, slot).into_iter();
        places.map(|(member, start)| (member, start..start + media.block_bytes() as u64))
    });
    Some(BlockLocation {
        is_dirty: !entry.is_clean(),
        bytes: bytes.collect(),
    })
}

/// The members and offsets that a slot's block may be at.
fn places_of(geometry: &Geometry, slot: u32) -> Vec<(usize, u64)> {
    if !geometry.is_mirrored {
        return vec![geometry.slot_place(slot)];
    }
    let pair = geometry.slot_pair(slot);
    vec![
        (pair.first as usize, pair.first_offset),
        (pair.second as usize, pair.second_offset),
    ]
}

/// Whether part of the table was found to be lost, so that what it does not have may have been in it.
pub fn is_table_lost(volume: &crate::Volume) -> bool {
    volume.pipeline.media().table_lost()
}

/// Loads a byte of a member, as any thread that works on the pool might; zero of one that a mirror does without.
pub fn load(pool: &crate::Pool, member: usize, offset: u64) -> u8 {
    let mut byte = [0];
    let media = pool.pipeline().media();
    if let Some(member) = media.member_at(member as u32) {
        member.read(offset, &mut byte);
    }
    byte[0]
}

/// Where the entry table lies in the first member.
pub fn table_bytes(pool: &crate::Pool) -> std::ops::Range<u64> {
    let geometry = pool.pipeline().media().geometry;
    geometry.entry_offset(0)..geometry.seals
}

/// A part of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MediumArea {
    /// What the pool is.
    Superblock,
    /// The two lines of incarnations.
    Incarnation,
    /// The two lines of checkpoints.
    Checkpoint,
    /// The two lines that say which members count.
    Roster,
    /// A word for each lane of a strict pool.
    CommitWords,
    /// The volumes' descriptions.
    VolumeLines,
    /// The entry table.
    Table,
    /// The seals of its lines.
    Seals,
    /// The log.
    Lanes,
    /// The blocks.
    Slots,
}

/// Where they lie in each member, or the first, without what is between them.
pub fn medium_areas(pool: &crate::Pool) -> Vec<(MediumArea, Range<u64>)> {
    use crate::media::layout::{
        ENTRY_BYTES, INCARNATION_BYTES, LINE_BYTES, ROSTER_BYTES, SEAL_BYTES, SUPERBLOCK_BYTES,
        VOLUME_BYTES,
    };
    let geometry = pool.pipeline().media().geometry;
    let bytes = |start: u64, len: u64| start..start + len;
    let (line, roster) = (INCARNATION_BYTES as u64, ROSTER_BYTES as u64);
    let mut areas = vec![(MediumArea::Superblock, bytes(0, SUPERBLOCK_BYTES as u64))];
    for which in 0..2 {
        areas.extend([
            (
                MediumArea::Incarnation,
                bytes(geometry.incarnation_line(which), line),
            ),
            (
                MediumArea::Checkpoint,
                bytes(geometry.checkpoint_line(which), line),
            ),
        ]);
        if geometry.is_mirrored {
            areas.push((
                MediumArea::Roster,
                bytes(geometry.roster_line(which), roster),
            ));
        }
    }
    let words = u64::from(geometry.lanes) * LINE_BYTES;
    let volumes = u64::from(geometry.volumes) * 2 * VOLUME_BYTES as u64;
    let table = u64::from(geometry.entries) * ENTRY_BYTES;
    let seals = match geometry.is_sealed() {
        true => table / LINE_BYTES * SEAL_BYTES,
        false => 0,
    };
    let lanes = u64::from(geometry.lanes) * geometry.lane_bytes;
    let slots = u64::from(geometry.slots_per_member) * u64::from(geometry.block_bytes);
    areas.extend([
        (MediumArea::CommitWords, bytes(geometry.commit_words, words)),
        (
            MediumArea::VolumeLines,
            bytes(geometry.volume_table, volumes),
        ),
        (MediumArea::Table, bytes(geometry.entry_table, table)),
        (MediumArea::Seals, bytes(geometry.seals, seals)),
        (MediumArea::Lanes, bytes(geometry.lane_area, lanes)),
        (MediumArea::Slots, bytes(geometry.slot_area, slots)),
    ]);
    areas
}
