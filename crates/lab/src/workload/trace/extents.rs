//! The blocks of a traced disk that are in use, moved together.

/// Pieces in use, ascending, not touching each other.
pub(super) struct Extents(Vec<Extent>);

struct Extent {
    first: u64,
    /// The block after the last.
    end: u64,
    /// Where the first one goes.
    place: u64,
}

impl Extents {
    /// Of requests that touch blocks from the first up to, without, the second number.
    pub(super) fn of(requests: impl Iterator<Item = (u64, u64)>) -> Extents {
        let mut touched: Vec<(u64, u64)> = requests.collect();
        touched.sort_unstable();
        let mut extents: Vec<Extent> = Vec::new();
        for (first, end) in touched {
            match extents.last_mut() {
                Some(last) if first <= last.end => last.end = last.end.max(end),
                last => {
                    // One block stays between two pieces: they were no neighbours.
                    let place = last.map_or(0, |last| last.place + (last.end - last.first) + 1);
                    extents.push(Extent { first, end, place });
                }
            }
        }
        Extents(extents)
    }

    /// Blocks of a disk that holds them all.
    pub(super) fn disk_blocks(&self) -> u64 {
        let last = self.0.last();
        last.map_or(0, |last| last.place + (last.end - last.first))
    }

    /// Where a block in use goes.
    pub(super) fn place_of(&self, block: u64) -> u64 {
        let after = self.0.partition_point(|extent| extent.first <= block);
        let extent = &self.0[after - 1];
        assert!(block < extent.end, "block {block} is in use");
        extent.place + (block - extent.first)
    }
}
