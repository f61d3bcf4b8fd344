//! Reading patches while the log opens: segments' summaries say where they stand, and not what they are.

use super::core::State;
use super::load::Loader;
use crate::device::PageRead;
use crate::media::{Inline, Key, check_of};
use crate::page::{PAGE_BYTES, Pages};
use crate::state::Patch;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Patches whose pages are read at once.
const READ_AT_ONCE: usize = 64;

/// Where one of a block's patches stands, and which of them it is.
struct Unread {
    inline: Inline,
    key: Key,
    number: usize,
}

impl Unread {
    /// Its bytes in the pages from its own on.
    fn bytes(&self) -> Range<usize> {
        let start = usize::from(self.inline.at);
        start..start + usize::from(self.inline.len)
    }

    fn pages(&self) -> Range<u32> {
        let count = self.bytes().end.div_ceil(PAGE_BYTES).max(1) as u32;
        self.inline.page..self.inline.page + count
    }
}

impl Loader<'_> {
    /// Reads those of which something is to be seen, in the order of their pages. Segments from the tail on are never written over, and
    /// a block's patches stand in its segment or later. One that cannot be read is an error to those alone that read its block.
    pub(crate) fn read_patches(&self, state: &mut State) {
        let keys = state.patches.oldest(usize::MAX);
        let mut all = Vec::new();
        for key in &keys {
            let patched = state.patches.get(*key);
            let unread = patched.map(|patched| patched.unread()).unwrap_or_default();
            let each = unread.iter().enumerate();
            all.extend(each.map(|(number, inline)| Unread {
                inline: *inline,
                key: *key,
                number,
            }));
        }
        all.sort_unstable_by_key(|one| (one.inline.page, one.inline.at));
        let mut read: BTreeMap<Key, Vec<(usize, Option<Patch>)>> = BTreeMap::new();
        for some in all.chunks(READ_AT_ONCE) {
            for (one, patch) in some.iter().zip(self.read_some(some)) {
                read.entry(one.key).or_default().push((one.number, patch));
            }
        }
        for key in keys {
            let mut patches = read.remove(&key).unwrap_or_default();
            patches.sort_unstable_by_key(|(number, _)| *number);
            // None of them if one is missing.
            let patches: Option<Vec<Patch>> = patches.into_iter().map(|(_, patch)| patch).collect();
            state.patches.note_read(key, patches.as_deref());
        }
    }

    /// Of each none if its bytes do not match its check, or the device does not give them.
    fn read_some(&self, some: &[Unread]) -> Vec<Option<Patch>> {
        let numbers: BTreeSet<u32> = some.iter().flat_map(Unread::pages).collect();
        let mut pages = Pages::zeroed(numbers.len());
        let each = numbers.iter().zip(pages.chunks_exact_mut(PAGE_BYTES));
        let reads = each.map(|(page, out)| PageRead {
            page: u64::from(*page),
            out,
        });
        let mut reads: Vec<PageRead<'_>> = reads.collect();
        let mut is_read = vec![false; reads.len()];
        self.device
            .read_many(&mut reads, &mut |number, _| is_read[number] = true);
        for (one, is_read) in reads.iter_mut().zip(&mut is_read) {
            // By itself once more, as the device asks.
            *is_read = *is_read || self.device.read(one.page, one.out).is_ok();
        }
        drop(reads);
        let places: BTreeMap<u32, usize> = numbers.into_iter().zip(0..).collect();
        let patches = some.iter().map(|one| {
            let mut bytes = Vec::new();
            for page in one.pages() {
                let place = places[&page];
                is_read[place].then(|| bytes.extend_from_slice(pages.page(place)))?;
            }
            let bytes = &bytes[one.bytes()];
            let is_it = check_of(one.key, bytes) == one.inline.check;
            is_it.then(|| Patch::new(&one.inline, bytes))
        });
        patches.collect()
    }
}
