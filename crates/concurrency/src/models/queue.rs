//! AutoBahn's queue: a thread that waits for a place gets it in the order of tickets, and sees what was done to the element before.

use loom::sync::Arc;

use crate::models::{beside, turn};
use crate::queue::Queue;
use crate::sync::{AtomicU32, Ordering};

/// A queue that is full, and how often each of its elements was used.
struct Blocks {
    queue: Queue,
    uses: Vec<AtomicU32>,
}

impl Blocks {
    fn new(elements: u32) -> Arc<Blocks> {
        let blocks = Blocks {
            queue: Queue::new(elements as usize),
            uses: (0..elements).map(|_| AtomicU32::new(0)).collect(),
        };
        (0..elements).for_each(|element| blocks.queue.enqueue(element));
        Arc::new(blocks)
    }

    /// Takes an element, changes what it stands for, and puts it back.
    fn use_one(&self) {
        let element = self.queue.dequeue_own();
        let uses = &self.uses[element as usize];
        uses.store(uses.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.queue.enqueue(element);
    }
}

/// Threads take elements and put them back, each several laps behind the other: all elements are there in the end, once each, and no
/// use of one is lost.
fn go_round(elements: u32) {
    let blocks = Blocks::new(elements);
    let (one, other) = (blocks.clone(), blocks.clone());
    let first = move || one.use_one();
    let second = move || {
        turn(1);
        other.use_one();
    };
    beside(first, second);
    let mut left: Vec<u32> = (0..elements).map(|_| blocks.queue.dequeue_own()).collect();
    left.sort_unstable();
    assert!(left.into_iter().eq(0..elements), "an element is lost");
    let uses = blocks.uses.iter().map(|uses| uses.load(Ordering::Relaxed));
    assert_eq!(uses.sum::<u32>(), 2, "a use is lost");
    assert_eq!(blocks.queue.len(), 0);
}

/// One element: the second thread waits until the first has put it back.
pub(crate) fn queue_waits() {
    go_round(1);
}

/// Two elements and places: tickets of one lap wait for each other's places of the lap before.
pub(crate) fn queue_goes_round() {
    go_round(2);
}
