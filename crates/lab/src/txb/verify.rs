//! Every checksum compared, and what does not match rebuilt from its row.
//!
//! Neither design compares at reads: the paper's do not (§4), so damage is found here. Nothing is stored that a
//! checksum does not vouch for.

use std::collections::BTreeSet;
use std::ops::Range;

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
    let mut scan = Scan {
        media,
        found: Verified::default(),
        bad_pages: BTreeSet::new(),
    };
    match media.design() {
        Design::TxbPage => scan.pages(),
        _ => scan.objects(),
    }
    scan.parity();
    // What was repaired is durable before the caller is told.
    media.fence()?;
    Ok(scan.found)
}

/// A comparison that is under way.
struct Scan<'m> {
    media: &'m Media,
    found: Verified,
    /// Pages with damage that was not repaired.
    bad_pages: BTreeSet<u64>,
}

impl Scan<'_> {
    fn pages(&mut self) {
        let media = self.media;
        for page in heap_pages(media) {
            self.found.looked_at += 1;
            if is_page_vouched(media, page) {
                continue;
            }
            let places = page * PAGE..(page + 1) * PAGE;
            let places = places.step_by(WORD as usize);
            let rebuilt: Vec<u64> = places.map(|at| media.rebuilt(at)).collect();
            let is_sum = checks::is_sum(page, media.sum(page));
            if checks::of_page_words(page, &rebuilt) == media.sum(page) {
                put(media, page * PAGE, &rebuilt);
                self.found.repaired += 1;
            } else if !is_sum && is_there(media, page * PAGE, &rebuilt) {
                media.store_sum(page, checks::of_page(media, page));
                media.flush_sum_line(page);
                self.found.repaired_sums += 1;
            } else {
                self.damaged(page * PAGE..(page + 1) * PAGE);
            }
        }
    }

    fn objects(&mut self) {
        let media = self.media;
        let unit_bytes = media.unit_bytes();
        // Where objects end is in the first one, which is to be right before it is asked.
        let first = media.heap_start();
        let mut of_first = Scan {
            media,
            found: Verified::default(),
            bad_pages: BTreeSet::new(),
        };
        of_first.object(first..first + unit_bytes);
        self.found.repaired = of_first.found.repaired;
        for unit in media.heap_start() / unit_bytes..media.size_bytes() / unit_bytes {
            let mut rest = objects_of_unit(media, unit);
            while !rest.is_empty() {
                rest.start = self.object(rest.clone());
            }
        }
    }

    /// Compares the object that comes first and repairs it; where the next one begins.
    fn object(&mut self, rest: Range<u64>) -> u64 {
        self.found.looked_at += 1;
        let (media, at, room) = (self.media, rest.start, rest.end - rest.start);
        let object = Object::at(at);
        let header = Header::decode(media.load(at));
        let is_possible = header.is_possible(room);
        if is_possible && checks::is_object_vouched(media, object, header) {
            return at + header.block_bytes();
        }
        let given = Header::decode(media.rebuilt(at));
        if given.is_possible(room) {
            let words = (0..given.words).map(|word| media.rebuilt(object.word(word)));
            let words: Vec<u64> = words.collect();
            if checks::of_words(object, &words) == given.check {
                put(media, at, &[given.encode()]);
                put(media, object.word(0), &words);
                self.found.repaired += 1;
                return at + given.block_bytes();
            }
        }
        let end = match is_possible {
            true => at + header.block_bytes(),
            // Nothing tells where the next one begins.
            false => rest.end,
        };
        self.damaged(at..end);
        end
    }

    fn damaged(&mut self, bytes: Range<u64>) {
        self.bad_pages
            .extend(bytes.start / PAGE..bytes.end.div_ceil(PAGE));
        self.found.damaged.push(bytes.start);
    }

    /// Makes the parity fit in every row without damage.
    fn parity(&mut self) {
        let media = self.media;
        for page in heap_pages(media) {
            let row: Vec<u64> = media.row(page * PAGE).map(|mate| mate / PAGE).collect();
            let is_bad = row.iter().any(|mate| self.bad_pages.contains(mate));
            if row[0] == page && !is_bad && make_parity(media, page) > 0 {
                self.found.repaired_parity += 1;
            }
        }
    }
}

fn heap_pages(media: &Media) -> Range<u64> {
    media.heap_start() / PAGE..media.size_bytes() / PAGE
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
