//! The bytes that changes bring, drawn from seeds.

use crate::oracle::Patch;
use crate::scenario::{Change, Item};

/// The bytes that a change brings which does not depend on what was there.
pub fn whole_content(change: Change, len: usize) -> Option<Vec<u8>> {
    match change {
        Change::Whole(seed) => Some(noise(seed, len)),
        Change::Known(seed) => Some(known(seed, len)),
        _ => None,
    }
}

/// One of a few blocks: zeroes or noise, perhaps with a few bytes changed where the cache does not
/// look when it guesses which block this one is like.
fn known(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut bytes = match rng.u64(..4) {
        0 => vec![0; len],
        number => noise(number, len),
    };
    for _ in 0..rng.usize(..3) {
        let eighth = len / 8;
        let at = rng.usize(..8) * eighth + rng.usize(..eighth / 2).min(7);
        bytes[at] = rng.u8(..3);
    }
    bytes
}

/// What a call that writes whole blocks brings, if these changes can be one: half of those that can
/// are. `index` says which of the oracle's blocks one is.
pub fn one_call(
    items: &[Item],
    block_bytes: usize,
    index: impl Fn(usize) -> usize,
) -> Option<Vec<Patch>> {
    let (Change::Whole(first) | Change::Known(first)) = items.first()?.change else {
        return None;
    };
    if first % 2 == 0 {
        return None;
    }
    let patches = items.iter().zip(items[0].block..).map(|(item, block)| {
        let bytes = whole_content(item.change, block_bytes)?;
        (item.block == block).then(|| Patch {
            block: index(block),
            offset: 0,
            bytes,
        })
    });
    patches.collect()
}

/// Changes one to three bytes of a block.
pub fn make_similar(bytes: &mut [u8], seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    for _ in 0..rng.usize(1..4) {
        bytes[rng.usize(..bytes.len())] = rng.u8(..);
    }
}

/// `len` bytes that no other seed gives.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    std::iter::repeat_with(|| rng.u8(..)).take(len).collect()
}
