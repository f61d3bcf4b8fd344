//! What an opening makes of a transaction that did not end.
//!
//! Its words are made what they were. Checksums and parity may be of before, of after, or torn between the two: they
//! are made anew for every page that an entry names, of what is there by then. All of that can be done again, and the
//! log ends last, so a crash anywhere in it leaves the same to be done.

use std::collections::BTreeSet;

use super::checks;
use super::design::Design;
use super::error::Result;
use super::layout::{Header, LINE, Object, PAGE, ROOT_END, WORD};
use super::log::Log;
use super::media::Media;
use super::protect;

/// What an opening found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Entries of a transaction that did not end.
    pub undone: usize,
    /// Pages whose checksums and parity were made anew.
    pub pages: usize,
    /// Where pages begin that nothing vouches for, beside pages that were made anew: their rows' parity was left as it
    /// was.
    pub unvouched: Vec<u64>,
}

/// Undoes what the log has, if it has anything, and ends it.
pub(super) fn undo(media: &Media, log: &mut Log) -> Result<Recovered> {
    let entries = log.entries(media);
    if entries.is_empty() {
        log.settle(media)?;
        return Ok(Recovered::default());
    }
    let (mut pages, mut objects) = (BTreeSet::new(), BTreeSet::new());
    for entry in entries.iter().rev() {
        let places = entry.bytes.clone().step_by(WORD as usize);
        for (at, &old) in places.zip(&entry.old) {
            media.store(at, old);
        }
        let first = entry.bytes.start / LINE * LINE;
        for line in (first..entry.bytes.end).step_by(LINE as usize) {
            media.flush_line(line);
        }
        pages.extend(entry.bytes.start / PAGE..entry.bytes.end.div_ceil(PAGE));
        objects.insert(entry.object);
    }
    let mut recovered = Recovered {
        undone: entries.len(),
        ..Recovered::default()
    };
    if media.design() == Design::TxbObject {
        let ended = media.load(Object::at(media.heap_start()).word(ROOT_END));
        for object in objects {
            pages.insert(object.header() / PAGE);
            // What lies beyond was to become objects, and did not.
            if object.header() < ended {
                check_anew(media, object);
            }
        }
    }
    if media.design().is_inline() {
        recovered.unvouched = protect::make_anew(media, &pages).into_iter().collect();
        recovered.pages = pages.len();
    }
    // What was undone, its checksums and its parity are durable before the log ends.
    media.fence()?;
    log.end(media)?;
    Ok(recovered)
}

fn check_anew(media: &Media, object: Object) {
    let header = Header::decode(media.load(object.header()));
    let check = checks::of_object(media, object, header.words);
    media.store(object.header(), Header { check, ..header }.encode());
    media.flush_line(object.header());
}
