//! Log records: what one committed transaction leaves in its lane.
//!
//! A record is a 32-byte header, 24-byte elements, then the redo bytes of its deltas, padded to
//! whole cache lines. `docs/inside/protocol.md` says what each kind means to recovery.

mod small;
mod whole;

use std::collections::HashSet;

use crate::media::entry::{Entry, RawEntry};
use crate::media::geometry::Geometry;
use crate::media::layout::{
    ELEMENT_BYTES, LINE_BYTES, PARTIAL_TRAILER_BYTES, RECORD_HEADER_BYTES, SEQUENCE_MAX,
};
use crate::media::salt::Salt;

pub(crate) use small::SmallRecord;
pub(crate) use whole::{
    read_back_one, reserve_whole, stream_one, stream_one_to_each, stream_whole, trim_whole,
};

const _: () = assert!(RECORD_HEADER_BYTES == 8 + 8 + 4 + 4 + 4 + 2 + 2);
const _: () = assert!(ELEMENT_BYTES == 16 + 4 + 4);

const CRC_AT: usize = 24;
/// Where its sequence is.
const SEQUENCE_AT: usize = 8;
const ELEMENT_KIND_SHIFT: u32 = 30;
const INDEX_MASK: u32 = (1 << ELEMENT_KIND_SHIFT) - 1;

/// The longest record that its header can tell of, in elements and in bytes.
pub(crate) const RECORD_ELEMENTS_MAX: usize = u16::MAX as usize;
pub(crate) const RECORD_BYTES_MAX: u64 = u16::MAX as u64 * LINE_BYTES;

/// How an element changes its key, beyond what its entry says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ElementKind {
    /// The entry is all: a block in a slot, a zero block, or (without kind) a tombstone.
    Whole,
    /// `len` redo bytes at `offset` of the slot; the bytes are in the record.
    Delta { offset: u16, len: u16 },
    /// The slot's bytes up to `valid_bytes` count; the new ones are already in place.
    Append { valid_bytes: u32 },
}

/// One element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Element<E = Entry> {
    pub(crate) entry: E,
    pub(crate) index: u32,
    pub(crate) kind: ElementKind,
}

/// One that was read back: the record's CRC fits, but nothing says that its parts make sense.
pub(crate) type RawElement = Element<RawEntry>;

impl ElementKind {
    /// Its number, and the argument.
    #[inline]
    fn encode(self) -> (u32, u32) {
        match self {
            ElementKind::Whole => (0, 0),
            ElementKind::Delta { offset, len } => (1, u32::from(offset) | u32::from(len) << 16),
            ElementKind::Append { valid_bytes } => (2, valid_bytes),
        }
    }

    /// The kind of this number, if it is not that of whole blocks.
    #[inline(never)]
    fn decode(number: u32, argument: u32) -> Option<ElementKind> {
        match number {
            1 => Some(ElementKind::Delta {
                offset: argument as u16,
                len: (argument >> 16) as u16,
            }),
            2 => Some(ElementKind::Append {
                valid_bytes: argument,
            }),
            _ => None,
        }
    }
}

impl Element {
    fn encode(&self, out: &mut Vec<u8>) {
        debug_assert!(self.index <= INDEX_MASK);
        let (kind, argument) = self.kind.encode();
        let mut raw = [0; ELEMENT_BYTES];
        raw[..16].copy_from_slice(&self.entry.bits().to_le_bytes());
        raw[16..20].copy_from_slice(&(self.index | kind << ELEMENT_KIND_SHIFT).to_le_bytes());
        raw[20..].copy_from_slice(&argument.to_le_bytes());
        out.extend_from_slice(&raw);
    }
    /// Whether the key leaves the cache.
    pub(crate) fn is_tombstone(&self) -> bool {
        self.entry.slot_half() == 0
    }
}

