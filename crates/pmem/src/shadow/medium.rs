//! The durable bytes, and what goes wrong with them.

use std::ops::Range;

use super::fault::{Fault, InjectedFault};
use super::model::ShadowModel;
use super::unit::{Store, Unit, unit_slice};

/// The durable bytes, and what goes wrong with them.
pub(super) struct Medium {
    model: ShadowModel,
    pub bytes: Vec<u8>,
    /// In the order of injection.
    pub faults: Vec<InjectedFault>,
}

impl Medium {
    pub fn new(bytes: Vec<u8>, model: ShadowModel) -> Medium {
        Medium {
            model,
            bytes,
            faults: Vec::new(),
        }
    }

    /// Makes the stores to a unit durable that `is_durable` picks.
    pub fn settle(
        &mut self,
        index: u32,
        unit: &mut Unit,
        is_durable: impl Fn(&Unit, &Store) -> bool,
    ) {
        let bytes = unit_slice(&mut self.bytes, index, self.model);
        if self.faults.is_empty() {
            unit.settle(bytes, is_durable);
            return;
        }
        let mut bytes = bytes.to_vec();
        if unit.settle(&mut bytes, is_durable) {
            self.write(index, &bytes);
        }
    }

    /// The first fault that makes anything of it does.
    fn write(&mut self, index: u32, new: &[u8]) {
        let start = index as usize * self.model.unit_bytes();
        let own = start..start + new.len();
        for injected in self.faults.iter_mut().filter(|one| !one.is_over) {
            if let Some((place, bytes)) = injected.fault.of_write(&self.bytes, &own, new) {
                self.bytes[place].copy_from_slice(&bytes);
                injected.has_struck = true;
                return;
            }
        }
        self.bytes[own].copy_from_slice(new);
    }

    /// Faults of writes that this fence met are over.
    pub fn end_fence(&mut self) {
        for injected in &mut self.faults {
            let is_of_reads = matches!(injected.fault, Fault::MisdirectedRead { .. });
            injected.is_over |= injected.has_struck && !is_of_reads;
        }
    }

    /// Bytes are about to be loaded again.
    pub fn begin_eviction(&mut self, range: &Range<usize>) {
        for injected in &mut self.faults {
            let is_once = matches!(injected.fault, Fault::MisdirectedRead { is_once: true, .. });
            injected.is_over |= is_once && injected.has_struck && injected.fault.touches(range);
        }
    }

    /// What a load gets of the unit at `own`.
    pub fn load(&mut self, own: &Range<usize>) -> &[u8] {
        for injected in self.faults.iter_mut().filter(|one| !one.is_over) {
            if let Some(found) = injected.fault.of_read(own) {
                injected.has_struck |= self.bytes[found.clone()] != self.bytes[own.clone()];
                return &self.bytes[found];
            }
        }
        &self.bytes[own.clone()]
    }
}
