//! What goes between the disk and the memory while the engine's mutex is free: blocks that are read because
//! they are not cached, and blocks that are being cleaned. A thread that changes a block says so here, and
//! the reader or the cleaner finds that out when it has the mutex again.

use std::collections::HashMap;
use std::ops::Range;

/// Part of an engine's state, under its mutex.
#[derive(Default)]
pub(crate) struct InFlight {
    reads: Vec<Reading>,
    /// The tickets that were given out.
    tickets: u64,
    /// The blocks that a round of the cleaner has claimed, and whether each changed since.
    claims: HashMap<u64, bool>,
}

struct Reading {
    ticket: u64,
    blocks: Range<u64>,
    is_stale: bool,
}

/// A read of the disk that was begun.
pub(crate) struct ReadTicket(u64);

impl InFlight {
    /// The disk is about to be read; none of the blocks is cached now.
    pub(crate) fn begin_read(&mut self, blocks: Range<u64>) -> ReadTicket {
        self.tickets += 1;
        self.reads.push(Reading {
            ticket: self.tickets,
            blocks,
            is_stale: false,
        });
        ReadTicket(self.tickets)
    }

    /// The read is over; returns whether what it found is what the blocks hold. Otherwise one of them was
    /// written meanwhile, and perhaps is on its way to the disk or there already.
    pub(crate) fn end_read(&mut self, ticket: ReadTicket) -> bool {
        let place = self.reads.iter().position(|read| read.ticket == ticket.0);
        let read = self.reads.swap_remove(place.expect("a read ends once"));
        !read.is_stale
    }

    /// A round of the cleaner begins. One that the medium ended has left its claims.
    pub(crate) fn begin_round(&mut self) {
        self.claims.clear();
    }

    /// The cleaner has picked a block.
    pub(crate) fn claim(&mut self, block: u64) {
        let before = self.claims.insert(block, false);
        assert_eq!(before, None, "one round at a time claims block {block}");
    }

    /// Whether a claimed block is not as it was then.
    pub(crate) fn has_changed(&self, block: u64) -> bool {
        *self.claims.get(&block).expect("a block that was claimed")
    }

    /// The cleaner is done with a block; returns whether the block is as it was when it was claimed.
    pub(crate) fn release(&mut self, block: u64) -> bool {
        let has_changed = self.claims.remove(&block);
        !has_changed.expect("a block that was claimed is released once")
    }

    /// A block gets other bytes, or another place: called under the mutex under which that is done.
    pub(crate) fn note_change(&mut self, block: u64) {
        for read in &mut self.reads {
            read.is_stale |= read.blocks.contains(&block);
        }
        if let Some(has_changed) = self.claims.get_mut(&block) {
            *has_changed = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_to_those_that_it_concerns() {
        let mut in_flight = InFlight::default();
        let (one, other) = (in_flight.begin_read(3..6), in_flight.begin_read(6..7));
        in_flight.claim(5);
        in_flight.claim(7);
        in_flight.note_change(5);
        in_flight.note_change(8);
        assert!(!in_flight.end_read(one));
        assert!(in_flight.end_read(other));
        assert_eq!(
            [5, 7].map(|block| in_flight.has_changed(block)),
            [true, false]
        );
        assert!(!in_flight.release(5));
        assert!(in_flight.release(7));
        in_flight.claim(5);
        assert!(in_flight.release(5), "a change before the claim is in it");
        in_flight.claim(5);
        in_flight.begin_round();
        in_flight.claim(5);
    }
}
