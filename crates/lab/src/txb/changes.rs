//! Which words a transaction has changed, and what they were.

use std::ops::Range;

use super::layout::{LINE, Object, PAGE, WORD};
use super::media::Media;

/// A run of words of one object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub object: Object,
    pub at: u64,
    words: u64,
    /// Where what they were begins; none where nobody asks.
    old: Option<usize>,
    /// Of an object that the transaction made: the log has not what they were.
    pub is_fresh: bool,
}

impl Change {
    pub fn end(&self) -> u64 {
        self.at + self.words * WORD
    }

    pub fn places(&self) -> impl Iterator<Item = u64> + use<> {
        (self.at..self.end()).step_by(WORD as usize)
    }

    pub fn lines(&self) -> impl Iterator<Item = u64> + use<> {
        (self.at / LINE * LINE..self.end()).step_by(LINE as usize)
    }

    pub fn pages(&self) -> Range<u64> {
        self.at / PAGE..self.end().div_ceil(PAGE)
    }
}

/// All of a transaction. No two overlap.
#[derive(Debug, Default)]
pub(super) struct Changes {
    list: Vec<Change>,
    old: Vec<u64>,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn clear(&mut self) {
        self.list.clear();
        self.old.clear();
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Change> {
        self.list.iter()
    }

    /// The change that has this word.
    #[inline]
    fn holding(&self, at: u64) -> Option<&Change> {
        // What was added last is asked for first.
        self.list
            .iter()
            .rev()
            .find(|change| change.at <= at && at < change.end())
    }

    #[inline]
    pub fn has(&self, at: u64) -> bool {
        self.holding(at).is_some()
    }

    /// The first run of these bytes that no change has.
    pub fn missing(&self, bytes: Range<u64>) -> Option<Range<u64>> {
        let mut at = bytes.start;
        while at < bytes.end {
            match self.holding(at) {
                Some(change) => at = change.end(),
                None => break,
            }
        }
        let next = self.list.iter().map(|change| change.at);
        let next = next.filter(|start| *start > at).min();
        let end = next.map_or(bytes.end, |next| next.min(bytes.end));
        (at < bytes.end).then_some(at..end)
    }

    /// Adds a run that no change has, with what its words are now where `keeps_old`.
    pub fn push(
        &mut self,
        media: &Media,
        (object, bytes): (Object, Range<u64>),
        [keeps_old, is_fresh]: [bool; 2],
    ) {
        let change = Change {
            object,
            at: bytes.start,
            words: (bytes.end - bytes.start) / WORD,
            old: keeps_old.then_some(self.old.len()),
            is_fresh,
        };
        if keeps_old {
            self.old
                .extend(change.places().map(|place| media.load(place)));
        }
        self.list.push(change);
    }

    /// What the words of a change were. Empty where nobody asked for it.
    pub fn old_words(&self, change: &Change) -> &[u64] {
        change
            .old
            .map_or(&[], |old| &self.old[old..old + change.words as usize])
    }
}
