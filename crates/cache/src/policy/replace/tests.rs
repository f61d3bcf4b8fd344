//! The policies against naive models.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::*;

const POLICIES: [ReplacementPolicy; 2] = [ReplacementPolicy::Sieve, ReplacementPolicy::Lru];

fn take(policy: &dyn Replacement, wanted: usize) -> Vec<u32> {
    let mut out = Vec::new();
    policy.victims(wanted, &mut |_| true, &mut out);
    out
}

#[test]
fn links_are_in_the_order_of_use() {
    let mut links = Links::new(4);
    for entry in [0, 1, 2, 3, 1, 0] {
        links.touch(entry);
    }
    assert_eq!(links.oldest_first().collect::<Vec<_>>(), [2, 3, 1, 0]);
    links.remove(3);
    links.remove(3);
    assert_eq!(links.oldest_first().collect::<Vec<_>>(), [2, 1, 0]);
    assert_eq!(links.len(), 3);
    for entry in 0..3 {
        links.remove(entry);
    }
    assert!(links.is_empty());
    assert_eq!(links.oldest_first().next(), None);
    links.touch(2);
    assert_eq!(links.oldest_first().collect::<Vec<_>>(), [2]);
}

#[test]
fn lru_takes_the_least_recently_used() {
    let lru = Lru::new(4);
    for entry in 0..4 {
        lru.on_insert(entry);
    }
    lru.on_hit(0);
    lru.on_insert(1);
    assert_eq!(take(&lru, 4), [2, 3, 0, 1]);
    assert_eq!(take(&lru, 1), [2], "victims stay until they are removed");
    lru.on_remove(2);
    assert_eq!(take(&lru, 1), [3]);
}

#[test]
fn sieve_spares_what_was_hit_and_keeps_it_in_place() {
    let sieve = Sieve::new(5);
    for entry in 0..4 {
        sieve.on_insert(entry);
    }
    sieve.on_hit(0);
    sieve.on_hit(2);
    assert_eq!(take(&sieve, 1), [1]);
    sieve.on_remove(1);
    assert_eq!(take(&sieve, 1), [3], "2 was marked and is spared");
    sieve.on_remove(3);
    sieve.on_insert(4);
    assert_eq!(
        take(&sieve, 1),
        [0],
        "the hand started over, and its first visit cleared the mark"
    );
}

#[test]
fn ineligible_entries_are_passed_over_and_stay() {
    for kind in POLICIES {
        let policy = kind.build(6);
        for entry in 0..6 {
            policy.on_insert(entry);
        }
        let mut out = Vec::new();
        policy.victims(6, &mut |entry| entry % 2 == 1, &mut out);
        assert_eq!(out, [1, 3, 5], "{kind:?}");
        assert_eq!(policy.len(), 6, "{kind:?}");
        let mut all = take(&*policy, 6);
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4, 5], "{kind:?}");
    }
}

#[test]
fn a_policy_with_nothing_in_it_has_no_victims() {
    for kind in POLICIES {
        let policy = kind.build(8);
        assert!(take(&*policy, 3).is_empty());
        policy.on_hit(2);
        policy.on_remove(2);
        assert!(policy.is_empty());
    }
}

#[test]
fn the_default_costs_at_most_nine_bytes_an_entry() {
    let entries = 100_000;
    assert!(Sieve::new(entries).dram_bytes() <= 9 * entries as u64);
}

#[test]
fn threads_may_hit_insert_and_remove_at_once() {
    for kind in POLICIES {
        let policy = kind.build(256);
        std::thread::scope(|scope| {
            for thread in 0..3u32 {
                let policy = &*policy;
                scope.spawn(move || {
                    for round in 0..20_000u32 {
                        let entry = (round.wrapping_mul(2_654_435_761) >> 8) % 256;
                        match (round + thread) % 4 {
                            0 => policy.on_insert(entry),
                            1 | 2 => policy.on_hit(entry),
                            _ => {
                                policy.on_remove(take(policy, 1).first().copied().unwrap_or(entry))
                            }
                        }
                    }
                });
            }
        });
        let left: HashSet<u32> = take(&*policy, 512).into_iter().collect();
        assert!(left.len() <= policy.len());
    }
}

/// SIEVE and LRU as one would write them first: a vector from the newest to the oldest.
#[derive(Default)]
struct NaiveSieve {
    newest_first: Vec<u32>,
    marked: HashMap<u32, bool>,
    hand: Option<u32>,
}

impl NaiveSieve {
    fn insert(&mut self, entry: u32) {
        if self.newest_first.contains(&entry) {
            self.marked.insert(entry, true);
        } else {
            self.newest_first.insert(0, entry);
            self.marked.insert(entry, false);
        }
    }

    fn after(&self, entry: u32) -> Option<u32> {
        let place = self.newest_first.iter().position(|&other| other == entry)?;
        place.checked_sub(1).map(|newer| self.newest_first[newer])
    }

    fn remove(&mut self, entry: u32) {
        if self.hand == Some(entry) {
            self.hand = self.after(entry);
        }
        self.newest_first.retain(|&other| other != entry);
    }

    fn victim(&mut self) -> Option<u32> {
        loop {
            let entry = self.hand.or(self.newest_first.last().copied())?;
            self.hand = self.after(entry);
            if !self.marked.insert(entry, false).unwrap_or(false) {
                return Some(entry);
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Insert(u32),
    Hit(u32),
    Remove(u32),
    Victim,
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let operation = prop_oneof![
        4 => (0u32..24).prop_map(Operation::Insert),
        3 => (0u32..24).prop_map(Operation::Hit),
        1 => (0u32..24).prop_map(Operation::Remove),
        2 => Just(Operation::Victim),
    ];
    proptest::collection::vec(operation, 0..300)
}

proptest! {
    #[test]
    fn sieve_agrees_with_the_naive_one(operations in operations()) {
        let sieve = Sieve::new(24);
        let mut naive = NaiveSieve::default();
        for operation in operations {
            match operation {
                Operation::Insert(entry) => {
                    sieve.on_insert(entry);
                    naive.insert(entry);
                }
                Operation::Hit(entry) => {
                    sieve.on_hit(entry);
                    if naive.newest_first.contains(&entry) {
                        naive.marked.insert(entry, true);
                    }
                }
                Operation::Remove(entry) => {
                    sieve.on_remove(entry);
                    naive.remove(entry);
                }
                Operation::Victim => prop_assert_eq!(take(&sieve, 1).first().copied(), naive.victim()),
            }
            prop_assert_eq!(sieve.len(), naive.newest_first.len());
        }
    }

    #[test]
    fn lru_agrees_with_the_naive_one(operations in operations()) {
        let lru = Lru::new(24);
        let mut oldest_first: Vec<u32> = Vec::new();
        for operation in operations {
            match operation {
                Operation::Insert(entry) => {
                    lru.on_insert(entry);
                    oldest_first.retain(|&other| other != entry);
                    oldest_first.push(entry);
                }
                Operation::Hit(entry) => {
                    lru.on_hit(entry);
                    if oldest_first.contains(&entry) {
                        oldest_first.retain(|&other| other != entry);
                        oldest_first.push(entry);
                    }
                }
                Operation::Remove(entry) => {
                    lru.on_remove(entry);
                    oldest_first.retain(|&other| other != entry);
                }
                Operation::Victim => {
                    prop_assert_eq!(take(&lru, 1).first().copied(), oldest_first.first().copied());
                }
            }
            prop_assert_eq!(take(&lru, 24), oldest_first.clone());
        }
    }
}
