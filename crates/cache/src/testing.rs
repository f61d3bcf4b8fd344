//! For checkers that run a pool again and again: makes repeatable what differs from run to run.
//! Nothing here is meant for programs that keep data.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::rc::Rc;

pub use crate::table::queue::Queue;

thread_local! {
    static SEED: Cell<Option<u64>> = const { Cell::new(None) };
    static DUPLICATE_BITS: Cell<u32> = const { Cell::new(u32::BITS) };
    static MARK_WATCHER: RefCell<Option<Rc<dyn MarkWatcher>>> = const { RefCell::new(None) };
}

/// Is told of the syncs by which marks in files become durable.
pub trait MarkWatcher {
    /// A mark's file, or the folder that has it, is about to be synced.
    fn before_sync(&self);
    /// It was.
    fn synced(&self, file: &File);
}

/// Sets or clears the watcher of this thread's syncs of marks.
pub fn set_mark_watcher(watcher: Option<Rc<dyn MarkWatcher>>) {
    MARK_WATCHER.set(watcher);
}

/// Makes a mark's file, or the folder that has it, durable.
pub(crate) fn sync_mark(file: &File) -> io::Result<()> {
    let watcher = MARK_WATCHER.with_borrow(Clone::clone);
    let Some(watcher) = watcher else {
        return file.sync_all();
    };
    watcher.before_sync();
    file.sync_all()?;
    watcher.synced(file);
    Ok(())
}

/// The number that decides where this thread starts to look for a lane or a slot. To a pool it is a new
/// thread from here on: what a pool held in it that was left as a kill leaves it is forgotten.
pub fn set_thread_hint(hint: usize) {
    crate::sync::held_stripes::forget();
    crate::log::lanes::set_thread_hint(hint);
}

/// Pools that this thread creates or opens from now on draw their salts and ids from `seed`
/// instead of the system. With the seed, log records can be forged.
pub fn set_random_seed(seed: Option<u64>) {
    SEED.set(seed);
}

/// Pools that this thread creates or opens from now on look for equal blocks by so many bits of their
/// CRCs, so that blocks which differ are taken for equal until their bytes are compared.
pub fn set_duplicate_bits(bits: u32) {
    DUPLICATE_BITS.set(bits.clamp(1, u32::BITS));
}

/// The bits of a CRC by which equal blocks are looked for.
pub(crate) fn duplicate_mask() -> u32 {
    u32::MAX << (u32::BITS - DUPLICATE_BITS.get())
}

/// Does once, on this thread, what the flusher (0), the reclaimer (1) or the checkpointer of a pool does
/// at a wakeup. The pool was opened without background threads.
///
/// # Errors
/// As the thread's work.
pub fn background_turn(pool: &crate::Pool, thread: u8) -> crate::Result<()> {
    pool.core().background_turn(thread)
}

/// Where a pool has a block.
#[derive(Clone, Debug)]
pub struct Whereabouts {
    /// Its backing does not have it yet.
    pub is_dirty: bool,
    /// The number of a member, and bytes of it that hold the block or part of it.
    pub bytes: Vec<(usize, Range<u64>)>,
}

/// Where a block is as far as the table says; `None` if it is not in the pool.
pub fn whereabouts(volume: &crate::Volume, block: u64) -> Option<Whereabouts> {
    volume.core.whereabouts(volume.key(block))
}

/// Whether part of the table was found to be lost, so that what it does not have may have been in it.
pub fn is_table_lost(volume: &crate::Volume) -> bool {
    volume.core.media.table_lost()
}

/// Loads a byte of a member, as any thread that works on the pool might.
pub fn load(pool: &crate::Pool, member: usize, offset: u64) -> u8 {
    let mut byte = [0];
    pool.core().media.members()[member].read(offset, &mut byte);
    byte[0]
}

/// Whether this thread's choices are repeated.
pub(crate) fn is_repeated() -> bool {
    SEED.get().is_some()
}

/// Random bytes: the system's, unless a checker has set a seed.
pub(crate) fn random_bytes(out: &mut [u8]) -> Result<(), getrandom::Error> {
    let Some(mut state) = SEED.get() else {
        return getrandom::fill(out);
    };
    for chunk in out.chunks_mut(8) {
        // SplitMix64 (Steele, Lea and Flood, 2014).
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^= word >> 31;
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
    SEED.set(Some(state));
    Ok(())
}

impl crate::engine::core::Core {
    fn whereabouts(&self, key: crate::media::entry::Key) -> Option<Whereabouts> {
        let (_, found) = self.peek(self.bucket(key), key);
        let (_, entry) = found?;
        let packing = entry.slot().filter(|_| entry.is_packed());
        let base = packing.and_then(|slot| self.media.packing(slot)?.base);
        let slots = entry.slot().into_iter().chain(base);
        let bytes = slots.map(|slot| {
            let (member, start) = self.media.geometry.slot_place(slot);
            (member, start..start + self.block_bytes() as u64)
        });
        Some(Whereabouts {
            is_dirty: !entry.is_clean(),
            bytes: bytes.collect(),
        })
    }
}
