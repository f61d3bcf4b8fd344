//! The stores between the view and the durable image, unit by unit.

use super::medium::Medium;
use super::unit::{Store, Unit};
use super::{CrashState, PAGE_BYTES, ShadowModel, WORD_BYTES};
use std::collections::BTreeMap;
use std::ops::Range;

/// The durable image and what is pending over it.
pub(super) struct Pending {
    model: ShadowModel,
    pub medium: Medium,
    units: BTreeMap<u32, Unit>,
    /// (thread, unit): what the next fence of the thread has to look at.
    to_fence: Vec<(u32, u32)>,
    sequence: u64,
    /// Whether a sync has failed, so that units may be dropped.
    has_failed: bool,
}

impl Pending {
    pub fn new(durable: Vec<u8>, model: ShadowModel) -> Pending {
        Pending {
            model,
            medium: Medium::new(durable, model),
            units: BTreeMap::new(),
            to_fence: Vec::new(),
            sequence: 0,
            has_failed: false,
        }
    }

    /// Notes a store of `range`, whose words `load_word` gives as they are after it.
    pub fn store(
        &mut self,
        thread: u32,
        streamed: bool,
        range: Range<usize>,
        load_word: impl Fn(usize) -> u64,
    ) {
        if range.is_empty() {
            return;
        }
        self.sequence += 1;
        self.dirty_again(&range);
        for (index, within) in units_of(&range, self.model.unit_bytes()) {
            let unit = self.units.entry(index).or_default();
            let first = within.start / WORD_BYTES;
            let end = within.end.div_ceil(WORD_BYTES);
            let base = index as usize * self.model.unit_bytes() / WORD_BYTES;
            let values_at = unit.values.len() as u32;
            unit.values
                .extend((first..end).map(|word| load_word(base + word)));
            unit.stores.push(Store {
                sequence: self.sequence,
                thread,
                streamed,
                live: mask_of(first..end),
                first: first as u8,
                values_at,
            });
            if streamed {
                self.to_fence.push((thread, index));
            }
        }
    }

    /// A page that is stored to will be written whole, whatever became of it before.
    fn dirty_again(&mut self, range: &Range<usize>) {
        if !self.has_failed {
            return;
        }
        let units_of_page = (PAGE_BYTES / self.model.unit_bytes()) as u32;
        for (page, _) in units_of(range, PAGE_BYTES) {
            let units = page * units_of_page..(page + 1) * units_of_page;
            for (_, unit) in self.units.range_mut(units) {
                unit.is_dropped = false;
            }
        }
    }

    /// A fence has failed: what it was to make durable may have arrived or not.
    pub fn fail_fence(&mut self) {
        if self.model == ShadowModel::Lines {
            return;
        }
        self.has_failed = true;
        for unit in self.units.values_mut() {
            unit.is_dropped = true;
        }
    }

    pub fn flush(&mut self, thread: u32, range: Range<usize>) {
        if self.model == ShadowModel::Pages {
            return;
        }
        for (index, _) in units_of(&range, self.model.unit_bytes()) {
            let Some(unit) = self.units.get_mut(&index) else {
                continue;
            };
            unit.captures.retain(|capture| capture.0 != thread);
            unit.captures.push((thread, self.sequence));
            self.to_fence.push((thread, index));
        }
    }

    pub fn fence(&mut self, thread: u32) {
        match self.model {
            ShadowModel::Lines => self.fence_lines(thread),
            ShadowModel::Pages => {
                for (index, mut unit) in std::mem::take(&mut self.units) {
                    if unit.is_dropped {
                        self.units.insert(index, unit);
                        continue;
                    }
                    self.medium.settle(index, &mut unit, |_, _| true);
                }
                self.to_fence.clear();
            }
        }
        self.medium.end_fence();
    }

    /// Whether stores to the unit of the byte are pending.
    pub fn is_pending(&self, at: usize) -> bool {
        let index = u32::try_from(at / self.model.unit_bytes());
        index.is_ok_and(|index| self.units.contains_key(&index))
    }

    fn fence_lines(&mut self, thread: u32) {
        let Pending {
            medium,
            units,
            to_fence,
            ..
        } = self;
        to_fence.retain(|&(owner, index)| {
            if owner != thread {
                return true;
            }
            if let Some(unit) = units.get_mut(&index) {
                medium.settle(index, unit, |unit, store| {
                    if store.streamed {
                        store.thread == thread
                    } else {
                        store.sequence <= unit.captured_by(thread)
                    }
                });
                if unit.stores.is_empty() {
                    units.remove(&index);
                }
            }
            false
        });
    }

    /// Streamed stores are like cached ones from now on, and what was flushed and not fenced has to be
    /// flushed again, even if a thread with a number that was there before does it.
    pub fn end_threads(&mut self) {
        for unit in self.units.values_mut() {
            unit.captures.clear();
            for store in &mut unit.stores {
                store.streamed = false;
            }
        }
        self.to_fence.clear();
    }

    pub fn crash_state(&self) -> CrashState {
        let mut state = CrashState::empty(self.model);
        self.crash_state_into(&mut state);
        state
    }

    pub fn crash_state_into(&self, state: &mut CrashState) {
        state.refill(
            self.model,
            &self.medium.bytes,
            self.units.iter().map(|(index, unit)| (*index, unit)),
        );
    }
}

/// Each unit that `range` touches with the bytes of it that lie in the range.
fn units_of(
    range: &Range<usize>,
    unit_bytes: usize,
) -> impl Iterator<Item = (u32, Range<usize>)> + use<> {
    let (start, end) = (range.start, range.end);
    let units = start / unit_bytes..end.div_ceil(unit_bytes);
    units.map(move |unit| {
        let base = unit * unit_bytes;
        let within = start.max(base) - base..end.min(base + unit_bytes) - base;
        let index = u32::try_from(unit).expect("a shadow region has fewer than 2^32 units");
        (index, within)
    })
}

fn mask_of(words: Range<usize>) -> u64 {
    (u64::MAX >> (64 - words.len())) << words.start
}
