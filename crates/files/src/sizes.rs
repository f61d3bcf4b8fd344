//! The size table: a row for each file that has data in the pool.
//!
//! A row's size changes in the same transaction as the data that makes the file longer. After a crash
//! a file is as long as its row says, or as the backing says if that is more: growth that was never
//! synced may be in the backing alone. That must not undo a cut. The row says where
//! and in which epoch; the backing is cut before anything else is done with it, unless the side file
//! says that this cut is durable there (`cuts`). While a cut is not known to be durable, the row of the
//! next one tells of both: which of them recovery repeats depends on what was durable by then.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, PoisonError};

use forebay::{Transaction, Volume};

use crate::errors::from_pool;
use crate::metadata::{FileId, MetadataArea, ROWS};
use crate::page_cache::PageCache;

const ROW_BYTES: u64 = 64;
/// Rows of the table.
pub(crate) const ROWS_MAX: u32 = ((ROWS.end - ROWS.start) / ROW_BYTES) as u32;
const SIZE_AT: u64 = 8;
const HANDED_OVER_AT: usize = 48;
const _: () = assert!(HANDED_OVER_AT + PageCache::BYTES == ROW_BYTES as usize);

/// What the pool knows of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    pub(crate) id: FileId,
    pub(crate) size_bytes: u64,
    /// The last cut of the file.
    pub(crate) cut: RowCut,
    /// The shortest of those before it that were not known to be durable.
    pub(crate) earlier_cut: RowCut,
    /// All that the pool has of the file went to this page cache, before others were let in: while it
    /// lasts, what is there is newer.
    pub(crate) handed_over: PageCache,
}

/// The backing's file is to be cut to this size, if the cut of this epoch is not durable there.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct RowCut {
    pub(crate) size_bytes: u64,
    /// 0: there was none.
    pub(crate) epoch: u64,
}

impl Row {
    fn encode(&self) -> [u8; ROW_BYTES as usize] {
        let mut raw = [0; ROW_BYTES as usize];
        let (cut, earlier) = (self.cut, self.earlier_cut);
        let words = [
            self.id.0,
            self.size_bytes,
            cut.size_bytes,
            cut.epoch,
            earlier.size_bytes,
            earlier.epoch,
        ];
        for (place, word) in raw.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        raw[HANDED_OVER_AT..].copy_from_slice(&self.handed_over.0);
        raw
    }

    fn decode(raw: &[u8]) -> Option<Row> {
        let word = |at: usize| u64::from_le_bytes(raw[at..at + 8].try_into().expect("eight bytes"));
        (word(0) != 0).then(|| Row {
            id: FileId(word(0)),
            size_bytes: word(8),
            cut: RowCut {
                size_bytes: word(16),
                epoch: word(24),
            },
            earlier_cut: RowCut {
                size_bytes: word(32),
                epoch: word(40),
            },
            handed_over: PageCache(raw[HANDED_OVER_AT..].try_into().expect("the rest of a row")),
        })
    }
}

/// The free rows, and where each one lies.
#[derive(Debug)]
pub(crate) struct SizeTable {
    blocks: u64,
    block_bytes: u64,
    free: Mutex<FreeRows>,
}

#[derive(Debug, Default)]
struct FreeRows {
    /// All from here on are free.
    next: u32,
    /// Those before it that are.
    before: BTreeSet<u32>,
}

impl SizeTable {
    /// Reads the table; returns the rows in use.
    ///
    /// # Errors
    /// The pool's.
    pub(crate) fn open(volume: &Volume) -> io::Result<(SizeTable, Vec<(u32, Row)>)> {
        let area = MetadataArea::new(volume, ROWS);
        let mut raw = vec![0; area.len() as usize];
        area.read(0, &mut raw)?;
        let block_bytes = volume.block_size() as u64;
        let table = SizeTable {
            blocks: area.len() / block_bytes,
            block_bytes,
            free: Mutex::default(),
        };
        let mut used = Vec::new();
        let mut free = FreeRows::default();
        for number in 0..ROWS_MAX {
            let at = (table.offset(number) - ROWS.start) as usize;
            if let Some(row) = Row::decode(&raw[at..at + ROW_BYTES as usize]) {
                used.push((number, row));
                free.before.extend(free.next..number);
                free.next = number + 1;
            }
        }
        *table.lock_free() = free;
        Ok((table, used))
    }