impl RawElement {
    #[inline]
    fn decode(raw: &[u8; ELEMENT_BYTES]) -> Option<RawElement> {
        let (words, _) = raw.as_chunks::<8>();
        RawElement::from_words(&[0, 1, 2].map(|at| u64::from_le_bytes(words[at])))
    }
    #[inline]
    fn from_words(words: &[u64; ELEMENT_BYTES / 8]) -> Option<RawElement> {
        let entry = RawEntry::from_halves(words[0], words[1]);
        let (word, argument) = (words[2] as u32, (words[2] >> 32) as u32);
        let kind = match word >> ELEMENT_KIND_SHIFT {
            0 => ElementKind::Whole,
            number => ElementKind::decode(number, argument)?,
        };
        Some(Element {
            entry,
            index: word & INDEX_MASK,
            kind,
        })
    }
    /// Whether the key leaves the cache.
    pub(crate) fn is_tombstone(&self) -> bool {
        self.entry.slot_half() == 0
    }
    /// Bytes of the payload that belong to the element.
    fn redo_bytes(&self) -> usize {
        match self.kind {
            ElementKind::Delta { len, .. } => usize::from(len),
            _ => 0,
        }
    }
    /// The element, if a commit writes such a one on a medium of this geometry; `redo_len` bytes of redo data are there
    /// for it. Else what is wrong with it.
    pub(crate) fn validate(&self, geometry: &Geometry, redo_len: usize) -> Result<Element, String> {
        if self.index >= geometry.entries {
            return Err(format!(
                "it names entry {} of {}",
                self.index, geometry.entries
            ));
        }
        let entry = match self.entry.validate(geometry.slots()) {
            _ if self.is_tombstone() => Entry::tombstone(self.entry.key()),
            Ok(Some(entry)) => entry,
            _ => return Err(format!("it holds a bad entry {:?}", self.entry)),
        };
        let is_in_row = entry
            .slot()
            .is_some_and(|slot| geometry.column_of(slot).is_some());
        if is_in_row && !(entry.is_plain() && self.kind == ElementKind::Whole) {
            return Err("it changes a block in a row, or makes less of one".into());
        }
        let block_bytes = geometry.block_bytes as usize;
        let (end, limit) = match self.kind {
            ElementKind::Whole => (0, 0),
            ElementKind::Delta { offset, len } => {
                if usize::from(len) != redo_len {
                    return Err("its redo bytes are cut short".into());
                }
                (usize::from(offset) + redo_len, block_bytes)
            }
            ElementKind::Append { valid_bytes } => {
                (valid_bytes as usize, block_bytes - PARTIAL_TRAILER_BYTES)
            }
        };
        if end > limit {
            return Err(format!("it reaches to byte {end} of a block"));
        }
        Ok(Element {
            entry,
            index: self.index,
            kind: self.kind,
        })
    }
}

/// The sequence that a whole record says.
pub(crate) fn sequence_of(raw: &[u8]) -> u64 {
    let field = raw[SEQUENCE_AT..]
        .first_chunk()
        .expect("a record is a line at least");
    u64::from_le_bytes(*field)
}

/// Bytes of a record, before padding.
pub(crate) fn record_bytes(elements: usize, payload_bytes: usize) -> u64 {
    (RECORD_HEADER_BYTES + elements * ELEMENT_BYTES + payload_bytes) as u64
}

/// Bytes of a record in its lane.
pub(crate) fn padded(bytes: u64) -> u64 {
    bytes.next_multiple_of(LINE_BYTES)
}

/// Where and when a record is written.
#[derive(Clone, Copy)]
pub(crate) struct RecordHeader {
    pub(crate) salt: Salt,
    pub(crate) lane: u32,
    /// Absolute position: laps × lane bytes + offset.
    pub(crate) position: u64,
    pub(crate) lap: u32,
    pub(crate) sequence: u64,
    /// Every sequence up to this one is published.
    pub(crate) acknowledged: u64,
}

impl RecordHeader {
    /// The header of a record of so many elements and lines, in words, the CRC left out; the rest
    /// of its first line is zero.
    #[inline(always)]
    fn words(&self, elements: usize, lines: u64) -> [u64; 8] {
        let distance = u32::try_from(self.sequence - self.acknowledged).unwrap_or(u32::MAX);
        let count = u16::try_from(elements).expect("the transaction limit bounds the elements");
        let lines = u16::try_from(lines).expect("half a lane bounds a record");
        let mut words = [0; 8];
        words[0] = self.salt.tag(self.lane, self.position);
        words[1] = self.sequence;
        words[2] = u64::from(distance) | u64::from(self.lap) << 32;
        words[CRC_AT / 8] = u64::from(count) << 32 | u64::from(lines) << 48;
        words
    }
}

