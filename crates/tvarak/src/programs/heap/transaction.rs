//! Transactions: what is changed is in the log before.
//!
//! The order, by which a stop at any store leaves what recovery can roll back: an entry is whole in the log before
//! `LOG_END` takes it in; `LOG_END` takes it in before what it is of is changed; and `LOG_END` becomes nought,
//! which commits, after all changes. Stores reach the persistent caches in this order on x86.

use std::ops::Range;

use crate::programs::heap::Heap;
use crate::programs::heap::format::{
    CLASSES_AT, ENTRY_HEADER_BYTES, LOG_AT, LOG_BYTES, LOG_END_AT, OBJECT_HEADER_BYTES, STATE_AT,
    STATE_NONE, STATE_STARTED,
};
use crate::programs::memory::{Change, Halt, MOVE_BYTES, Memory};

impl Heap {
    /// Begins a transaction.
    ///
    /// # Errors
    /// The header is lost, or power failed.
    ///
    /// # Panics
    /// If one runs.
    pub fn begin(&mut self, memory: &mut impl Memory) -> Result<(), Halt> {
        self.start(true);
        // Of the three stores of an empty transaction, here and at its end.
        memory.work(self.costs.transaction.without(3));
        memory.set(STATE_AT, STATE_STARTED)?;
        self.changes
            .push(header_change(STATE_AT, LOG_END_AT + 8 - STATE_AT, None));
        Ok(())
    }

    /// Begins a transaction of a program that has a log of its own: nothing is kept, and nothing rolled back. Each list of
    /// free objects is right at every store; what was allocated and is not linked yet is lost to all when power fails.
    ///
    /// # Panics
    /// If one runs.
    pub fn begin_unlogged(&mut self) {
        self.start(false);
    }

    fn start(&mut self, is_logged: bool) {
        assert!(!self.is_running, "transactions do not nest");
        self.is_running = true;
        self.is_logged = is_logged;
        self.log_end = 0;
        self.has_snapshot = false;
        self.changes.clear();
        self.freed.clear();
    }

    /// Ends the transaction: all of it is there from now on, whatever happens.
    ///
    /// # Errors
    /// Something that it changes is lost, or power failed.
    pub fn commit(&mut self, memory: &mut impl Memory) -> Result<(), Halt> {
        assert!(self.is_running, "no transaction runs");
        for object in std::mem::take(&mut self.freed) {
            self.put_on_free_list(memory, object)?;
        }
        if self.log_end != 0 {
            // Here the transaction commits.
            memory.set(LOG_END_AT, 0)?;
            let log = LOG_AT..LOG_AT + self.log_end;
            self.changes.push(Change {
                object: log.clone(),
                changed: log,
                before: None,
            });
        }
        if self.is_logged {
            memory.set(STATE_AT, STATE_NONE)?;
        }
        self.is_running = false;
        memory.end_transaction(&self.changes)
    }

    /// Keeps what a part of an object holds, which may be changed then. The object is one that this transaction did not
    /// allocate, or it costs nothing.
    ///
    /// # Errors
    /// The log is full, what is kept is lost, or power failed.
    pub fn snapshot(
        &mut self,
        memory: &mut impl Memory,
        object: u64,
        part: Range<u64>,
    ) -> Result<(), Halt> {
        if self.is_covered(&(object + part.start..object + part.end)) {
            return Ok(());
        }
        let all_bytes = memory.word(object - OBJECT_HEADER_BYTES)?;
        let first = object - OBJECT_HEADER_BYTES;
        let change = Change {
            object: first..first + all_bytes,
            changed: object + part.start..object + part.end,
            before: Some(0),
        };
        self.keep(memory, change)
    }

    /// Keeps a part of the heap's own header, by the program.
    pub(in crate::programs::heap) fn snapshot_header(
        &mut self,
        memory: &mut impl Memory,
        address: u64,
        bytes: u64,
    ) -> Result<(), Halt> {
        if self.is_covered(&(address..address + bytes)) {
            return Ok(());
        }
        self.keep(memory, header_change(address, bytes, Some(0)))
    }

