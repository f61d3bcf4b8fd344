//! A bounded first-in first-out queue for many producers and many consumers, without locks.
//!
//! Each operation draws a ticket, a position that only grows, and works on the one cell the ticket
//! names (AutoBahn, section 4.4). AutoBahn draws it by fetch-and-add and then waits for its cell; here
//! a ticket is drawn by compare-and-swap and only where the cell is ready, so that no thread ever waits:
//! a full queue refuses and an empty one says so. A cell is one 64-bit word, `turn:32 | value:32`,
//! so value and turn change together, and a queue costs 8 bytes an element.
//!
//! A producer that is descheduled between ticket and store hides what was queued behind it until it
//! runs again: consumers then see an empty queue, never a wrong value.

use crate::sync::{AtomicU64, Ordering, spin_hint};

/// The longest rest after a lost ticket is two to this many spin hints.
const BACKOFF_DOUBLINGS_MAX: u32 = 6;

/// Keeps the two ends on cache lines of their own (128: x86 fetches lines in pairs).
#[repr(align(128))]
struct End(AtomicU64);

/// The queue; elements are `u32`, which is what slots, entries and groups are numbered with.
pub struct Queue {
    /// `turn` is the low half of the position that may use the cell next: `position` where a
    /// producer may, `position + 1` where a consumer may.
    cells: Box<[AtomicU64]>,
    mask: u64,
    tail: End,
    head: End,
}

impl Queue {
    /// Most elements a queue may have: turns of neighbouring laps must differ in 32 bits.
    pub const CAPACITY_MAX: usize = 1 << 30;

    /// An empty queue for at least `capacity` elements, rounded up to a power of two, two or more.
    ///
    /// # Panics
    /// Where `capacity` exceeds [`Queue::CAPACITY_MAX`].
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        assert!(
            capacity <= Self::CAPACITY_MAX,
            "a queue of {capacity} elements is too long"
        );
        let capacity = capacity.next_power_of_two().max(2);
        Self {
            cells: (0..capacity as u64)
                .map(|turn| AtomicU64::new(turn << 32))
                .collect(),
            mask: capacity as u64 - 1,
            tail: End(AtomicU64::new(0)),
            head: End(AtomicU64::new(0)),
        }
    }

    /// Elements now in the queue; out of date at once where others use it.
    #[cfg(test)]
    fn len(&self) -> usize {
        let tail = self.tail.0.load(Ordering::Relaxed);
        let head = self.head.0.load(Ordering::Relaxed);
        tail.saturating_sub(head) as usize
    }

    /// DRAM held, in bytes.
    #[must_use]
    pub fn dram_bytes(&self) -> u64 {
        (size_of::<Self>() + size_of_val(&*self.cells)) as u64
    }

    /// Appends `value`; false where the queue is full.
    #[must_use]
    pub fn try_push(&self, value: u32) -> bool {
        let mut position = self.tail.0.load(Ordering::Relaxed);
        let mut backoff = Backoff::default();
        loop {
            let cell = &self.cells[(position & self.mask) as usize];
            let behind = turns_behind(cell.load(Ordering::Acquire), position);
            if behind == 0 {
                match claim(&self.tail.0, position) {
                    Ok(()) => {
                        cell.store(pack(position.wrapping_add(1), value), Ordering::Release);
                        return true;
                    }
                    Err(newer) => {
                        position = newer;
                        backoff.spin();
                    }
                }
            } else if behind > 0 {
                // The cell still holds what was pushed one lap ago.
                return false;
            } else {
                position = self.tail.0.load(Ordering::Relaxed);
            }
        }
    }

    /// Takes the oldest element.
    pub fn try_pop(&self) -> Option<u32> {
        let mut position = self.head.0.load(Ordering::Relaxed);
        let mut backoff = Backoff::default();
        loop {
            let cell = &self.cells[(position & self.mask) as usize];
            let word = cell.load(Ordering::Acquire);
            let behind = turns_behind(word, position.wrapping_add(1));
            if behind == 0 {
                match claim(&self.head.0, position) {
                    Ok(()) => {
                        let next_lap = position.wrapping_add(self.mask + 1);
                        cell.store(pack(next_lap, 0), Ordering::Release);
                        return Some(word as u32);
                    }
                    Err(newer) => {
                        position = newer;
                        backoff.spin();
                    }
                }
            } else if behind > 0 {
                return None;
            } else {
                position = self.head.0.load(Ordering::Relaxed);
            }
        }
    }
}

