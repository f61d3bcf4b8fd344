//! The pipeline's queue beside crossbeam's ArrayQueue: the same idea (a ticket, a cell with a turn),
//! theirs for any element and with two words a cell, ours with turn and value in one.

use std::hint::black_box;

use crossbeam_queue::ArrayQueue;
use forebay::testing::Queue;

use super::Bench;
use crate::contest::Contender;
use forebay_harness::{Result, Row};

/// What a queue of a small pool's groups holds.
const CAPACITY: usize = 4096;
/// Elements that are pushed, then popped: a batch as the flusher takes.
const BATCH: u32 = 64;

/// Both queues, alone and with a second thread at the same queue.
pub fn against_array_queue(bench: &Bench) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (threads, name) in [
        (1, "queue_vs_array_queue"),
        (2, "queue_2threads_vs_array_queue"),
    ] {
        let ours = Queue::with_capacity(CAPACITY);
        let theirs = ArrayQueue::new(CAPACITY);
        let outcome = bench.contest(name, threads, |_| {
            vec![
                contender("ours", |value| ours.try_push(value), || ours.try_pop()),
                contender(
                    "theirs",
                    |value| theirs.push(value).is_ok(),
                    || theirs.pop(),
                ),
            ]
        })?;
        rows.push(Row::new(name, outcome.ratio("ours", "theirs"), "ratio"));
    }
    Ok(rows)
}

fn contender<'a>(
    name: &'static str,
    push: impl Fn(u32) -> bool + 'a,
    pop: impl Fn() -> Option<u32> + 'a,
) -> Contender<'a> {
    Contender::new(name, move || {
        for value in 0..BATCH {
            // A thread that lost its processor in a cell makes the queue full a lap later.
            while !push(black_box(value)) {
                std::hint::spin_loop();
            }
        }
        for _ in 0..BATCH {
            // Another thread may have taken one of ours; then one of its own is there, or soon.
            while black_box(pop()).is_none() {
                std::hint::spin_loop();
            }
        }
        Ok(u64::from(BATCH))
    })
}
