//! The undo log of one transaction: what words were before it changed them.
//!
//! It lies in the first unit. Its first word, the head, has the number of the transaction that is under way, or comes
//! next; entries of another number are none. An entry is durable before a word of its run is stored to, and moving the
//! head ends a transaction. Where transactions keep a parity, the log has a copy there, as no other extent uses
//! its row: so neither a member that dies nor damage to one of the two loses an entry.
//!
//! An entry is a line and as many more as its words need: `number:32 | crc:32`, where the run begins, `words:32 |
//! kind:32`, the object, then the words. The CRC-32C is of all of it, the word being zero where it goes.

use std::ops::Range;

use forebay_pmem::{crc32c, crc32c_append_lines};

use super::error::{Error, Result};
use super::layout::{LINE, LINE_WORDS, Object, WORD};
use super::media::Media;

const HEAD: u64 = 0;
const FIRST_ENTRY: u64 = LINE;
/// Words of an entry before those that it keeps.
const ENTRY_WORDS: usize = 4;

/// What an entry says of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// What its words were.
    Old = 1,
    /// That an object is made of it; what it was says nothing.
    Fresh = 2,
}

/// One of an unfinished transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub kind: Kind,
    pub object: Object,
    pub bytes: Range<u64>,
    /// What its words were; none of a fresh object.
    pub old: Vec<u64>,
}

/// Which copy of the log.
#[derive(Clone, Copy)]
enum Place {
    Data,
    Parity,
}

/// The log that is in use.
#[derive(Debug)]
pub(super) struct Log {
    number: u32,
    /// Where the next entry goes.
    end: u64,
    /// Lines of an entry, kept for their memory.
    lines: Vec<[u64; LINE_WORDS]>,
}

impl Log {
    /// Makes the log of a new heap, not durable yet.
    pub fn create(media: &Media) -> Log {
        let log = Log::numbered(1);
        log.put_head(media);
        log
    }

    fn numbered(number: u32) -> Log {
        Log {
            number,
            end: FIRST_ENTRY,
            lines: Vec::new(),
        }
    }

    /// Finds the log. The later of two heads counts: it was stored when everything before it was durable.
    pub fn open(media: &Media) -> Result<Log> {
        let heads = places(media).map(|place| decode_head(load(media, place, HEAD)));
        match heads.flatten().max() {
            Some(number) => Ok(Log::numbered(number)),
            None => Err(Error::NoHeap {
                path: media.name(),
                found: "no log is there",
            }),
        }
    }

    /// The entries of the transaction that did not end, in their order.
    pub fn entries(&self, media: &Media) -> Vec<Entry> {
        let mut entries = Vec::new();
        let mut at = FIRST_ENTRY;
        while let Some((entry, end)) = self.entry(media, at) {
            entries.push(entry);
            at = end;
        }
        entries
    }

    fn entry(&self, media: &Media, at: u64) -> Option<(Entry, u64)> {
        places(media).find_map(|place| self.entry_of(media, place, at))
    }

    fn entry_of(&self, media: &Media, place: Place, at: u64) -> Option<(Entry, u64)> {
        if at + LINE > media.unit_bytes() {
            return None;
        }
        let word = |number: u64| load(media, place, at + number * WORD);
        let (first, shape) = (word(0), word(2));
        let (words, kind) = (shape & u64::from(u32::MAX), shape >> 32);
        let kind = [Kind::Old, Kind::Fresh]
            .into_iter()
            .find(|one| *one as u64 == kind)?;
        let kept = match kind {
            Kind::Old => words,
            Kind::Fresh => 0,
        };
        let lines = lines_of(kept);
        if first as u32 != self.number || at + lines * LINE > media.unit_bytes() {
            return None;
        }
        let mut all = vec![[0; LINE_WORDS]; lines as usize];
        for (number, to) in (0..).zip(all.as_flattened_mut()) {
            *to = word(number);
        }
        all[0][0] = u64::from(self.number);
        if crc32c_append_lines(0, &all) != (first >> 32) as u32 {
            return None;
        }
        let begin = all[0][1];
        let bytes = begin..begin.checked_add(words * WORD)?;
        let is_inside = bytes.start >= media.heap_start()
            && bytes.end <= media.size_bytes()
            && begin.is_multiple_of(WORD);
        let old = all.as_flattened()[ENTRY_WORDS..][..kept as usize].to_vec();
        let entry = Entry {
            kind,
            object: Object::from_word(all[0][3]),
            bytes,
            old,
        };
        is_inside.then_some((entry, at + lines * LINE))
    }

