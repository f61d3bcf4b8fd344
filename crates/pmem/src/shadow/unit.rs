//! A line or a sector with the stores to it that a crash may lose.

use super::{ShadowModel, WORD_BYTES};

/// The part of one store call that lies in one unit.
#[derive(Clone, Debug)]
pub(super) struct Store {
    /// Rises with every store call of the region.
    pub sequence: u64,
    pub thread: u32,
    pub streamed: bool,
    /// Words of the unit it still decides: those no durable later store has replaced.
    pub live: u64,
    /// First word of the unit it wrote.
    pub first: u8,
    /// Where its words begin in the unit's `values`.
    pub values_at: u32,
}

/// A line or a sector with stores that a crash may lose.
#[derive(Clone, Debug, Default)]
pub(super) struct Unit {
    /// In program order.
    pub stores: Vec<Store>,
    pub values: Vec<u64>,
    /// (thread, sequence): cached stores up to there were captured by a flush of the thread.
    pub captures: Vec<(u32, u64)>,
    /// A failed sync has marked its page as written: no fence writes it before a thread stores to the
    /// page again.
    pub is_dropped: bool,
}

impl Unit {
    /// Copies the words of `store` chosen by `mask` to the unit's bytes.
    pub fn apply(&self, store: &Store, mask: u64, unit_bytes: &mut [u8]) {
        let mut left = mask & store.live;
        while left != 0 {
            let word = left.trailing_zeros() as usize;
            left &= left - 1;
            let value = self.values[store.values_at as usize + word - usize::from(store.first)];
            let at = word * WORD_BYTES;
            // The last unit of a region may be a partial one.
            let end = (at + WORD_BYTES).min(unit_bytes.len());
            unit_bytes[at..end].copy_from_slice(&value.to_ne_bytes()[..end - at]);
        }
    }

    pub fn captured_by(&self, thread: u32) -> u64 {
        let own = self.captures.iter().find(|capture| capture.0 == thread);
        own.map_or(0, |capture| capture.1)
    }

    /// Makes the stores that `is_durable` picks durable and forgets what they replace; whether there are any.
    pub fn settle(
        &mut self,
        unit_bytes: &mut [u8],
        is_durable: impl Fn(&Unit, &Store) -> bool,
    ) -> bool {
        let mut is_any = false;
        for index in 0..self.stores.len() {
            if !is_durable(self, &self.stores[index]) {
                continue;
            }
            is_any = true;
            let mask = self.stores[index].live;
            self.apply(&self.stores[index], mask, unit_bytes);
            for earlier in &mut self.stores[..=index] {
                earlier.live &= !mask;
            }
        }
        self.stores.retain(|store| store.live != 0);
        is_any
    }
}

/// The bytes of unit `index` in `image`.
pub(super) fn unit_slice(image: &mut [u8], index: u32, model: ShadowModel) -> &mut [u8] {
    let start = index as usize * model.unit_bytes();
    let end = (start + model.unit_bytes()).min(image.len());
    &mut image[start..end]
}
