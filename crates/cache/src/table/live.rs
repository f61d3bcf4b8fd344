//! Which volumes may be changed now.
//!
//! A thread that installs a block asks under the lock of the key's stripe. So a volume that is to go is
//! first struck off here; once every stripe's lock has been taken after that, no thread that saw it
//! attached is still at work, and no other begins.

use crate::media::volumes::place_of;
use crate::sync::{AtomicU32, Ordering};

/// The id of each place of the volume table, 0 where there is none.
pub(crate) struct LiveVolumes(Box<[AtomicU32]>);

impl LiveVolumes {
    /// So many places, all of them empty.
    pub(crate) fn new(places: u32) -> LiveVolumes {
        LiveVolumes((0..places).map(|_| AtomicU32::new(0)).collect())
    }

    /// The volume may be changed from now on.
    pub(crate) fn add(&self, id: u32) {
        self.0[place_of(id)].store(id, Ordering::Relaxed);
    }

    /// It may not any more, once every stripe has been locked after this.
    pub(crate) fn remove(&self, id: u32) {
        self.0[place_of(id)].store(0, Ordering::Relaxed);
    }

    /// No volume may be changed any more, once every stripe has been locked after this.
    pub(crate) fn clear(&self) {
        self.0.iter().for_each(|id| id.store(0, Ordering::Relaxed));
    }

    /// Whether it may. Relaxed: the stripe's lock, which the caller holds, orders it.
    #[inline]
    pub(crate) fn contains(&self, id: u32) -> bool {
        self.0
            .get(place_of(id))
            .is_some_and(|live| live.load(Ordering::Relaxed) == id)
    }
}
