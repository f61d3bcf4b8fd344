//! Small parts of blocks: their bytes stand in the record itself, and no page is written for them.
//!
//! Such a patch is laid over what its block was before, so that has to stay: over a page of a segment that is being emptied none joins, and
//! while one is staged its block does not leave the table (S13). And that has to be what the pool alone has: a clean block that the device
//! does not give any more is read from its backing, and with a patch it could be read from neither.

use super::core::{Log, State};
use super::join::{Class, Ready};
use super::waiter::Ticket;
use crate::error::Result;
use crate::media::{
    Element, Geometry, INLINE_BYTES_MAX, Inline, Key, Shape, check_of, record_pages_with,
};
use crate::mutants::{Mutant, mutated};
use crate::page::{PAGE_BYTES, Pages};
use crate::state::{Entry, Held, Newest, Patch};
use crate::transaction::{Item, Transaction};
use std::ops::Range;
use std::sync::Arc;

/// A transaction of more whole blocks gains little by a page less, and these would be copied.
const WHOLE_BLOCKS_MAX: usize = 16;

/// The one range that these make, if they do.
fn joined(ranges: &[Range<usize>]) -> Option<Range<usize>> {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable_by_key(|range| range.start);
    sorted
        .into_iter()
        .try_fold(None, |all: Option<Range<usize>>, next| match all {
            None => Some(Some(next)),
            Some(all) if next.start <= all.end => Some(Some(all.start..all.end.max(next.end))),
            Some(_) => None,
        })?
}

/// What of a block stands in the record, if it is little: `written` of it was given, all of it if none.
fn small_part<'p>(
    key: Key,
    written: Option<&[Range<usize>]>,
    page: &'p [u8],
) -> Option<(Inline, &'p [u8])> {
    let range = match written {
        Some(ranges) => joined(ranges)?,
        None => 0..PAGE_BYTES,
    };
    let mut bytes = &page[range.clone()];
    // What was appended to the block declares the rest of it zero.
    let is_to_end = range.end == PAGE_BYTES;
    if is_to_end {
        let last = bytes.iter().rposition(|byte| *byte != 0);
        bytes = &bytes[..last.map_or(0, |last| last + 1)];
    }
    let inline = Inline {
        page: 0,
        at: 0,
        check: check_of(key, bytes),
        offset: u16::try_from(range.start).expect("within a block"),
        len: u16::try_from(bytes.len()).expect("within a block"),
        is_end_zero: is_to_end && bytes.len() < range.len(),
    };
    (bytes.len() <= INLINE_BYTES_MAX).then_some((inline, bytes))
}

impl Transaction {
    /// The transaction with all of its parts of blocks in the record, if these are small and that is one page.
    pub(crate) fn small(&self) -> Option<Ready> {
        let all = self.pages.as_ref()?;
        if !self.may_be_small() || all.count() > WHOLE_BLOCKS_MAX {
            return None;
        }
        let (mut elements, mut inline) = (Vec::new(), Vec::new());
        let (mut pages, mut page) = (Pages::default(), 0);
        for item in &self.items {
            let Item::Block {
                key,
                written,
                is_append,
                ..
            } = item
            else {
                elements.push(item.zeroes()?);
                continue;
            };
            let bytes = all.page(page);
            page += 1;
            let may_be_small = written.is_some() || *is_append;
            let part = may_be_small.then(|| small_part(*key, written.as_deref(), bytes));
            let shape = match part.flatten() {
                Some((part, bytes)) => {
                    inline.extend_from_slice(bytes);
                    Shape::Inline(part)
                }
                // It needs what the block was before.
                None if written.is_some() => return None,
                None => {
                    pages.push_page(bytes);
                    let check = check_of(*key, bytes);
                    Shape::Block { page: 0, check }
                }
            };
            elements.push(Element {
                key: *key,
                shape,
                is_clean: false,
            });
        }
        let is_inline = |element: &Element| matches!(element.shape, Shape::Inline(_));
        let has_one = elements.iter().any(is_inline);
        let is_small = has_one && record_pages_with(elements.len(), inline.len()) == 1;
        is_small.then(|| Ready {
            elements,
            pages: Arc::new(pages),
            inline,
            is_fill: false,
            is_unsynced: self.is_unsynced,
        })
    }

    /// Whether parts of it may stand in the record.
    pub(crate) fn may_be_small(&self) -> bool {
        self.items.iter().any(|item| match item {
            Item::Block {
                written, is_append, ..
            } => written.is_some() || *is_append,
            Item::Zero { .. } => false,
        })
    }
}

