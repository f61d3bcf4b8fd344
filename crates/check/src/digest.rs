//! Numbers that tell images, and everything that scenarios store, flush and fence, apart; and how the events of
//! an incarnation are told.

use forebay_pmem::shadow::{ShadowEvent, ShadowEventKind};
use std::hash::Hasher;

/// How the events of an incarnation are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracing {
    /// Not at all.
    Off,
    /// Each in words, for people.
    Words,
    /// All of them as a number.
    Digest,
}

/// The number of an incarnation: of its stores, streams, flushes and fences, in their order.
#[derive(Default)]
pub struct Digest(Fold);

impl Digest {
    /// An event at this member.
    pub fn add(&mut self, member: usize, event: &ShadowEvent<'_>) {
        let kind = match event.kind {
            ShadowEventKind::Store => 1,
            ShadowEventKind::Stream => 2,
            ShadowEventKind::Flush => 3,
            ShadowEventKind::Fence => 4,
            ShadowEventKind::Fenced => 5,
        };
        self.0.write_u64(kind | (member as u64) << 8);
        self.0.write_u64(event.offset);
        self.0.write_u64(event.len);
        self.0.write(event.bytes);
    }

    /// That number, with those of the incarnations before it.
    pub fn after(&self, before: u64) -> u64 {
        let mut fold = Fold::default();
        fold.write_u64(before);
        fold.write_u64(self.0.finish());
        fold.finish()
    }
}

/// Folded multiplication, a word at a time: images are hashed more often than anything else.
pub struct Fold(u64);

impl Default for Fold {
    fn default() -> Fold {
        Fold(0x9e37_79b9_7f4a_7c15)
    }
}

impl Hasher for Fold {
    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.write_u64(u64::from_le_bytes(word.try_into().expect("eight bytes")));
        }
        for byte in words.remainder() {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(0xe703_7ed1_a0b4_28db_u64);
        self.0 = (product as u64) ^ ((product >> 64) as u64) ^ word.rotate_left(29);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
