//! Reads, of which only those of the memory are under the engine's mutex.

use std::sync::MutexGuard;

use super::InFlight;
use crate::Engine;
use crate::mutants::{Mutant, mutated};
use forebay::{ErrorKind, Result};

/// Refuses blocks outside the engine's disk, and bytes that are not whole blocks.
pub(crate) fn check_blocks(engine: &impl Engine, block: u64, len: usize) -> Result<()> {
    let block_bytes = engine.block_bytes();
    let disk_blocks = engine.size_bytes() / block_bytes as u64;
    let end = block.checked_add((len / block_bytes) as u64);
    if len.is_multiple_of(block_bytes) && end.is_some_and(|end| end <= disk_blocks) {
        return Ok(());
    }
    Err(ErrorKind::OutOfRange {
        volume: 0,
        what: format!(
            "{len} bytes at block {block}; the disk has {disk_blocks} blocks of {block_bytes} bytes"
        ),
    }
    .into())
}

/// What a read asks of an engine. All but [`ReadThrough::read_disk`] is done under the engine's mutex.
pub(crate) trait ReadThrough: Engine {
    /// What the mutex guards.
    type State;
    /// The fault that what a read found is kept although the block was written meanwhile.
    const STALE_FILL: Mutant;

    /// Takes the mutex.
    fn lock(&self) -> MutexGuard<'_, Self::State>;

    /// What is in flight.
    fn in_flight(state: &mut Self::State) -> &mut InFlight;

    /// Whether the block has its newest bytes here.
    fn is_cached(&self, state: &Self::State, block: u64) -> bool;

    /// Copies a cached block out; false where the medium lost it and the disk has it.
    fn read_cached(&self, state: &mut Self::State, block: u64, out: &mut [u8]) -> Result<bool>;

    /// Reads blocks of the disk with one request, without the mutex.
    fn read_disk(&self, block: u64, out: &mut [u8]) -> Result<()>;

    /// So many blocks were read from the disk.
    fn note_misses(&self, state: &mut Self::State, blocks: u64);

    /// Keeps a block that is not cached as the disk has it, if there is room and reads are to do that. The
    /// read does not fail where only this does.
    fn fill(&self, state: &mut Self::State, block: u64, bytes: &[u8]) -> Result<()>;
}

/// Reads whole blocks from `first` on, each as it was at one moment: those that are cached under the mutex, and
/// neighbours that are not with one request to the disk and without it. What was written while the disk was
/// read is looked for again, since the disk may have had it in part; so nothing stale is returned or kept. Of
/// two readers of one block both read the disk, and the first keeps it.
pub(crate) fn read_through<E: ReadThrough>(engine: &E, first: u64, out: &mut [u8]) -> Result<()> {
    let block_bytes = engine.block_bytes();
    let mut at = 0;
    let mut state = engine.lock();
    while at < out.len() {
        let number = first + (at / block_bytes) as u64;
        if engine.is_cached(&state, number)
            && engine.read_cached(&mut state, number, &mut out[at..at + block_bytes])?
        {
            at += block_bytes;
            continue;
        }
        let last = first + (out.len() / block_bytes) as u64;
        let is_missing = |number: &u64| !engine.is_cached(&state, *number);
        let blocks = 1 + (number + 1..last).take_while(is_missing).count();
        let part = &mut out[at..at + blocks * block_bytes];
        let ticket = E::in_flight(&mut state).begin_read(number..number + blocks as u64);
        drop(state);
        let read = engine.read_disk(number, part);
        state = engine.lock();
        let is_current = E::in_flight(&mut state).end_read(ticket);
        read?;
        if !is_current && !mutated(E::STALE_FILL) {
            continue;
        }
        engine.note_misses(&mut state, blocks as u64);
        for (number, bytes) in (number..).zip(part.chunks_exact(block_bytes)) {
            // Another reader may have been faster.
            if !engine.is_cached(&state, number) {
                engine.fill(&mut state, number, bytes)?;
            }
        }
        at += part.len();
    }
    Ok(())
}
