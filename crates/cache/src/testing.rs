//! For checkers that run a pool again and again: looks into it, and turns of its background threads.
//! Nothing here is meant for programs that keep data.

use std::ops::Range;

pub use crate::media::areas::MediumArea;
use crate::media::geometry::Geometry;

pub use crate::repeatable::{MarkWatcher, set_duplicate_bits, set_mark_watcher, set_random_seed};

/// The number that decides where this thread starts to look for a lane or a slot. To a pool it is a new
/// thread from here on: what a pool held in it that was left as a kill leaves it is forgotten.
pub fn set_thread_hint(hint: usize) {
    crate::sync::held_stripes::forget();
    crate::log::lanes::set_thread_hint(hint);
}

/// Does once, on this thread, what the flusher (0), the reclaimer (1), the checkpointer (2) or a thread that reads ahead (3) does
/// at a wakeup. The pool was opened without background threads.
///
/// # Errors
/// As the thread's work.
pub fn background_turn(pool: &crate::Pool, thread: u8) -> crate::Result<()> {
    memory_of(pool).pipeline().background_turn(thread)
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
    let volume = volume_of(volume);
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
    if let Some(column) = geometry.column_of(slot) {
        let member = geometry.column_member(column) as usize;
        return vec![(member, geometry.row_offset(column.row))];
    }
    let pair = geometry.slot_pair(slot);
    vec![
        (pair.first as usize, pair.first_offset),
        (pair.second as usize, pair.second_offset),
    ]
}

/// Whether part of the table was found to be lost, so that what it does not have may have been in it.
pub fn is_table_lost(volume: &crate::Volume) -> bool {
    volume_of(volume).pipeline.media().table_lost()
}

/// Loads a byte of a member, as any thread that works on the pool might; zero of one that a mirror does without.
pub fn load(pool: &crate::Pool, member: usize, offset: u64) -> u8 {
    let mut byte = [0];
    let media = memory_of(pool).pipeline().media();
    if let Some(member) = media.member_at(member as u32) {
        member.read(offset, &mut byte);
    }
    byte[0]
}

/// Where the entry table lies in the first member.
pub fn table_bytes(pool: &crate::Pool) -> std::ops::Range<u64> {
    let geometry = memory_of(pool).pipeline().media().geometry;
    geometry.entry_offset(0)..geometry.seals
}

/// Where the parts of a member lie, or of the first, without what is between them.
pub fn medium_areas(pool: &crate::Pool) -> Vec<(MediumArea, Range<u64>)> {
    memory_of(pool).pipeline().media().geometry.areas()
}

/// These look into pools in memory.
fn memory_of(pool: &crate::Pool) -> &crate::api::pool::MemoryPool {
    pool.memory().expect("it is a pool in memory")
}

fn volume_of(volume: &crate::Volume) -> &crate::api::volume::MemoryVolume {
    volume.memory().expect("it is of a pool in memory")
}
