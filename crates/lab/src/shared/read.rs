//! Reads of several blocks, of which some are cached.

use crate::Engine;
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

/// Reads whole blocks from `first` on: each that `find` knows with `hit`, and neighbours that it does
/// not know together with `miss`.
pub(crate) fn read_blocks<S, P>(
    state: &mut S,
    first: u64,
    out: &mut [u8],
    block_bytes: usize,
    find: impl Fn(&S, u64) -> Option<P>,
    mut hit: impl FnMut(&mut S, P, u64, &mut [u8]) -> Result<()>,
    mut miss: impl FnMut(&mut S, u64, &mut [u8]) -> Result<()>,
) -> Result<()> {
    let (mut number, mut rest) = (first, out);
    while !rest.is_empty() {
        let found = find(state, number);
        let blocks = match found {
            Some(_) => 1,
            None => {
                let left = (rest.len() / block_bytes) as u64;
                let is_missing = |number: &u64| find(state, *number).is_none();
                1 + (number + 1..number + left).take_while(is_missing).count()
            }
        };
        let (part, after) = rest.split_at_mut(blocks * block_bytes);
        match found {
            Some(place) => hit(state, place, number, part)?,
            None => miss(state, number, part)?,
        }
        number += blocks as u64;
        rest = after;
    }
    Ok(())
}