/// Writes header, elements and payload into `out`, whole lines.
pub(crate) fn encode(
    header: &RecordHeader,
    elements: &[Element],
    payload: &[u8],
    out: &mut Vec<u8>,
) {
    let lines = padded(record_bytes(elements.len(), payload.len())) / LINE_BYTES;
    out.clear();
    for word in &header.words(elements.len(), lines)[..RECORD_HEADER_BYTES / 8] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    for element in elements {
        element.encode(out);
    }
    out.extend_from_slice(payload);
    out.resize((lines * LINE_BYTES) as usize, 0);
    let crc = forebay_pmem::crc32c_append(header.salt.crc_seed(), out);
    out[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
}

/// A record that was read back and is whole: whether it was committed is not known yet. Elements and redo
/// bytes are in its `RawRecords`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawRecord {
    pub(crate) lane: u32,
    pub(crate) position: u64,
    pub(crate) bytes: u64,
    pub(crate) sequence: u64,
    pub(crate) acknowledged: u64,
    first_element: u32,
    elements: u32,
    payload_start: u32,
    payload_end: u32,
}

/// The whole records of one or more lanes, packed: recovery reads many thousands of them.
#[derive(Default, Debug)]
pub(crate) struct RawRecords {
    pub(crate) records: Vec<RawRecord>,
    elements: Vec<RawElement>,
    payload: Vec<u8>,
}

/// The records that were committed, in order of sequence: what recovery's classification has left.
#[derive(Debug)]
pub(crate) struct Records(RawRecords);

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'r> {
    all: &'r RawRecords,
    raw: &'r RawRecord,
}

/// The position that a header at `offset` claims, if its tag fits that claim.
pub(crate) fn tagged_position(
    salt: Salt,
    lane: u32,
    lane_bytes: u64,
    offset: u64,
    tag: u64,
    lap_word: u64,
) -> Option<u64> {
    let lap = lap_word >> 32;
    let position = lap * lane_bytes + offset;
    (salt.tag(lane, position) == tag).then_some(position)
}

/// Lines of the record whose last header word (CRC, count, lines) this is.
pub(crate) fn lines_of(word: u64) -> u64 {
    word >> 48
}

/// Whether the bytes of a record are what was written. Clears the CRC in them, which it is
/// computed without.
pub(crate) fn is_whole(salt: Salt, raw: &mut [u8]) -> bool {
    let Some(field) = raw.get_mut(CRC_AT..CRC_AT + 4) else {
        return false;
    };
    let crc = [field[0], field[1], field[2], field[3]];
    field.fill(0);
    forebay_pmem::crc32c_append(salt.crc_seed(), raw).to_le_bytes() == crc
}

/// The elements of a record in `raw`, each nothing where it makes no sense; nothing at all if they cannot be
/// as many as it says.
pub(crate) fn elements_of(raw: &[u8]) -> Option<impl ExactSizeIterator<Item = Option<RawElement>>> {
    let (words, _) = raw.get(CRC_AT..RECORD_HEADER_BYTES)?.as_chunks::<8>();
    let count = usize::from((u64::from_le_bytes(words[0]) >> 32) as u16);
    let bytes = raw.get(RECORD_HEADER_BYTES..RECORD_HEADER_BYTES + count * ELEMENT_BYTES)?;
    let (elements, _) = bytes.as_chunks::<ELEMENT_BYTES>();
    Some(elements.iter().map(RawElement::decode))
}

