//! The bytes of a disk, sparse: what is not there is zero. Clones share chunks until one of them changes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

const CHUNK_BYTES: usize = 4096;
type Chunk = [u8; CHUNK_BYTES];

/// What a disk holds. Equal contents are equal however they came about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Content(BTreeMap<u64, Arc<Chunk>>);

/// The parts of `range`, each within a chunk: the chunk, where in it, and where in the range.
fn pieces(range: Range<u64>) -> impl Iterator<Item = (u64, Range<usize>, Range<usize>)> {
    let chunk_bytes = CHUNK_BYTES as u64;
    (range.start / chunk_bytes..range.end.div_ceil(chunk_bytes)).map(move |chunk| {
        let start = chunk * chunk_bytes;
        let from = range.start.max(start);
        let to = range.end.min(start + chunk_bytes);
        let within = |origin: u64| (from - origin) as usize..(to - origin) as usize;
        (chunk, within(start), within(range.start))
    })
}

impl Content {
    /// A content that begins with `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Content {
        let mut content = Content::default();
        content.write(0, bytes);
        content
    }

    /// The first `len` bytes.
    #[must_use]
    pub fn to_vec(&self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.read(0, &mut bytes);
        bytes
    }

    /// Fills `out` from byte `offset` on.
    pub fn read(&self, offset: u64, out: &mut [u8]) {
        for (chunk, within, at) in pieces(offset..offset + out.len() as u64) {
            match self.0.get(&chunk) {
                Some(bytes) => out[at].copy_from_slice(&bytes[within]),
                None => out[at].fill(0),
            }
        }
    }

    /// Replaces the bytes from `offset` on.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        for (chunk, within, at) in pieces(offset..offset + bytes.len() as u64) {
            let new = &bytes[at];
            let is_zero = new.iter().all(|byte| *byte == 0);
            if is_zero && !self.0.contains_key(&chunk) {
                continue;
            }
            let old = self
                .0
                .entry(chunk)
                .or_insert_with(|| Arc::new([0; CHUNK_BYTES]));
            let old = Arc::make_mut(old);
            old[within].copy_from_slice(new);
            if is_zero && *old == [0; CHUNK_BYTES] {
                self.0.remove(&chunk);
            }
        }
    }

    /// Whether it is known without a look that all of the chunk of `offset` is zero, and how many of its
    /// bytes lie from there on.
    pub(crate) fn hole_at(&self, offset: u64) -> (bool, u64) {
        let chunk = offset / CHUNK_BYTES as u64;
        let end = (chunk + 1) * CHUNK_BYTES as u64;
        (!self.0.contains_key(&chunk), end - offset)
    }

    /// The numbers of the sectors in `range`, a range of such numbers, that are not zero.
    pub(crate) fn written_sectors(&self, range: Range<u64>, sector_bytes: usize) -> Vec<u64> {
        let per_chunk = (CHUNK_BYTES / sector_bytes) as u64;
        let chunks = range.start / per_chunk..range.end.div_ceil(per_chunk);
        let sectors = self.0.range(chunks).flat_map(|(chunk, bytes)| {
            let numbers = chunk * per_chunk..;
            numbers.zip(bytes.chunks(sector_bytes))
        });
        let written = sectors.filter(|(number, bytes)| {
            range.contains(number) && bytes.iter().any(|byte| *byte != 0)
        });
        written.map(|(number, _)| number).collect()
    }
}
