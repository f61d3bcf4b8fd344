//! A mark beside a disk, of which a power cut leaves the old one or the new one.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use forebay::MarkPlace;

use crate::{DiskEvent, VolatileDisk};

/// What survives of a mark: empty where there is none.
#[derive(Clone, Debug, Default)]
pub struct MarkState {
    durable: Vec<u8>,
    pending: Option<Vec<u8>>,
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

impl VolatileDisk {
    fn marked(&self) -> io::Result<&VolatileMark> {
        let mark = self.mark.as_ref();
        mark.ok_or_else(|| io::Error::other("this disk has no place for a mark"))
    }
}

impl MarkPlace for VolatileDisk {
    fn read(&self) -> io::Result<Vec<Vec<u8>>> {
        let MarkState { durable, pending } = self.marked()?.lock().clone();
        let visible = Some(pending.unwrap_or(durable));
        Ok(visible
            .into_iter()
            .filter(|mark| !mark.is_empty())
            .collect())
    }

    fn write(&self, mark: &[u8]) -> io::Result<()> {
        let place = self.marked()?;
        self.call_hook(DiskEvent::Mark);
        place.lock().pending = Some(mark.to_vec());
        self.call_hook(DiskEvent::Mark);
        {
            let mut state = place.lock();
            if let Some(pending) = state.pending.take() {
                state.durable = pending;
            }
        }
        self.call_hook(DiskEvent::Synced);
        Ok(())
    }
}