impl RawRecords {
    /// Adds the record in `raw` if its shape makes sense; returns whether it did.
    pub(crate) fn add(&mut self, lane: u32, position: u64, raw: &[u8]) -> bool {
        let word = |at: usize| u64::from_le_bytes(raw[at..at + 8].try_into().expect("8 bytes"));
        if raw.len() < RECORD_HEADER_BYTES {
            return false;
        }
        let (sequence, first_element) = (word(8), self.elements.len());
        if sequence >= SEQUENCE_MAX {
            return false;
        }
        let Some(elements) = elements_of(raw) else {
            return false;
        };
        let payload_at = RECORD_HEADER_BYTES + elements.len() * ELEMENT_BYTES;
        let count = elements.len();
        for element in elements {
            let Some(element) = element else {
                self.elements.truncate(first_element);
                return false;
            };
            self.elements.push(element);
        }
        let deltas = self.elements[first_element..].iter();
        let redo: usize = deltas.map(RawElement::redo_bytes).sum();
        let payload_start = self.payload.len();
        let payload_end = (payload_at + redo).min(raw.len());
        self.payload
            .extend_from_slice(&raw[payload_at..payload_end]);
        self.records.push(RawRecord {
            lane,
            position,
            bytes: raw.len() as u64,
            sequence,
            acknowledged: sequence.saturating_sub(word(16) & 0xFFFF_FFFF),
            first_element: first_element as u32,
            elements: count as u32,
            payload_start: payload_start as u32,
            payload_end: self.payload.len() as u32,
        });
        true
    }

    /// The committed ones, in order of sequence; the caller has dropped the others.
    pub(crate) fn into_committed(mut self) -> Records {
        self.sort();
        Records(self)
    }

    fn sort(&mut self) {
        let numbered = self.records.iter().zip(0..);
        let mut order: Vec<(u64, u32)> =
            numbered.map(|(record, at)| (record.sequence, at)).collect();
        // Stable, since that makes use of the lanes' being in order already; pairs, since records
        // are large to move about.
        order.sort();
        self.records = order
            .iter()
            .map(|(_, at)| self.records[*at as usize])
            .collect();
    }

    /// Makes room for so many records with an element each.
    pub(crate) fn reserve(&mut self, records: usize) {
        self.records.reserve(records);
        self.elements.reserve(records);
    }

    /// Appends another lane's log.
    pub(crate) fn append(&mut self, other: RawRecords) {
        let (elements, payload) = (self.elements.len(), self.payload.len());
        self.records
            .extend(other.records.into_iter().map(|record| RawRecord {
                first_element: record.first_element + elements as u32,
                payload_start: record.payload_start + payload as u32,
                payload_end: record.payload_end + payload as u32,
                ..record
            }));
        self.elements.extend(other.elements);
        self.payload.extend(other.payload);
    }

    /// Adds what another member's copy of the same lane has beyond these.
    pub(crate) fn merge(&mut self, other: RawRecords) {
        if other.records.is_empty() {
            return;
        }
        let known: HashSet<u64> = self.records.iter().map(|record| record.position).collect();
        let is_new = |record: &&RawRecord| !known.contains(&record.position);
        for record in other.records.iter().filter(is_new) {
            let (elements, payload) = (self.elements.len(), self.payload.len());
            self.elements.extend_from_slice(other.elements(record));
            let bytes = record.payload_start as usize..record.payload_end as usize;
            self.payload.extend_from_slice(&other.payload[bytes]);
            self.records.push(RawRecord {
                first_element: elements as u32,
                payload_start: payload as u32,
                payload_end: self.payload.len() as u32,
                ..*record
            });
        }
    }

    pub(crate) fn elements(&self, record: &RawRecord) -> &[RawElement] {
        let first = record.first_element as usize;
        &self.elements[first..first + record.elements as usize]
    }
}

impl Records {
    pub(crate) fn len(&self) -> usize {
        self.0.records.len()
    }
    /// All of them, the oldest first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = Record<'_>> {
        let all = &self.0;
        all.records.iter().map(move |raw| Record { all, raw })
    }
}

