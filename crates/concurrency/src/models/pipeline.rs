//! Queues of words, slots and free entries: nothing is lost, nothing is handed out twice.

use loom::sync::Arc;
use loom::thread;

use crate::models::turn;
use crate::sync::{AtomicU32, Ordering};
use crate::table::index::Index;
use crate::table::slots::Slots;
use crate::table::word_set_queue::{WordSetQueue, numbers};

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
