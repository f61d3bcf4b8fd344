//! The metadata of a pool of files: the first segment of its one volume.
//!
//! ```text
//! offset      what
//! 0           header: magic, version, the bound of the ids drawn so far
//! 64 KiB      the size table: a row of 64 bytes for each file with data in the pool
//! 2 MiB       the segment table: 16 bytes for each segment, its owner
//! 8 MiB       the namespace log
//! ```
//!
//! Everything here is read and written in the cache's transactions, so each write of an area is whole, durable when [`Durable`] says, and
//! checked when it is read. A power cut leaves a prefix of all writes.

use std::io;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use forebay::{Transaction, Volume};

use crate::errors::from_pool;

const MAGIC: [u8; 8] = *b"FBFILES\x01";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 64;
/// Ids that are drawn with one durable write.
const IDS_AT_ONCE: u64 = 256;

/// Bytes of the size table.
pub(crate) const ROWS: Range<u64> = 64 << 10..(64 << 10) + (1 << 20);
/// Bytes of the segment table.
pub(crate) const SEGMENTS: Range<u64> = 2 << 20..6 << 20;
/// Bytes of the namespace log.
pub(crate) const LOG: Range<u64> = 8 << 20..24 << 20;
/// A segment has so many blocks, as a power of two: 1 GiB of blocks of 4 KiB.
pub(crate) const SEGMENT_BLOCKS_SHIFT: u32 = 18;
/// The smallest segment there is, of a pool with blocks of 128 bytes.
const SEGMENT_BYTES_MIN: u64 = 128 << SEGMENT_BLOCKS_SHIFT;

const _: () = assert!(HEADER_BYTES as u64 <= ROWS.start && ROWS.end <= SEGMENTS.start);
const _: () = assert!(SEGMENTS.end <= LOG.start && LOG.end <= SEGMENT_BYTES_MIN);

/// Which file, in the pool's tables and in the namespace log alike. Never used twice in a pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct FileId(pub(crate) u64);

/// When a write of metadata is durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Durable {
    /// When it returns, with all that was written before.
    AtOnce,
    /// When the pool is synced, or something later is durable at once. In a pool in memory that is no later.
    AfterSync,
}

impl Durable {
    /// Commits a transaction.
    ///
    /// # Errors
    /// The pool's.
    pub(crate) fn commit(self, transaction: Transaction<'_>) -> io::Result<()> {
        let committed = match self {
            Durable::AtOnce => transaction.commit(),
            Durable::AfterSync => transaction.commit_unsynced(),
        };
        committed.map_err(from_pool)
    }
}

/// A range of bytes of the metadata: small writes, each a transaction.
#[derive(Clone, Debug)]
pub(crate) struct MetadataArea {
    volume: Volume,
    range: Range<u64>,
}

impl MetadataArea {
    pub(crate) fn new(volume: &Volume, range: Range<u64>) -> MetadataArea {
        MetadataArea {
            volume: volume.clone(),
            range,
        }
    }

    /// Bytes of the area.
    pub(crate) fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Reads from byte `offset`; what never was written is zero.
    ///
    /// # Errors
    /// `EINVAL` outside the area; the medium failed.
    pub(crate) fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let start = self.place(offset, out.len())?;
        let block_bytes = self.volume.block_size() as u64;
        let first = start / block_bytes;
        let blocks = (start + out.len() as u64).div_ceil(block_bytes) - first;
        let mut bytes = vec![0; (blocks * block_bytes) as usize];
        if !bytes.is_empty() {
            self.volume.read(first, &mut bytes).map_err(from_pool)?;
        }
        let at = (start - first * block_bytes) as usize;
        out.copy_from_slice(&bytes[at..at + out.len()]);
        Ok(())
    }

    /// Writes all of these, each at its byte offset, or none.
    ///
    /// # Errors
    /// `EINVAL` outside the area or with more than a transaction holds; the pool's.
    pub(crate) fn write(&self, writes: &[(u64, &[u8])], durable: Durable) -> io::Result<()> {
        let mut transaction = self.volume.begin();
        for (offset, bytes) in writes {
            let start = self.place(*offset, bytes.len())?;
            transaction.write_at(start, bytes).map_err(from_pool)?;
        }
        durable.commit(transaction)
    }

    /// Makes a range read as zeroes, of at most a transaction.
    ///
    /// # Errors
    /// As [`MetadataArea::write`].
    pub(crate) fn zero(&self, offset: u64, len_bytes: u64, durable: Durable) -> io::Result<()> {
        let start = self.place(offset, len_bytes as usize)?;
        let block_bytes = self.volume.block_size() as u64;
        if !start.is_multiple_of(block_bytes) || !len_bytes.is_multiple_of(block_bytes) {
            return self.write(&[(offset, &vec![0; len_bytes as usize])], durable);
        }
        let blocks = start / block_bytes..(start + len_bytes) / block_bytes;
        let mut transaction = self.volume.begin();
        transaction.discard(blocks).map_err(from_pool)?;
        durable.commit(transaction)
    }

    fn place(&self, offset: u64, len: usize) -> io::Result<u64> {
        let end = offset.checked_add(len as u64);
        if end.is_none_or(|end| end > self.len()) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        Ok(self.range.start + offset)
    }
}

