//! What differs from run to run, and how a checker makes it repeat: random bytes, equal checksums, and the
//! syncs of marks.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::{ErrorKind, Result};

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
#[cfg(any(test, feature = "unstable-internals"))]
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

/// Pools that this thread creates or opens from now on draw their salts and ids from `seed`
/// instead of the system. With the seed, log records can be forged.
#[cfg(any(test, feature = "unstable-internals"))]
pub fn set_random_seed(seed: Option<u64>) {
    SEED.set(seed);
}

/// Pools that this thread creates or opens from now on look for equal blocks by `bits` bits of their
/// CRCs, so that blocks which differ are taken for equal until their bytes are compared.
#[cfg(any(test, feature = "unstable-internals"))]
pub fn set_duplicate_bits(bits: u32) {
    DUPLICATE_BITS.set(bits.clamp(1, u32::BITS));
}

/// Seconds since 1970, as lines of the medium have them.
pub(crate) fn now_s() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let is_repeated = SEED.get().is_some();
    since.map_or(1, |since| {
        if is_repeated {
            1
        } else {
            since.as_secs() as u32
        }
    })
}

/// The bits of a CRC by which equal blocks are looked for.
pub(crate) fn duplicate_mask() -> u32 {
    u32::MAX << (u32::BITS - DUPLICATE_BITS.get())
}

/// Whether this thread's choices are repeated.
pub(crate) fn is_repeated() -> bool {
    SEED.get().is_some()
}

/// Random bytes: the system's, unless a checker has set a seed.
pub(crate) fn random_bytes(out: &mut [u8]) -> std::result::Result<(), getrandom::Error> {
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

/// Sixteen of them, as an identity.
///
/// # Errors
/// The system has no randomness.
pub(crate) fn fresh_uuid() -> Result<[u8; 16]> {
    let mut uuid = [0; 16];
    random_bytes(&mut uuid)
        .map_err(|error| ErrorKind::Options(format!("no randomness: {error}")))?;
    Ok(uuid)
}
