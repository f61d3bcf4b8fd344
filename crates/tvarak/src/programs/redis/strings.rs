//! Keys and values: strings as redis-benchmark makes them.

use crate::programs::heap::Heap;
use crate::programs::memory::{Halt, Memory};

/// The types of the objects.
const KEY: u64 = 0x6B65_7920;
const VALUE: u64 = 0x7661_6C20;
/// Words of a key.
const KEY_WORDS: usize = 2;

/// A key: `key:` and twelve digits. In memory its length comes first.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    words: [u64; KEY_WORDS],
}

impl Key {
    /// The one of a number.
    ///
    /// # Panics
    /// If it has more digits.
    pub fn of(number: u64) -> Key {
        let mut bytes = *b"key:000000000000";
        let mut left = number;
        for digit in bytes[4..].iter_mut().rev() {
            *digit += (left % 10) as u8;
            left /= 10;
        }
        assert!(left == 0, "a key has twelve digits");
        let [low, high] = [0, 8].map(|at| {
            let part: [u8; 8] = bytes[at..at + 8].try_into().expect("half of a key");
            u64::from_le_bytes(part)
        });
        Key { words: [low, high] }
    }

    /// Its hash: Steele's and Lea's mixing of its words.
    pub fn hash(&self) -> u64 {
        self.words.iter().fold(0x9E37_79B9_7F4A_7C15, |hash, word| {
            let mixed = (hash ^ word ^ (hash ^ word) >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            mixed ^ mixed >> 27
        })
    }

    /// The one that is in memory.
    pub fn at(memory: &mut impl Memory, string: u64) -> Result<Key, Halt> {
        let mut words = [0; KEY_WORDS];
        memory.load_all(string + 8, &mut words)?;
        memory.wait_for_last_load();
        Ok(Key { words })
    }

    /// Whether it is the one in memory.
    pub fn is_at(&self, memory: &mut impl Memory, string: u64) -> Result<bool, Halt> {
        let length = memory.word(string)?;
        let found = Key::at(memory, string)?;
        Ok(length == 8 * KEY_WORDS as u64 && found.words == self.words)
    }

    /// A new string of it.
    pub fn new_string(&self, memory: &mut impl Memory, heap: &mut Heap) -> Result<u64, Halt> {
        let bytes = 8 * (1 + KEY_WORDS as u64);
        let string = heap.allocate(memory, bytes, KEY)?;
        memory.set(string, 8 * KEY_WORDS as u64)?;
        memory.store_all(string + 8, &self.words)?;
        Ok(string)
    }
}

/// A new value of so many bytes: a reference count, the length, and the number's bytes as often as there is room.
pub fn new_value(
    memory: &mut impl Memory,
    heap: &mut Heap,
    number: u64,
    bytes: u64,
) -> Result<u64, Halt> {
    let words = bytes.div_ceil(8);
    let value = heap.allocate(memory, 16 + words * 8, VALUE)?;
    memory.store_all(value, &[1, bytes])?;
    for word in 0..words {
        let left = bytes - word * 8;
        memory.set(value + 16 + word * 8, kept(number, left))?;
    }
    Ok(value)
}

/// The number of which a value is made, as far as its bytes say it.
pub fn value(memory: &mut impl Memory, value: u64) -> Result<u64, Halt> {
    let bytes = memory.pointer(value + 8)?;
    let first = memory.word(value + 16)?;
    for word in 1..bytes.div_ceil(8) {
        let found = memory.word(value + 16 + word * 8)?;
        if found != kept(first, bytes - word * 8) {
            return Ok(!first);
        }
    }
    Ok(first)
}

/// What of a number fits into so many bytes.
pub fn kept(number: u64, bytes: u64) -> u64 {
    match bytes {
        8.. => number,
        _ => number & ((1 << (8 * bytes)) - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_what_redis_benchmark_makes_of_a_number() {
        let bytes: Vec<u8> = Key::of(120_450)
            .words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        assert_eq!(bytes, b"key:000000120450");
    }
}