    /// Adds an entry, and sends it on its way. The caller fences before it stores to the run.
    pub fn append(
        &mut self,
        media: &Media,
        kind: Kind,
        (object, bytes): (Object, Range<u64>),
    ) -> Result<()> {
        let words = (bytes.end - bytes.start) / WORD;
        let kept = match kind {
            Kind::Old => words,
            Kind::Fresh => 0,
        };
        let lines = lines_of(kept);
        if self.end + lines * LINE > media.unit_bytes() {
            let bytes = media.unit_bytes();
            return Err(Error::LogFull { bytes });
        }
        self.lines.clear();
        self.lines.resize(lines as usize, [0; LINE_WORDS]);
        let shape = words | (kind as u64) << 32;
        let first = [u64::from(self.number), bytes.start, shape, object.to_word()];
        let flat = self.lines.as_flattened_mut();
        flat[..ENTRY_WORDS].copy_from_slice(&first);
        let places = bytes.step_by(WORD as usize);
        for (to, at) in flat[ENTRY_WORDS..][..kept as usize].iter_mut().zip(places) {
            *to = media.load(at);
        }
        let crc = crc32c_append_lines(0, &self.lines);
        self.lines[0][0] |= u64::from(crc) << 32;
        for (number, line) in (0..).zip(&self.lines) {
            put_line(media, self.end + number * LINE, line);
        }
        self.end += lines * LINE;
        Ok(())
    }

    /// Ends the transaction: its entries are none any more when this returns. Everything it changed is durable.
    pub fn end(&mut self, media: &Media) -> Result<()> {
        let next = self.number.checked_add(1);
        self.number = next.expect("a heap has fewer than 2^32 transactions");
        self.end = FIRST_ENTRY;
        self.put_head(media);
        // The head is durable before the next transaction's first entry goes over one of this one's, and before the
        // caller is told.
        media.fence()
    }

    /// Stores the head that counts to all copies, durable when this returns: what was found is believed only then.
    pub fn settle(&self, media: &Media) -> Result<()> {
        self.put_head(media);
        media.fence()
    }

    fn put_head(&self, media: &Media) {
        let head = encode_head(self.number);
        media.store(HEAD, head);
        media.flush_line(HEAD);
        if media.design().is_inline() {
            media.store_parity(HEAD, head);
            media.flush_parity_line(HEAD);
        }
    }
}

fn encode_head(number: u32) -> u64 {
    u64::from(number) | u64::from(crc32c(&number.to_le_bytes())) << 32
}

fn decode_head(head: u64) -> Option<u32> {
    let number = head as u32;
    (number > 0 && encode_head(number) == head).then_some(number)
}

fn lines_of(kept_words: u64) -> u64 {
    (ENTRY_WORDS as u64 + kept_words).div_ceil(LINE_WORDS as u64)
}

/// The copies that there are.
fn places(media: &Media) -> impl Iterator<Item = Place> {
    let parity = media.design().is_inline().then_some(Place::Parity);
    std::iter::once(Place::Data).chain(parity)
}

fn load(media: &Media, place: Place, at: u64) -> u64 {
    match place {
        Place::Data => media.load(at),
        Place::Parity => media.load_parity(at),
    }
}

fn put_line(media: &Media, at: u64, line: &[u64; LINE_WORDS]) {
    let is_inline = media.design().is_inline();
    for (number, &word) in (0..).zip(line) {
        media.store(at + number * WORD, word);
        if is_inline {
            media.store_parity(at + number * WORD, word);
        }
    }
    media.flush_line(at);
    if is_inline {
        media.flush_parity_line(at);
    }
}
