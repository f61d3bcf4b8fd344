//! A mark beside a disk, of which a power cut leaves the old one or the new one.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What survives of a mark: empty where there is none.
#[derive(Clone, Debug, Default)]
pub struct MarkState {
    pub(crate) durable: Vec<u8>,
    pub(crate) pending: Option<Vec<u8>>,
}

impl MarkState {
    /// What survives in any case.
    #[must_use]
    pub fn durable(&self) -> Vec<u8> {
        self.durable.clone()
    }

    /// One of the two that a power cut may leave.
    pub fn sample(&self, rng: &mut fastrand::Rng) -> Vec<u8> {
        let pending = self.pending.as_ref().filter(|_| rng.bool());
        pending.unwrap_or(&self.durable).clone()
    }
}

/// The mark of a disk that has one.
pub(crate) struct VolatileMark(Mutex<MarkState>);

impl VolatileMark {
    pub(crate) fn new(durable: Vec<u8>) -> VolatileMark {
        VolatileMark(Mutex::new(MarkState {
            durable,
            pending: None,
        }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, MarkState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
