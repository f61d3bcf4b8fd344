//! Transactions: blocks, parts of blocks and ranges of zeroes that become durable together.

use crate::error::{LogError, Result};
use crate::media::{BLOCK_BITS, Element, Key, Shape, VOLUMES_MAX, check_of};
use crate::page::{PAGE_BYTES, Pages};
use std::ops::Range;
use std::sync::Arc;

/// One change.
#[derive(Clone)]
pub(crate) enum Item {
    /// A block: the next of the transaction's pages. `written` are the ranges of it that the caller gave, all of it if none;
    /// then its check may be known. It may be one to which was appended: little of it, and then zeroes.
    Block {
        key: Key,
        written: Option<Vec<Range<usize>>>,
        check: Option<u32>,
        is_append: bool,
    },
    /// Blocks that read as zeroes.
    Zero { first: Key, count: u64 },
}

impl Item {
    /// The element of blocks that read as zeroes.
    pub(crate) fn zeroes(&self) -> Option<Element> {
        match self {
            Item::Zero { first, count } => Some(Element {
                key: *first,
                shape: Shape::Zero { count: *count },
                is_clean: false,
            }),
            Item::Block { .. } => None,
        }
    }
}

/// Changes that are committed together. Bytes are copied when they are given: the caller's may change afterwards. A clone
/// shares them until one of the two is changed: what found no room is tried again without a copy.
#[derive(Clone, Default)]
pub struct Transaction {
    pub(crate) pages: Option<Arc<Pages>>,
    pub(crate) items: Vec<Item>,
    /// It is over when it is written; some flush later on makes it durable.
    pub(crate) is_unsynced: bool,
}

/// The first block of a range, if a volume can have all of it.
///
/// # Errors
/// It cannot.
pub(crate) fn check(volume: u32, first: u64, count: u64) -> Result<Key> {
    if volume == 0 || volume as usize > VOLUMES_MAX {
        return Err(LogError::Transaction(format!(
            "there is no volume {volume}: they are numbered from 1 to {VOLUMES_MAX}"
        )));
    }
    let blocks = 1 << BLOCK_BITS;
    if first >= blocks || count > blocks - first {
        return Err(LogError::Transaction(format!(
            "{count} blocks from {first} on are more than a volume has, which is {blocks}"
        )));
    }
    Ok(Key {
        volume,
        block: first,
    })
}

impl Transaction {
    /// One that changes nothing yet.
    #[must_use]
    pub fn new() -> Transaction {
        Transaction::default()
    }

    /// A whole block.
    ///
    /// # Errors
    /// There is no such block, or these are not the bytes of one.
    pub fn write(&mut self, volume: u32, block: u64, bytes: &[u8]) -> Result<()> {
        let key = check(volume, block, 1)?;
        if bytes.len() != PAGE_BYTES {
            let len = bytes.len();
            return Err(LogError::Transaction(format!(
                "a block has {PAGE_BYTES} bytes, not {len}"
            )));
        }
        self.put(key, 0..PAGE_BYTES, bytes);
        Ok(())
    }

    /// Part of a block; the rest stays as it is at the commit.
    ///
    /// # Errors
    /// There is no such block, or the part does not lie in it.
    pub fn write_part(
        &mut self,
        volume: u32,
        block: u64,
        offset: usize,
        bytes: &[u8],
    ) -> Result<()> {
        let key = check(volume, block, 1)?;
        let end = offset.checked_add(bytes.len());
        match end.filter(|end| *end <= PAGE_BYTES) {
            Some(end) => self.put(key, offset..end, bytes),
            None => {
                let len = bytes.len();
                return Err(LogError::Transaction(format!(
                    "{len} bytes at {offset} do not lie in a block of {PAGE_BYTES}"
                )));
            }
        }
        Ok(())
    }

    /// Part of a block, behind which the block is zero; what stands before it stays.
    ///
    /// # Errors
    /// As those of [`Transaction::write_part`].
    pub fn append(&mut self, volume: u32, block: u64, offset: usize, bytes: &[u8]) -> Result<()> {
        let mut to_end = vec![0; PAGE_BYTES.saturating_sub(offset)];
        let Some(start) = to_end.get_mut(..bytes.len()) else {
            return self.write_part(volume, block, offset, bytes);
        };
        start.copy_from_slice(bytes);
        let key = check(volume, block, 1)?;
        self.put(key, offset..PAGE_BYTES, &to_end);
        if let Some((item, Some(_))) = self.newest(key)
            && let Item::Block { is_append, .. } = &mut self.items[item]
        {
            *is_append = true;
        }
        Ok(())
    }

    /// So many blocks read as zeroes, cached or not: a discard or a request to write zeroes.
    ///
    /// # Errors
    /// There are no such blocks.
    pub fn zero(&mut self, volume: u32, first: u64, count: u64) -> Result<()> {
        let first = check(volume, first, count)?;
        if count > 0 {
            self.items.push(Item::Zero { first, count });
        }
        Ok(())
    }

    /// The item that decides what a block is so far, and the page that it has.
    fn newest(&self, key: Key) -> Option<(usize, Option<usize>)> {
        let mut page = self.page_count();
        for (number, item) in self.items.iter().enumerate().rev() {
            match item {
                Item::Block { key: other, .. } => {
                    page -= 1;
                    if *other == key {
                        return Some((number, Some(page)));
                    }
                }
                Item::Zero { first, count } => {
                    let blocks = first.block..first.block + count;
                    if first.volume == key.volume && blocks.contains(&key.block) {
                        return Some((number, None));
                    }
                }
            }
        }
        None
    }