    fn is_covered(&self, part: &Range<u64>) -> bool {
        assert!(self.is_running, "what changes belongs to a transaction");
        let covers =
            |change: &Change| change.changed.start <= part.start && part.end <= change.changed.end;
        self.changes.iter().any(covers)
    }

    /// Keeps what the program is to change: what that takes was counted as such.
    fn keep(&mut self, memory: &mut impl Memory, change: Change) -> Result<(), Halt> {
        if !self.is_logged {
            return self.log(memory, change);
        }
        let moves = (change.changed.end - change.changed.start).div_ceil(MOVE_BYTES);
        let mut work = self
            .costs
            .snapshot
            .and(self.costs.snapshot_move.times(moves));
        if !self.has_snapshot {
            work = work.and(self.costs.first_snapshot);
        }
        self.has_snapshot = true;
        memory.work(work.without(3 + 2 * moves));
        self.log(memory, change)
    }

    /// Keeps what an allocation or a free is to change: what that takes was counted with it.
    pub(in crate::programs::heap) fn log_header(
        &mut self,
        memory: &mut impl Memory,
        address: u64,
        bytes: u64,
    ) -> Result<(), Halt> {
        if self.is_covered(&(address..address + bytes)) {
            return Ok(());
        }
        self.log(memory, header_change(address, bytes, Some(0)))
    }

    /// Keeps the link of a free object, or what is to become one, likewise.
    pub(in crate::programs::heap) fn log_link(
        &mut self,
        memory: &mut impl Memory,
        object: Range<u64>,
    ) -> Result<(), Halt> {
        let link = object.start + OBJECT_HEADER_BYTES;
        if self.is_covered(&(link..link + 8)) {
            return Ok(());
        }
        let change = Change {
            object,
            changed: link..link + 8,
            before: Some(0),
        };
        self.log(memory, change)
    }

    fn log(&mut self, memory: &mut impl Memory, mut change: Change) -> Result<(), Halt> {
        if !self.is_logged {
            change.before = None;
            self.changes.push(change);
            return Ok(());
        }
        let bytes = change.changed.end - change.changed.start;
        let entry = LOG_AT + self.log_end;
        let end = self.log_end + ENTRY_HEADER_BYTES + bytes;
        if end > LOG_BYTES {
            let log_bytes = LOG_BYTES;
            return Err(Halt::LogFull { log_bytes });
        }
        let mut old = [0; 8];
        memory.store_all(entry, &[change.changed.start, bytes])?;
        let words = bytes / 8;
        for at in (0..words).step_by(old.len()) {
            let part = &mut old[..(words - at).min(8) as usize];
            memory.load_all(change.changed.start + at * 8, part)?;
            memory.store_all(entry + ENTRY_HEADER_BYTES + at * 8, part)?;
        }
        memory.set(LOG_END_AT, end)?;
        change.before = Some(entry + ENTRY_HEADER_BYTES);
        self.log_end = end;
        self.changes.push(change);
        Ok(())
    }

    /// Notes an object that this transaction allocated: no part of it needs a snapshot.
    pub(in crate::programs::heap) fn note_new(&mut self, object: Range<u64>) {
        self.changes.push(Change {
            changed: object.clone(),
            object,
            before: None,
        });
    }

    /// Notes an object that this transaction frees.
    pub(in crate::programs::heap) fn note_freed(&mut self, object: u64) {
        assert!(self.is_running, "what is freed belongs to a transaction");
        assert!(!self.freed.contains(&object), "an object is freed once");
        self.freed.push(object);
    }
}

/// A change of the header: each of its parts stands for an object, the first line, the second, and the classes.
fn header_change(address: u64, bytes: u64, before: Option<u64>) -> Change {
    let object = match address {
        CLASSES_AT.. => address / 64 * 64..address / 64 * 64 + 64,
        STATE_AT.. => STATE_AT..CLASSES_AT,
        _ => 0..STATE_AT,
    };
    Change {
        object,
        changed: address..address + bytes,
        before,
    }
}
