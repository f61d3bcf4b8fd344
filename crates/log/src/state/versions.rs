//! Versions: whether a block may have changed between two looks.

use crate::media::Key;

/// So many versions all blocks share.
const STRIPES: usize = 4096;

/// A count for each stripe of keys, which every change of one of its blocks raises.
pub(crate) struct Versions(Box<[u32]>);

impl Versions {
    pub(crate) fn new() -> Versions {
        Versions(vec![0; STRIPES].into())
    }

    fn stripe(key: Key) -> usize {
        key.hash() as usize % STRIPES
    }

    /// That of a block.
    pub(crate) fn of(&self, key: Key) -> u32 {
        self.0[Versions::stripe(key)]
    }

    /// A block changes.
    pub(crate) fn raise(&mut self, key: Key) {
        let version = &mut self.0[Versions::stripe(key)];
        *version = version.wrapping_add(1);
    }

    /// Blocks of a range change.
    pub(crate) fn raise_range(&mut self, first: Key, count: u64) {
        if count >= STRIPES as u64 {
            self.0
                .iter_mut()
                .for_each(|version| *version = version.wrapping_add(1));
            return;
        }
        for block in first.block..first.block + count {
            self.raise(Key { block, ..first });
        }
    }
}