impl<'r> Record<'r> {
    pub(crate) fn sequence(self) -> u64 {
        self.raw.sequence
    }
    pub(crate) fn lane(self) -> u32 {
        self.raw.lane
    }
    pub(crate) fn position(self) -> u64 {
        self.raw.position
    }
    /// Its bytes in the lane.
    pub(crate) fn bytes(self) -> u64 {
        self.raw.bytes
    }
    /// Its elements, each with its redo bytes (empty but for deltas).
    pub(crate) fn parts(self) -> impl Iterator<Item = (&'r RawElement, &'r [u8])> {
        let payload = self.raw.payload_start as usize..self.raw.payload_end as usize;
        let mut rest = &self.all.payload[payload];
        self.all.elements(self.raw).iter().map(move |element| {
            let (redo, tail) = rest.split_at(element.redo_bytes().min(rest.len()));
            rest = tail;
            (element, redo)
        })
    }
}

#[cfg(test)]
impl From<Element> for RawElement {
    fn from(element: Element) -> RawElement {
        Element {
            entry: element.entry.into(),
            index: element.index,
            kind: element.kind,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::entry::Key;

    fn sample() -> (RecordHeader, Vec<Element>, Vec<u8>) {
        let header = RecordHeader {
            salt: Salt(0x0123_4567_89AB_CDEF),
            lane: 3,
            position: 5 * 1024 + 128,
            lap: 5,
            sequence: 1000,
            acknowledged: 990,
        };
        let key = Key::new(1, 7);
        let elements = vec![
            Element {
                entry: Entry::data(key, 4, 9),
                index: 2,
                kind: ElementKind::Whole,
            },
            Element {
                entry: Entry::data(key, 4, 10),
                index: 2,
                kind: ElementKind::Delta {
                    offset: 100,
                    len: 5,
                },
            },
            Element {
                entry: Entry::tombstone(Key::new(1, 8)),
                index: 9,
                kind: ElementKind::Whole,
            },
            Element {
                entry: Entry::data(Key::new(1, 9), 5, 1).as_partial(),
                index: 11,
                kind: ElementKind::Append { valid_bytes: 77 },
            },
        ];
        (header, elements, b"hello".to_vec())
    }

    #[test]
    fn a_record_comes_back_whole() {
        let (header, elements, payload) = sample();
        let mut raw = Vec::new();
        encode(&header, &elements, &payload, &mut raw);
        assert_eq!(raw.len(), 192);
        let tag = u64::from_le_bytes(raw[..8].try_into().unwrap());
        let lap = u64::from_le_bytes(raw[16..24].try_into().unwrap());
        let position = tagged_position(header.salt, 3, 1024, 128, tag, lap);
        assert_eq!(position, Some(header.position));
        assert_eq!(tagged_position(header.salt, 2, 1024, 128, tag, lap), None);
        assert!(is_whole(header.salt, &mut raw.clone()));
        let mut log = RawRecords::default();
        assert!(log.add(3, header.position, &raw));
        let mut both = RawRecords::default();
        assert!(both.add(3, header.position, &raw));
        both.append(log);
        let raw_elements: Vec<RawElement> = elements.into_iter().map(RawElement::from).collect();
        for record in &both.records {
            assert_eq!((record.sequence, record.acknowledged), (1000, 990));
            assert_eq!(both.elements(record), raw_elements);
        }
        let both = both.into_committed();
        for record in both.iter() {
            let redo: Vec<&[u8]> = record.parts().map(|(_, redo)| redo).collect();
            assert_eq!(redo, [&b""[..], b"hello", b"", b""]);
        }
        assert_eq!(both.len(), 2);
    }

    #[test]
    fn a_sequence_that_was_not_drawn_is_no_record() {
        let (mut header, elements, payload) = sample();
        (header.sequence, header.acknowledged) = (u64::MAX, u64::MAX - 1);
        let mut raw = Vec::new();
        encode(&header, &elements, &payload, &mut raw);
        assert!(is_whole(header.salt, &mut raw.clone()));
        assert!(!RawRecords::default().add(3, header.position, &raw));
    }

    #[test]
    fn every_flipped_bit_and_every_other_salt_is_refused() {
        let (header, elements, payload) = sample();
        let mut raw = Vec::new();
        encode(&header, &elements, &payload, &mut raw);
        for bit in 64..raw.len() * 8 {
            let mut flipped = raw.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_whole(header.salt, &mut flipped), "bit {bit}");
        }
        assert!(!is_whole(Salt(1), &mut raw));
    }
}
