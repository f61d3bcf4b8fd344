//! Checksums and parity of what a transaction changed.
//!
//! The designs differ in what they read for a checksum: the whole of each page (§4: TxB-Page-Csums), or the object alone
//! (TxB-Object-Csums). Of an object that is larger than a page only the changed words are read, since a CRC is linear;
//! Pangolin, which the paper takes the design from, does the same. Parity follows from the difference, word by word, in both.

use std::collections::BTreeSet;
use std::ops::{Add, Range, Sub};

use super::changes::{Change, Changes};
use super::checks;
use super::design::Design;
use super::layout::{Header, LINE, Object, PAGE, ROOT_END, WORD};
use super::media::Media;

/// What was read for redundancy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BytesRead {
    /// For checksums.
    pub checksums: u64,
    /// Parity, for its difference.
    pub parity: u64,
}

impl Add for BytesRead {
    type Output = BytesRead;

    fn add(self, other: BytesRead) -> BytesRead {
        BytesRead {
            checksums: self.checksums + other.checksums,
            parity: self.parity + other.parity,
        }
    }
}

impl Sub for BytesRead {
    type Output = BytesRead;

    fn sub(self, other: BytesRead) -> BytesRead {
        BytesRead {
            checksums: self.checksums - other.checksums,
            parity: self.parity - other.parity,
        }
    }
}

/// Covers what has changed: stores checksums and parity, and sends all of it on its way, the changes too. The caller's fence
/// makes it durable. Headers that change are added to the changes.
pub(super) fn cover(media: &Media, changes: &mut Changes) -> BytesRead {
    let mut read = BytesRead::default();
    if media.design() == Design::TxbObject {
        read.checksums += cover_objects(media, changes);
    }
    for line in distinct(changes.iter().flat_map(Change::lines)) {
        media.flush_line(line);
    }
    if media.design() == Design::TxbPage {
        let pages = distinct(changes.iter().flat_map(Change::pages));
        read.checksums += cover_pages(media, &pages);
    }
    if media.design().is_inline() {
        read.parity += cover_rows(media, changes);
    }
    read
}

/// Covers a heap that is being made, whose first object has these bytes: every page has a checksum from now on.
pub(super) fn cover_new(media: &Media, (root, bytes): (Object, Range<u64>)) {
    let mut changes = Changes::default();
    changes.push(media, (root, bytes.clone()), [false, true]);
    cover(media, &mut changes);
    if media.design() == Design::TxbPage {
        let pages = media.heap_start() / PAGE..media.size_bytes() / PAGE;
        let pages: Vec<u64> = pages.collect();
        cover_pages(media, &pages);
    }
    if media.design().is_inline() {
        for page in bytes.start / PAGE..bytes.end.div_ceil(PAGE) {
            make_parity(media, page);
        }
    }
}

/// Bytes read.
fn cover_objects(media: &Media, changes: &mut Changes) -> u64 {
    let mut read = 0;
    for object in distinct(changes.iter().map(|change| change.object)) {
        let old = Header::decode(media.load(object.header()));
        let own = || changes.iter().filter(move |change| change.object == object);
        let is_whole = old.words * WORD <= PAGE || own().any(|change| change.is_fresh);
        let check = match is_whole {
            true => {
                read += old.words * WORD;
                checks::of_object(media, object, old.words)
            }
            false => {
                read += own().map(|change| change.end() - change.at).sum::<u64>();
                checks::of_changed_object(media, (object, old), changes, own())
            }
        };
        let header = object.header();
        if !changes.has(header) {
            let place = (object, header..header + WORD);
            changes.push(media, place, [true, false]);
        }
        media.store(header, Header { check, ..old }.encode());
    }
    read
}

/// Bytes read.
fn cover_pages(media: &Media, pages: &[u64]) -> u64 {
    for &page in pages {
        media.store_sum(page, checks::of_page(media, page));
    }
    // A line has the checksums of eight pages.
    for sum in distinct(pages.iter().map(|page| page * WORD / LINE)) {
        media.flush_sum_line(sum * LINE / WORD);
    }
    pages.len() as u64 * PAGE
}