/// Draws the ticket `position`, or tells where the end is now.
fn claim(end: &AtomicU64, position: u64) -> Result<(), u64> {
    // A stale position cannot be drawn, even if a cell's 32-bit turn wrapped meanwhile: this
    // compares all 64 bits. Relaxed: the cells carry the happens-before.
    end.compare_exchange_weak(position, position + 1, Ordering::Relaxed, Ordering::Relaxed)
        .map(|_| ())
}

/// Leaves the end's line alone for a while after a ticket was lost, longer each time.
#[derive(Default)]
struct Backoff {
    lost: u32,
}

impl Backoff {
    #[cold]
    fn spin(&mut self) {
        // To the model checker every hint is a switch of threads, and one says all.
        let doublings = if cfg!(loom) { 0 } else { self.lost };
        for _ in 0..1_u32 << doublings.min(BACKOFF_DOUBLINGS_MAX) {
            spin_hint();
        }
        self.lost += 1;
    }
}

fn pack(turn: u64, value: u32) -> u64 {
    turn << 32 | u64::from(value)
}

/// How many turns the cell lags `turn`: positive where it is not ready yet, negative where it is past.
fn turns_behind(word: u64, turn: u64) -> i32 {
    (turn as u32).wrapping_sub((word >> 32) as u32) as i32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::VecDeque;
    use std::sync::atomic::AtomicUsize;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_as_a_bounded_deque(
            capacity in 1usize..20,
            operations in proptest::collection::vec(proptest::option::of(any::<u32>()), 0..200),
        ) {
            let queue = Queue::with_capacity(capacity);
            let mut model = VecDeque::new();
            for operation in operations {
                match operation {
                    Some(value) if model.len() < queue.cells.len() => {
                        prop_assert!(queue.try_push(value));
                        model.push_back(value);
                    }
                    Some(value) => prop_assert!(!queue.try_push(value)),
                    None => prop_assert_eq!(queue.try_pop(), model.pop_front()),
                }
                prop_assert_eq!(queue.len(), model.len());
            }
        }
    }

    #[test]
    fn every_element_comes_out_once_and_in_order_per_producer() {
        const PRODUCERS: u32 = 3;
        const EACH: u32 = 20_000;
        let queue = Queue::with_capacity(64);
        let taken = AtomicUsize::new(0);
        let total = (PRODUCERS * EACH) as usize;
        let seen: Vec<Vec<u32>> = std::thread::scope(|scope| {
            for producer in 0..PRODUCERS {
                let queue = &queue;
                scope.spawn(move || {
                    for number in 0..EACH {
                        while !queue.try_push(producer * EACH + number) {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            let consumers: Vec<_> = (0..2)
                .map(|_| {
                    let (queue, taken) = (&queue, &taken);
                    scope.spawn(move || {
                        let mut mine = Vec::new();
                        while taken.load(Ordering::Relaxed) < total {
                            match queue.try_pop() {
                                Some(value) => {
                                    taken.fetch_add(1, Ordering::Relaxed);
                                    mine.push(value);
                                }
                                None => std::thread::yield_now(),
                            }
                        }
                        mine
                    })
                })
                .collect();
            consumers
                .into_iter()
                .map(|consumer| consumer.join().unwrap())
                .collect()
        });
        for consumer in &seen {
            for producer in 0..PRODUCERS {
                let mine = consumer.iter().filter(|&&value| value / EACH == producer);
                assert!(
                    mine.is_sorted(),
                    "one producer's elements overtook each other"
                );
            }
        }
        let mut all: Vec<u32> = seen.into_iter().flatten().collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..PRODUCERS * EACH));
    }

    #[test]
    fn turns_survive_the_wrap_of_their_32_bits() {
        let queue = Queue::with_capacity(4);
        let start = u64::from(u32::MAX) - 5;
        let start = start - start % 4;
        queue.tail.0.store(start, Ordering::Relaxed);
        queue.head.0.store(start, Ordering::Relaxed);
        for offset in 0..4 {
            queue.cells[offset as usize].store(pack(start + offset, 0), Ordering::Relaxed);
        }
        for value in 0..100 {
            assert!(queue.try_push(value));
            assert!(queue.try_push(value + 1000));
            assert_eq!(queue.try_pop(), Some(value));
            assert_eq!(queue.try_pop(), Some(value + 1000));
            assert_eq!(queue.try_pop(), None);
        }
    }
}
