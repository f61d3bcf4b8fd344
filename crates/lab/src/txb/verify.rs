//! Every checksum compared, and what does not match rebuilt from its row.
//!
//! Neither design compares at reads: the paper's do not (§4), so damage is found here. Nothing is stored that a
//! checksum does not vouch for.

use std::collections::BTreeSet;

use super::checks;
use super::design::Design;
use super::error::Result;
use super::layout::{Header, LINE, Object, PAGE, WORD};
use super::media::Media;
use super::protect::{is_page_vouched, make_parity, objects_of_unit};

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Pages or objects that were compared.
    pub looked_at: u64,
    /// Pages or objects that were damaged, and are what they were.
    pub repaired: u64,
    /// Checksums that were damaged themselves, where page and parity agree with each other.
    pub repaired_sums: u64,
    /// Pages of the parity that were not what their row gives.
    pub repaired_parity: u64,
    /// Where damage begins that the rows do not repair.
    pub damaged: Vec<u64>,
}

/// Compares and repairs everything but the log, whose entries have checks and a copy of their own.
pub(super) fn verify(media: &Media) -> Result<Verified> {
    let mut found = Verified::default();
    match media.design() {
        Design::TxbPage => pages(media, &mut found),
        _ => {
            // Where objects end is in the first one, which is to be right before it is asked.
            let first = media.heap_start();
            let mut of_first = Verified::default();
            object(media, first, first + media.unit_bytes(), &mut of_first);
            found.repaired = of_first.repaired;
            for unit in media.heap_start() / media.unit_bytes()..units(media) {
                objects(media, unit, &mut found);
            }
        }
    }
    parity(media, &mut found);
    // What was repaired is durable before the caller is told.
    media.fence()?;
    Ok(found)
}

fn units(media: &Media) -> u64 {
    media.size_bytes() / media.unit_bytes()
}

fn pages(media: &Media, found: &mut Verified) {
    for page in media.heap_start() / PAGE..media.size_bytes() / PAGE {
        found.looked_at += 1;
        if is_page_vouched(media, page) {
            continue;
        }
        let places = page * PAGE..(page + 1) * PAGE;
        let rebuilt: Vec<u64> = places
            .step_by(WORD as usize)
            .map(|at| media.rebuilt(at))
            .collect();
        if checks::of_page_words(page, &rebuilt) == media.sum(page) {
            put(media, page * PAGE, &rebuilt);
            found.repaired += 1;
        } else if !checks::is_sum(page, media.sum(page)) && is_there(media, page * PAGE, &rebuilt) {
            media.store_sum(page, checks::of_page(media, page));
            media.flush_sum_line(page);
            found.repaired_sums += 1;
        } else {
            found.damaged.push(page * PAGE);
        }
    }
}

fn objects(media: &Media, unit: u64, found: &mut Verified) {
    let bytes = objects_of_unit(media, unit);
    let mut at = bytes.start;
    while at < bytes.end {
        match object(media, at, bytes.end, found) {
            Some(end) => at = end,
            // Nothing tells where the next one begins.
            None => return,
        }
    }
}

/// Compares an object and repairs it; where the next one begins.
fn object(media: &Media, at: u64, end: u64, found: &mut Verified) -> Option<u64> {
    found.looked_at += 1;
    let object = Object::at(at);
    let header = Header::decode(media.load(at));
    let is_possible = header.is_possible(end - at);
    if is_possible && checks::is_object_vouched(media, object, header) {
        return Some(at + header.block_bytes());
    }
    let given = Header::decode(media.rebuilt(at));
    if given.is_possible(end - at) {
        let words: Vec<u64> = (0..given.words)
            .map(|word| media.rebuilt(object.word(word)))
            .collect();
        if checks::of_words(object, &words) == given.check {
            put(media, at, &[given.encode()]);
            put(media, object.word(0), &words);
            found.repaired += 1;
            return Some(at + given.block_bytes());
        }
    }
    found.damaged.push(at);
    is_possible.then(|| at + header.block_bytes())
}

/// Makes the parity fit in every row without damage.
fn parity(media: &Media, found: &mut Verified) {
    let damaged: BTreeSet<u64> = found
        .damaged
        .iter()
        .flat_map(|at| row_pages(media, *at))
        .collect();
    let rows = media.heap_start() / PAGE..media.size_bytes() / PAGE;
    let first_of_rows = rows.filter(|page| row_pages(media, page * PAGE).next() == Some(*page));
    for page in first_of_rows.filter(|page| !damaged.contains(page)) {
        let is_damaged = media.design() == Design::TxbObject
            && !row_pages(media, page * PAGE).all(|page| is_page_vouched(media, page));
        if !is_damaged && make_parity(media, page) > 0 {
            found.repaired_parity += 1;
        }
    }
}

fn row_pages(media: &Media, at: u64) -> impl Iterator<Item = u64> {
    media.row(at / PAGE * PAGE).map(|mate| mate / PAGE)
}

fn is_there(media: &Media, at: u64, words: &[u64]) -> bool {
    let places = (at..).step_by(WORD as usize);
    places.zip(words).all(|(at, word)| media.load(at) == *word)
}

fn put(media: &Media, at: u64, words: &[u64]) {
    let end = at + words.len() as u64 * WORD;
    for (at, word) in (at..end).step_by(WORD as usize).zip(words) {
        media.store(at, *word);
    }
    for line in (at / LINE * LINE..end).step_by(LINE as usize) {
        media.flush_line(line);
    }
}