/// Bytes read.
fn cover_rows(media: &Media, changes: &Changes) -> u64 {
    let (mut lines, mut read) = (Vec::new(), 0);
    for change in changes.iter() {
        for (at, &old) in change.places().zip(changes.old_words(change)) {
            let difference = old ^ media.load(at);
            if difference != 0 {
                media.store_parity(at, media.load_parity(at) ^ difference);
                lines.push(at / LINE * LINE);
                read += WORD;
            }
        }
    }
    // Lines of two extents may be of one line of the parity: it is sent twice then, after its last store.
    for line in distinct(lines.into_iter()) {
        media.flush_parity_line(line);
    }
    read
}

fn distinct<T: Ord>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = all.collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Makes the checksums of pages, and their parity, anew from what is there, and sends them on their way. A row is left as it
/// is where nothing vouches for a page of another extent: where those pages begin is what is returned.
pub(super) fn make_anew(media: &Media, pages: &BTreeSet<u64>) -> BTreeSet<u64> {
    if media.design() == Design::TxbPage {
        let pages: Vec<u64> = pages.iter().copied().collect();
        cover_pages(media, &pages);
    }
    let mut unvouched = BTreeSet::new();
    for page in pages {
        let mates = media.row(page * PAGE).filter(|mate| mate / PAGE != *page);
        let bad: Vec<u64> = mates
            .filter(|mate| !is_page_vouched(media, *mate / PAGE))
            .collect();
        if bad.is_empty() {
            make_parity(media, *page);
        }
        unvouched.extend(bad);
    }
    unvouched
}

/// Makes the parity of a page's row what the row gives; how many of its lines were not.
pub(super) fn make_parity(media: &Media, page: u64) -> u64 {
    let mut changed = 0;
    for line in (page * PAGE..(page + 1) * PAGE).step_by(LINE as usize) {
        let mut is_changed = false;
        for at in (line..line + LINE).step_by(WORD as usize) {
            let parity = media.row(at).fold(0, |word, mate| word ^ media.load(mate));
            if media.load_parity(at) != parity {
                media.store_parity(at, parity);
                is_changed = true;
            }
        }
        // After a kill what is there may not be durable either.
        media.flush_parity_line(line);
        changed += u64::from(is_changed);
    }
    changed
}

/// Whether a page is what was covered last: by its checksum, or by those of all objects that have bytes of it.
pub(super) fn is_page_vouched(media: &Media, page: u64) -> bool {
    if media.design() == Design::TxbPage {
        return checks::of_page(media, page) == media.sum(page);
    }
    let bytes = page * PAGE..(page + 1) * PAGE;
    let objects = objects(media, page * PAGE / media.unit_bytes());
    objects
        .take_while(|(object, _)| object.header() < bytes.end)
        .filter(|(object, header)| object.header() + header.block_bytes() > bytes.start)
        .all(|(object, header)| checks::is_object_vouched(media, object, header))
}

/// The objects of a unit in their order, as far as their headers can be.
pub(super) fn objects(media: &Media, unit: u64) -> impl Iterator<Item = (Object, Header)> {
    let Range { start, end } = objects_of_unit(media, unit);
    let mut at = start;
    std::iter::from_fn(move || {
        let room = end.checked_sub(at).filter(|room| *room > 0)?;
        let header = Header::decode(media.load(at));
        let object = Object::at(at);
        at += header.block_bytes();
        header.is_possible(room).then_some((object, header))
    })
}

/// The bytes of a unit that have objects.
pub(super) fn objects_of_unit(media: &Media, unit: u64) -> Range<u64> {
    let root = Object::at(media.heap_start());
    let start = unit * media.unit_bytes();
    let end = (start + media.unit_bytes()).min(media.load(root.word(ROOT_END)));
    start..end.max(start)
}
