//! Recovery of the journal, in JBD2's passes: find the end of the log, gather what is revoked, write
//! the rest to its places.
//!
//! The cache below has been recovered. A replay that is cut off itself is repeated from the start:
//! the tail moves after everything is in its place.

use std::collections::{BTreeMap, HashMap};

use forebay::{Error, ErrorKind, Result};

use super::super::flashcache::Flashcache;
use super::super::layout::Tail;
use super::blocks::{Control, Tag};
use super::{Journal, blocks};

/// A committed transaction as the log has it.
#[derive(Default)]
struct Found {
    /// Its blocks, with the positions of their log blocks.
    tags: Vec<(Tag, u64)>,
    revoked: Vec<u64>,
}

impl Journal {
    /// Replays the journal and returns it empty.
    ///
    /// # Errors
    /// `Damaged` where there is no journal, or a committed transaction of blocks that are not there:
    /// nothing was changed then.
    pub(in super::super) fn open(cache: &mut Flashcache) -> Result<Journal> {
        let geometry = *cache.geometry();
        let mut bytes = vec![0; geometry.block_bytes];
        cache.read(geometry.journal_first(), &mut bytes)?;
        let Some(tail) = blocks::tail_of(&geometry, &bytes) else {
            return Err(damaged(cache, "the disk has no journal".to_owned()));
        };
        let mut journal = Journal::new(&geometry, tail);
        let (transactions, end) = journal.scan(cache)?;
        let newest = journal.newest(&transactions, tail.sequence);
        if let Some((number, _)) = newest.range(journal.first..).next() {
            let found = format!("the journal has block {number}, outside the disk");
            return Err(damaged(cache, found));
        }
        for (number, (tag, position)) in newest {
            cache.read(journal.first + 1 + position, &mut bytes)?;
            if tag.is_escaped {
                blocks::unescape(&mut bytes);
            }
            cache.write(number, &bytes)?;
        }
        // Everything is durable in its place. The number that comes next is left out: there may be a
        // part of a transaction of that number.
        let sequence = end.sequence + 1;
        journal.write_tail(cache, Tail { sequence, ..end })?;
        Ok(journal)
    }

    /// Finds all whole transactions from the tail on, and where they end.
    fn scan(&self, cache: &mut Flashcache) -> Result<(Vec<Found>, Tail)> {
        let mut transactions = Vec::new();
        let mut end = self.tail;
        let mut found = Found::default();
        let mut bytes = vec![0; self.block_bytes];
        let mut seen = 0;
        while seen < self.log_blocks {
            let position = (self.tail.position + seen) % self.log_blocks;
            cache.read(self.first + 1 + position, &mut bytes)?;
            seen += 1;
            match blocks::control_of(&bytes, end.sequence) {
                None => break,
                Some(Control::Revoke(numbers)) => found.revoked.extend(numbers),
                Some(Control::Descriptor(tags)) => {
                    for tag in tags {
                        let position = (self.tail.position + seen) % self.log_blocks;
                        found.tags.push((tag, position));
                        seen += 1;
                    }
                }
                Some(Control::Commit) => {
                    transactions.push(std::mem::take(&mut found));
                    end.position = (self.tail.position + seen) % self.log_blocks;
                    end.sequence += 1;
                }
            }
        }
        Ok((transactions, end))
    }

    /// The newest version of each block that no transaction as new or newer revokes.
    fn newest(&self, transactions: &[Found], first: u64) -> BTreeMap<u64, (Tag, u64)> {
        let numbered = || (first..).zip(transactions);
        let mut revoked = HashMap::new();
        for (sequence, transaction) in numbered() {
            let numbers = transaction.revoked.iter();
            revoked.extend(numbers.map(|&number| (number, sequence)));
        }
        let mut newest = BTreeMap::new();
        for (sequence, transaction) in numbered() {
            for &(tag, position) in &transaction.tags {
                let by = revoked.get(&tag.number);
                if by.is_none_or(|&by| by < sequence) {
                    newest.insert(tag.number, (tag, position));
                }
            }
        }
        newest
    }
}

fn damaged(cache: &Flashcache, found: String) -> Error {
    ErrorKind::Damaged {
        path: cache.device().region().path().to_path_buf(),
        found,
    }
    .into()
}