impl State {
    /// Whether there is room for the patches of these elements, and each has something to be laid over, which stays.
    fn takes_patches(&self, geometry: Geometry, elements: &[Element]) -> bool {
        let inlines = elements.iter().filter_map(|element| match element.shape {
            Shape::Inline(inline) => Some((element.key, inline)),
            _ => None,
        });
        let inlines: Vec<_> = inlines.collect();
        let count = self.patches.count() + self.pending.patches() + inlines.len();
        let mut each = inlines.iter();
        count <= self.patches.max()
            && each.all(|(key, inline)| inline.is_whole() || self.takes_patch(geometry, *key))
    }

    fn takes_patch(&self, geometry: Geometry, key: Key) -> bool {
        let has_base = match self.pending.newest(key) {
            Some(Newest::Page(..)) => true,
            Some(Newest::Zeroes | Newest::Gone) => false,
            None => {
                let entry = self.table.get(key);
                entry.is_some_and(|entry| {
                    !entry.is_clean() && !self.is_emptied(geometry, entry.page)
                })
            }
        };
        has_base && self.patches.has_room_of(key, self.pending.patches_of(key))
    }

    /// Whether a page is of the oldest segment, and that is being emptied.
    fn is_emptied(&self, geometry: Geometry, page: u32) -> bool {
        let oldest = geometry.place_of(self.tail);
        self.emptied == Some(self.tail) && geometry.place_of_page(page) == Some(oldest)
    }

    /// A patch is published; without its bytes while the log opens. Recovery comes upon some whose block it does not find: the segment of
    /// that is gone, so the backing has the block with the patch (S6), and nothing of it is in the pool.
    pub(super) fn apply_inline(
        &mut self,
        (element, inline): (&Element, Inline),
        sequence: u64,
        bytes: Option<&[u8]>,
    ) {
        let key = element.key;
        if inline.is_whole() {
            let entry = Entry::new(key, inline.page, inline.check, element.is_clean);
            self.apply_entry(entry);
        } else if self.table.get(key).is_none() {
            assert!(bytes.is_none(), "S13: the block of a patch has gone");
            return;
        }
        match bytes {
            Some(bytes) => {
                let patch = Patch::new(&inline, bytes);
                self.patches.put(key, &patch, sequence);
            }
            None => self.patches.note_unread(key, inline, sequence),
        }
        self.table.mark_patched(key, element.is_clean);
        self.versions.raise(key);
    }

    /// The entry that a block has now, with what is to be laid over its page.
    pub(crate) fn held_now(&self, entry: Entry) -> Held {
        let patched = entry.is_patched().then(|| self.patches.get(entry.key()));
        Held {
            entry,
            patched: patched.flatten().cloned(),
        }
    }

    /// An entry that a block had a moment ago. What is laid over its page is as it is now; none if that went with the page.
    pub(crate) fn held(&self, entry: Entry) -> Option<Held> {
        let now = self.table.get(entry.key());
        match now.filter(|now| now.page == entry.page) {
            Some(now) => Some(self.held_now(now)),
            None if entry.is_patched() => None,
            None => Some(Held {
                entry,
                patched: None,
            }),
        }
    }

    /// The entry of a block, if the block is still as it was: no other page, and no other patches.
    pub(crate) fn still(&self, held: &Held) -> Option<Entry> {
        let now = self.held_now(self.table.get(held.entry.key())?);
        let is_same = match (&now.patched, &held.patched) {
            (None, None) => true,
            (Some(now), Some(then)) => Arc::ptr_eq(now, then),
            _ => false,
        };
        let is_same = is_same || mutated(Mutant::SsdCleanPastPatch);
        (now.entry.page == held.entry.page && is_same).then_some(now.entry)
    }
}

impl Log {
    /// Joins a transaction whose parts of blocks are small, without a page for any of them; none if one of them has to be written with
    /// its block.
    pub(super) fn join_small(&self, transaction: &Transaction) -> Result<Option<Ticket>> {
        if !self.has_inline {
            return Ok(None);
        }
        let Some(ready) = transaction.small() else {
            return Ok(None);
        };
        let mut state = self.lock();
        if let Some(why) = &state.poisoned {
            return Err(self.poisoned(why));
        }
        if !state.takes_patches(self.geometry, &ready.elements) {
            return Ok(None);
        }
        self.join(&mut state, ready, Class::User).map(Some)
    }

    /// How many parts of blocks stand in records alone, and how many may.
    pub fn patches(&self) -> (usize, usize) {
        let state = self.lock();
        (state.patches.count(), state.patches.max())
    }
}