    /// A free row. The first ones lie in a block each: writers of different files meet nowhere.
    pub(crate) fn take(&self) -> Option<u32> {
        let mut free = self.lock_free();
        let number = free.before.pop_first().or_else(|| {
            let next = free.next;
            (next < ROWS_MAX).then_some(next)
        })?;
        free.next = free.next.max(number + 1);
        Some(number)
    }

    /// The row is empty, durably.
    pub(crate) fn give(&self, number: u32) {
        let mut free = self.lock_free();
        let is_new = number < free.next && free.before.insert(number);
        assert!(is_new, "row {number} is given back once");
    }

    /// Adds a row to a transaction, or that it is free.
    pub(crate) fn write(
        &self,
        transaction: &mut Transaction<'_>,
        number: u32,
        row: Option<&Row>,
    ) -> io::Result<()> {
        let raw = row.map_or([0; ROW_BYTES as usize], Row::encode);
        let offset = self.offset(number);
        transaction.write_at(offset, &raw).map_err(from_pool)
    }

    /// A row's new size as a word of the volume, and where it is.
    #[inline]
    pub(crate) fn size_word(&self, number: u32, size_bytes: u64) -> (u64, [u8; 8]) {
        (self.offset(number) + SIZE_AT, size_bytes.to_le_bytes())
    }

    /// Adds to a transaction that a row's file was handed over, or was taken back.
    pub(crate) fn write_handed_over(
        &self,
        transaction: &mut Transaction<'_>,
        number: u32,
        page_cache: PageCache,
    ) -> forebay::Result<()> {
        let offset = self.offset(number) + HANDED_OVER_AT as u64;
        transaction.write_at(offset, &page_cache.0)
    }

    /// Adds a row's new size to a transaction.
    pub(crate) fn write_size(
        &self,
        transaction: &mut Transaction<'_>,
        number: u32,
        size_bytes: u64,
    ) -> forebay::Result<()> {
        let (offset, word) = self.size_word(number, size_bytes);
        transaction.write_at(offset, &word)
    }

    /// Where in the volume a row lies.
    fn offset(&self, number: u32) -> u64 {
        let (block, at) = (
            u64::from(number) % self.blocks,
            u64::from(number) / self.blocks,
        );
        ROWS.start + block * self.block_bytes + at * ROW_BYTES
    }

    fn lock_free(&self) -> std::sync::MutexGuard<'_, FreeRows> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::small_volume;

    #[test]
    fn the_lowest_free_row_is_taken_and_rows_in_use_are_found_again() {
        let (_pool, volume) = small_volume();
        let (table, used) = SizeTable::open(&volume).expect("open");
        assert!(used.is_empty());
        let taken: Vec<u32> = (0..4).map_while(|_| table.take()).collect();
        assert_eq!(taken, [0, 1, 2, 3]);
        table.give(2);
        table.give(0);
        assert_eq!(
            [table.take(), table.take(), table.take()],
            [0, 2, 4].map(Some)
        );
        let row = Row {
            id: FileId(7),
            size_bytes: 9,
            cut: RowCut::default(),
            earlier_cut: RowCut::default(),
            handed_over: PageCache([7; PageCache::BYTES]),
        };
        let mut transaction = volume.begin();
        table.write(&mut transaction, 3, Some(&row)).expect("write");
        transaction.commit().expect("commit");
        let (table, used) = SizeTable::open(&volume).expect("open");
        assert_eq!(used, [(3, row)]);
        let taken: Vec<u32> = std::iter::from_fn(|| table.take()).collect();
        let free = (0..ROWS_MAX).filter(|number| *number != 3);
        assert!(taken.into_iter().eq(free));
    }
}