/// Draws ids. What a crash leaves undrawn of a batch is never used.
#[derive(Debug)]
pub(crate) struct FileIds {
    header: MetadataArea,
    drawn: Mutex<Drawn>,
}

#[derive(Debug)]
struct Drawn {
    next: u64,
    /// Every id below it may be in use after a crash.
    bound: u64,
}

impl FileIds {
    /// Reads the header, or writes the first one of a new pool of files.
    ///
    /// # Errors
    /// The header is damaged or of another version; the pool's.
    pub(crate) fn open(volume: &Volume) -> io::Result<FileIds> {
        let header = MetadataArea::new(volume, 0..HEADER_BYTES as u64);
        let mut raw = [0; HEADER_BYTES];
        header.read(0, &mut raw)?;
        let bound = if raw == [0; HEADER_BYTES] {
            1
        } else {
            parse(&raw)?
        };
        let ids = FileIds {
            header,
            drawn: Mutex::new(Drawn { next: bound, bound }),
        };
        if bound == 1 {
            ids.write_bound(1)?;
        }
        Ok(ids)
    }

    /// An id that nothing ever had.
    ///
    /// # Errors
    /// The pool's.
    pub(crate) fn draw(&self) -> io::Result<FileId> {
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        if drawn.next == drawn.bound {
            let bound = drawn.bound + IDS_AT_ONCE;
            self.write_bound(bound)?;
            drawn.bound = bound;
        }
        drawn.next += 1;
        Ok(FileId(drawn.next - 1))
    }

    fn write_bound(&self, bound: u64) -> io::Result<()> {
        let mut raw = [0; HEADER_BYTES];
        raw[..8].copy_from_slice(&MAGIC);
        raw[8..12].copy_from_slice(&VERSION.to_le_bytes());
        raw[16..24].copy_from_slice(&bound.to_le_bytes());
        // Before any of them is used: what uses one is a later write.
        self.header.write(&[(0, &raw)], Durable::AfterSync)
    }
}

fn parse(raw: &[u8; HEADER_BYTES]) -> io::Result<u64> {
    let version = u32::from_le_bytes(raw[8..12].try_into().expect("four bytes"));
    if raw[..8] != MAGIC || version != VERSION {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!(
                "the pool's table of files is of version {version}, or none; this program knows \
                 version {VERSION}: use the program that wrote it"
            ),
        ));
    }
    let bound = u64::from_le_bytes(raw[16..24].try_into().expect("eight bytes"));
    Ok(bound.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::small_volume;

    #[test]
    fn an_area_keeps_what_was_written_and_refuses_what_is_outside() {
        let (_pool, volume) = small_volume();
        let area = MetadataArea::new(&volume, LOG);
        assert_eq!(area.len(), LOG.end - LOG.start);
        area.write(&[(10, b"one"), (5000, b"two")], Durable::AtOnce)
            .expect("write");
        let mut out = [0; 5];
        area.read(9, &mut out).expect("read");
        assert_eq!(&out, b"\0one\0");
        area.read(4998, &mut out).expect("read");
        assert_eq!(&out, b"\0\0two");
        let end = area.len();
        for (offset, len) in [(end, 1), (end - 4, 5), (u64::MAX, 1)] {
            let error = area
                .write(&[(offset, &vec![1; len])], Durable::AtOnce)
                .expect_err("outside");
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        }
    }

    #[test]
    fn ids_are_never_drawn_twice() {
        let (_pool, volume) = small_volume();
        let ids = FileIds::open(&volume).expect("open");
        let first: Vec<u64> = (0..300).map(|_| ids.draw().expect("draw").0).collect();
        assert!(first.is_sorted() && first[0] == 1 && first.len() == 300);
        drop(ids);
        let again = FileIds::open(&volume).expect("open").draw().expect("draw");
        assert!(again.0 > 300, "{again:?}");
    }
}