    fn put(&mut self, key: Key, range: Range<usize>, bytes: &[u8]) {
        let newest = self.newest(key);
        let pages = self.pages.get_or_insert_default();
        let pages = Arc::make_mut(pages);
        let is_whole = range.len() == PAGE_BYTES;
        if let Some((item, Some(page))) = newest {
            pages.page_mut(page)[range.clone()].copy_from_slice(bytes);
            if let Item::Block { written, .. } = &mut self.items[item] {
                match written {
                    _ if is_whole => *written = None,
                    Some(written) => written.push(range),
                    None => {}
                }
            }
            return;
        }
        match is_whole {
            true => pages.push_page(bytes),
            false => {
                let page = pages.push();
                pages.page_mut(page)[range.clone()].copy_from_slice(bytes);
            }
        }
        // The rest of a block that this transaction zeroes is known.
        let is_known = is_whole || newest.is_some();
        let written = (!is_known).then(|| vec![range]);
        self.items.push(Item::Block {
            key,
            written,
            check: None,
            is_append: false,
        });
    }

    /// Computes the checks of all whole blocks, which then need not be done under a lock.
    pub(crate) fn check_whole_blocks(&mut self) {
        let Some(pages) = &self.pages else { return };
        let mut page = 0;
        for item in &mut self.items {
            if let Item::Block {
                key,
                written,
                check,
                ..
            } = item
            {
                *check = written.is_none().then(|| check_of(*key, pages.page(page)));
                page += 1;
            }
        }
    }

    /// How many elements it makes, and how many of these have a block.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.items.len(), self.page_count())
    }

    fn page_count(&self) -> usize {
        self.pages.as_ref().map_or(0, |pages| pages.count())
    }

    /// How many changes it has, each of which is an element, and how many of these are blocks.
    #[must_use]
    pub fn sizes(&self) -> (usize, usize) {
        self.counts()
    }

    /// Puts what it makes of a block over what that is without it; whether that is all of the block, so that nothing else
    /// of `out` counts.
    ///
    /// # Panics
    /// `out` has not the length of a block.
    pub fn overlay(&self, volume: u32, block: u64, out: &mut [u8]) -> bool {
        assert_eq!(out.len(), PAGE_BYTES, "a whole block");
        match self.newest(Key { volume, block }) {
            None => false,
            Some((_, None)) => {
                out.fill(0);
                true
            }
            Some((item, Some(page))) => {
                let pages = self.pages.as_ref().expect("it has blocks");
                let page = pages.page(page);
                match &self.items[item] {
                    Item::Block {
                        written: Some(written),
                        ..
                    } => {
                        for range in written {
                            out[range.clone()].copy_from_slice(&page[range.clone()]);
                        }
                        false
                    }
                    _ => {
                        out.copy_from_slice(page);
                        true
                    }
                }
            }
        }
    }
}

/// Copies all of `base` but the ranges that were written.
pub(crate) fn fill_around(page: &mut [u8], written: &[Range<usize>], base: Vec<u8>) {
    let mut merged = base;
    for range in written {
        merged[range.clone()].copy_from_slice(&page[range.clone()]);
    }
    page.copy_from_slice(&merged);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_one_transaction_meet_in_one_page() {
        let mut transaction = Transaction::new();
        transaction.write_part(1, 7, 10, &[1; 20]).unwrap();
        transaction.write(1, 8, &[2; PAGE_BYTES]).unwrap();
        transaction.write_part(1, 7, 20, &[3; 20]).unwrap();
        assert_eq!(transaction.counts(), (2, 2));
        let mut page = transaction.pages.as_ref().unwrap().page(0).to_vec();
        let Item::Block {
            written: Some(written),
            ..
        } = &transaction.items[0]
        else {
            panic!("block 7 is written in part");
        };
        fill_around(&mut page, written, vec![9; PAGE_BYTES]);
        let expected = |at: usize| match at {
            10..20 => 1,
            20..40 => 3,
            _ => 9,
        };
        assert!(
            page.iter()
                .enumerate()
                .all(|(at, byte)| *byte == expected(at))
        );
    }

    #[test]
    fn the_rest_of_a_block_that_was_zeroed_is_zero() {
        let mut transaction = Transaction::new();
        transaction.zero(1, 0, 10).unwrap();
        transaction.write_part(1, 7, 0, &[1; 20]).unwrap();
        let has_base = |item: &Item| {
            matches!(
                item,
                Item::Block {
                    written: Some(_),
                    ..
                }
            )
        };
        assert!(!transaction.items.iter().any(has_base));
    }

    #[test]
    fn what_no_volume_has_is_refused() {
        let mut transaction = Transaction::new();
        let page = [0; PAGE_BYTES];
        assert!(transaction.write(0, 0, &page).is_err());
        assert!(transaction.write(65, 0, &page).is_err());
        assert!(transaction.write(1, 1 << BLOCK_BITS, &page).is_err());
        assert!(transaction.write(1, 0, &page[1..]).is_err());
        assert!(transaction.write_part(1, 0, usize::MAX, &page).is_err());
        assert!(transaction.zero(1, 1, 1 << BLOCK_BITS).is_err());
        assert_eq!(transaction.counts(), (0, 0));
    }
}
