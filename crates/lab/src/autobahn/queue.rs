//! The lock-free FIFO queue (§4.4, Figure 7): a circular array, and one `fetch_add` an operation.
//!
//! A producer or consumer takes a ticket and has the place of that ticket to itself; it waits there until the place
//! is its own: empty for this lap, or filled. A ticket cannot be given back.

use std::io;

use super::sync::{AtomicU32, AtomicU64, Ordering, pause};

/// Two lines, since processors fetch them in pairs.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Position(AtomicU64);

/// A place of the array.
#[derive(Debug, Default)]
struct Place {
    /// Twice the lap, and one more while it is filled.
    turn: AtomicU64,
    value: AtomicU32,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Queue {
    produced: Position,
    consumed: Position,
    places: Box<[Place]>,
}

impl Queue {
    /// For so many elements at once.
    pub(super) fn new(capacity: usize) -> Queue {
        assert!(capacity > 0, "a queue has places");
        Queue {
            produced: Position::default(),
            consumed: Position::default(),
            places: (0..capacity).map(|_| Place::default()).collect(),
        }
    }

    /// Elements that there are; fewer than none where consumers wait.
    pub(super) fn len(&self) -> i64 {
        // The consumers' position first: it is never seen to have passed a producer that it has not.
        let consumed = self.consumed.0.load(Ordering::Acquire);
        let produced = self.produced.0.load(Ordering::Acquire);
        produced.wrapping_sub(consumed) as i64
    }

    /// Puts one at the end. The owner sees to it that there are never more elements than places.
    pub(super) fn enqueue(&self, value: u32) {
        let (place, lap) = self.place_of(&self.produced);
        let mut spins = 0;
        // Acquire: what the consumer of the lap before did to the place is done.
        while place.turn.load(Ordering::Acquire) != 2 * lap {
            pause(&mut spins);
        }
        place.value.store(value, Ordering::Relaxed);
        // Release: the thread that takes the element sees all that this thread did to the block.
        place.turn.store(2 * lap + 1, Ordering::Release);
    }

    /// Takes the first one. While there is none, `meanwhile` is called again and again; what it fails with is
    /// returned, and the ticket is lost: an element that comes later stays where it is for good.
    pub(super) fn dequeue(&self, mut meanwhile: impl FnMut() -> io::Result<()>) -> io::Result<u32> {
        let (place, lap) = self.place_of(&self.consumed);
        let mut spins = 0;
        // Acquire: pairs with the producer's release.
        while place.turn.load(Ordering::Acquire) != 2 * lap + 1 {
            meanwhile()?;
            pause(&mut spins);
        }
        let value = place.value.load(Ordering::Relaxed);
        // Release: the place is read before a producer of the next lap fills it.
        place.turn.store(2 * lap + 2, Ordering::Release);
        Ok(value)
    }

    /// As [`Queue::dequeue`], of a queue that only this thread consumes and that is not empty.
    pub(super) fn dequeue_own(&self) -> u32 {
        // A producer that has its ticket may still be about to fill the place.
        self.dequeue(|| Ok(()))
            .expect("waiting alone does not fail")
    }

    /// Draws a ticket of one of the two kinds: its place and its lap.
    fn place_of(&self, position: &Position) -> (&Place, u64) {
        let ticket = position.0.fetch_add(1, Ordering::AcqRel);
        let capacity = self.places.len() as u64;
        (
            &self.places[(ticket % capacity) as usize],
            ticket / capacity,
        )
    }
}
