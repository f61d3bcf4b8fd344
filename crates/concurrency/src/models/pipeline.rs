//! Queue, groups, slots and free entries: nothing is lost, nothing is handed out twice.

use loom::sync::Arc;
use loom::thread;

use crate::models::{beside, turn};
use crate::sync::{AtomicU32, Ordering};
use crate::table::index::Index;
use crate::table::queue::Queue;
use crate::table::slots::Slots;
use crate::table::word_set_queue::{WordSetQueue, numbers};

/// The thread that pops an element sees what was written before the push, and each producer's elements
/// stay in order.
pub(crate) fn queue_keeps_and_orders() {
    let queue = Arc::new(Queue::with_capacity(4));
    let payload: Arc<Vec<AtomicU32>> = Arc::new((0..3).map(|_| AtomicU32::new(0)).collect());
    let producers: Vec<_> = [vec![0, 1], vec![2]]
        .into_iter()
        .map(|mine: Vec<u32>| {
            let (queue, payload) = (queue.clone(), payload.clone());
            thread::spawn(move || {
                for number in mine {
                    payload[number as usize].store(number + 100, Ordering::Relaxed);
                    assert!(queue.try_push(number), "there is room for all");
                }
            })
        })
        .collect();
    let mut popped = Vec::new();
    let mut pop = || {
        let number = queue.try_pop()?;
        assert_eq!(
            payload[number as usize].load(Ordering::Relaxed),
            number + 100,
            "popped too early"
        );
        popped.push(number);
        Some(())
    };
    // A few looks while the producers run; what is left when they are done.
    for number in 1..3 {
        turn(number);
        pop();
    }
    for producer in producers {
        producer.join().unwrap();
    }
    while pop().is_some() {}
    let first = popped.iter().position(|&number| number == 0);
    assert!(
        first < popped.iter().position(|&number| number == 1),
        "overtaken: {popped:?}"
    );
    popped.sort_unstable();
    assert_eq!(popped, [0, 1, 2]);
}

/// A full queue refuses, and what it took comes out once, whichever thread pops.
pub(crate) fn queue_is_bounded() {
    let queue = Arc::new(Queue::with_capacity(2));
    assert!(queue.try_push(0) && queue.try_push(1) && !queue.try_push(9));
    let theirs = {
        let queue = queue.clone();
        thread::spawn(move || (queue.try_pop(), queue.try_push(2)))
    };
    turn(1);
    let mine = queue.try_pop();
    let (popped, pushed) = theirs.join().unwrap();
    let mut all: Vec<u32> = mine.into_iter().chain(popped).collect();
    while let Some(number) = queue.try_pop() {
        all.push(number);
    }
    all.sort_unstable();
    assert_eq!(all, if pushed { vec![0, 1, 2] } else { vec![0, 1] });
}

/// The thread that pops an element sees what was done before it was pushed.
pub(crate) fn queue_hands_over() {
    let queue = Arc::new(Queue::with_capacity(2));
    let payload = Arc::new(AtomicU32::new(0));
    let (pushed, paid) = (queue.clone(), payload.clone());
    let producer = move || {
        paid.store(1, Ordering::Relaxed);
        assert!(pushed.try_push(0), "there is room");
    };
    let consumer = move || {
        if queue.try_pop().is_some() {
            assert_eq!(payload.load(Ordering::Relaxed), 1, "popped too early");
        }
    };
    beside(consumer, producer);
}

/// Numbers inserted by two threads are taken once each, with what was done before.
pub(crate) fn groups_lose_nothing() {
    let groups = Arc::new(WordSetQueue::new(128));
    let payload: Arc<Vec<AtomicU32>> = Arc::new((0..2).map(|_| AtomicU32::new(0)).collect());
    let insert = |groups: &WordSetQueue, payload: &[AtomicU32], number: u32| {
        payload[number as usize].store(1, Ordering::Relaxed);
        assert!(groups.insert(number), "number {number} was not in");
    };
    let take = |groups: &WordSetQueue, payload: &[AtomicU32]| -> Vec<u32> {
        let Some((word, bits)) = groups.take_word() else {
            return Vec::new();
        };
        let all: Vec<u32> = numbers(word, bits).collect();
        for number in &all {
            assert_eq!(
                payload[*number as usize].load(Ordering::Relaxed),
                1,
                "taken too early"
            );
        }
        all
    };
    let inserter = {
        let (groups, payload) = (groups.clone(), payload.clone());
        thread::spawn(move || insert(&groups, &payload, 0))
    };
    let taker = {
        let (groups, payload) = (groups.clone(), payload.clone());
        thread::spawn(move || take(&groups, &payload))
    };
    turn(1);
    insert(&groups, &payload, 1);
    inserter.join().unwrap();
    let mut taken = taker.join().unwrap();
    for _ in 0..2 {
        taken.extend(take(&groups, &payload));
    }
    taken.sort_unstable();
    assert_eq!(taken, [0, 1]);
}

/// A slot is one thread's at a time, and the thread that takes it sees what its last holder did.
pub(crate) fn slots_go_to_one() {
    let slots = Arc::new(Slots::new(2, 1, |_| false));
    let holders: Arc<Vec<AtomicU32>> = Arc::new((0..2).map(|_| AtomicU32::new(0)).collect());
    let use_one = |slots: &Slots, holders: &[AtomicU32]| {
        let slot_cache = slots.slot_cache(0);
        if let Some(slot) = slot_cache.take() {
            let holder = &holders[slot as usize];
            assert_eq!(
                holder.load(Ordering::Relaxed),
                0,
                "slot {slot} has two holders"
            );
            holder.store(1, Ordering::Relaxed);
            holder.store(0, Ordering::Relaxed);
            slot_cache.give(slot);
        }
    };
    let other = {
        let (slots, holders) = (slots.clone(), holders.clone());
        thread::spawn(move || use_one(&slots, &holders))
    };
    turn(1);
    use_one(&slots, &holders);
    other.join().unwrap();
    assert_eq!(slots.free_count(), 2, "a slot is lost");
}

/// Free entries are one thread's at a time, and the thread that takes one sees what its last holder did.
pub(crate) fn free_entries_go_to_one() {
    let index = Arc::new(Index::with_used(2, |_| false));
    let holders: Arc<Vec<AtomicU32>> = Arc::new((0..2).map(|_| AtomicU32::new(0)).collect());
    let use_two = |index: &Index, holders: &[AtomicU32]| {
        for _ in 0..2 {
            let entry = index.pop_free(0).expect("there are two");
            let holder = &holders[entry as usize];
            assert_eq!(
                holder.load(Ordering::Relaxed),
                0,
                "entry {entry} has two holders"
            );
            holder.store(1, Ordering::Relaxed);
            holder.store(0, Ordering::Relaxed);
            index.push_free(entry);
        }
    };
    let other = {
        let (index, holders) = (index.clone(), holders.clone());
        thread::spawn(move || use_two(&index, &holders))
    };
    turn(1);
    use_two(&index, &holders);
    other.join().unwrap();
    let left: Vec<u32> = std::iter::from_fn(|| index.pop_free(0)).take(3).collect();
    assert_eq!(left, [0, 1], "an entry is lost");
}
