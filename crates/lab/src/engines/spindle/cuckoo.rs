//! The index in DRAM: a cuckoo hash table (§4), from a disk block's number to its cache entry.
//!
//! Every key has two buckets of four places and is in one of them. A key that finds both full takes
//! the place of another one, which moves to its other bucket, and so on, a bounded number of times;
//! after that the table doubles.

const WAYS: usize = 4;
const KICKS_MAX: usize = 128;

type Bucket<V> = [Option<(u64, V)>; WAYS];

/// The table.
pub(super) struct Cuckoo<V> {
    buckets: Vec<Bucket<V>>,
    len: usize,
    /// Which way the next kick takes: not always the same, or two keys would kick each other for ever.
    next_way: usize,
}

impl<V: Copy> Cuckoo<V> {
    /// An empty table that has room for `capacity` keys with one place in eight left empty.
    pub(super) fn new(capacity: usize) -> Cuckoo<V> {
        let places = capacity + capacity / 7;
        let buckets = places.div_ceil(WAYS).next_power_of_two().max(2);
        Cuckoo {
            buckets: vec![[None; WAYS]; buckets],
            len: 0,
            next_way: 0,
        }
    }

    /// How many keys it holds.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The value of a key.
    pub(super) fn get(&self, key: u64) -> Option<V> {
        let found = self.buckets_of(key).into_iter().find_map(|bucket| {
            let places = self.buckets[bucket].iter().flatten();
            places.into_iter().find(|(held, _)| *held == key)
        });
        found.map(|&(_, value)| value)
    }

    /// Gives a key a value, whether or not it had one.
    pub(super) fn insert(&mut self, key: u64, value: V) {
        for bucket in self.buckets_of(key) {
            let mut places = self.buckets[bucket].iter_mut().flatten();
            if let Some(held) = places.find(|(held, _)| *held == key) {
                held.1 = value;
                return;
            }
        }
        self.len += 1;
        let mut homeless = self.put(key, value);
        while let Some((key, value)) = homeless {
            self.grow();
            homeless = self.put(key, value);
        }
    }

    /// Forgets a key; nothing happens if it is not there.
    pub(super) fn remove(&mut self, key: u64) {
        for bucket in self.buckets_of(key) {
            for place in &mut self.buckets[bucket] {
                if place.is_some_and(|(held, _)| held == key) {
                    *place = None;
                    self.len -= 1;
                }
            }
        }
    }

    /// Finds a place for a key that is not there; returns the key that has none in the end.
    fn put(&mut self, key: u64, value: V) -> Option<(u64, V)> {
        let mut homeless = (key, value);
        let mut from = None;
        for _ in 0..KICKS_MAX {
            let buckets = self.buckets_of(homeless.0);
            for bucket in buckets {
                let free = self.buckets[bucket]
                    .iter_mut()
                    .find(|place| place.is_none());
                if let Some(place) = free {
                    *place = Some(homeless);
                    return None;
                }
            }
            // It goes to the bucket that it was not just kicked out of.
            let to = if from == Some(buckets[0]) {
                buckets[1]
            } else {
                buckets[0]
            };
            self.next_way = (self.next_way + 1) % WAYS;
            let kicked = self.buckets[to][self.next_way].replace(homeless);
            homeless = kicked.expect("a bucket without a free place is full");
            from = Some(to);
        }
        Some(homeless)
    }

    fn grow(&mut self) {
        let mut larger = self.buckets.len() * 2;
        loop {
            let mut table = Cuckoo {
                buckets: vec![[None; WAYS]; larger],
                len: self.len,
                next_way: 0,
            };
            let mut keys = self.buckets.iter().flatten().flatten();
            if keys.all(|&(key, value)| table.put(key, value).is_none()) {
                *self = table;
                return;
            }
            larger *= 2;
        }
    }

    fn buckets_of(&self, key: u64) -> [usize; 2] {
        let hash = mix(key);
        let mask = self.buckets.len() - 1;
        [hash as usize & mask, (hash >> 32) as usize & mask]
    }
}

/// Spreads every bit of the key over all bits (the finaliser of MurmurHash3).
fn mix(key: u64) -> u64 {
    let mut hash = key ^ key >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 33
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn it_does_as_another_map_does() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut table = Cuckoo::new(4);
        let mut model = HashMap::new();
        for step in 0..20_000_u32 {
            let key = rng.u64(..3000);
            if rng.u8(..3) == 0 {
                table.remove(key);
                model.remove(&key);
            } else {
                table.insert(key, step);
                model.insert(key, step);
            }
            let key = rng.u64(..3000);
            assert_eq!(table.get(key), model.get(&key).copied());
            assert_eq!(table.len(), model.len());
        }
        assert!((0..3000).all(|key| table.get(key) == model.get(&key).copied()));
    }

    #[test]
    fn what_it_was_made_for_fits_without_growing() {
        let mut table = Cuckoo::new(28_000);
        let buckets = table.buckets.len();
        assert_eq!(buckets, 8192);
        for key in 0..28_000 {
            table.insert(key, ());
        }
        assert_eq!(table.buckets.len(), buckets);
        for key in 28_000..40_000 {
            table.insert(key, ());
        }
        assert!(table.buckets.len() > buckets);
        assert!((0..40_000).all(|key| table.get(key).is_some()));
    }
}
