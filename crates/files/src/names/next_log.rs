//! New logs: made while the backing is synced, so that they need not tell what it has then.

use std::collections::BTreeSet;
use std::io;

use super::media::Record;
use super::space::NameSpace;
use super::{Inner, Names, is_change, no_room};
use crate::metadata::FileId;
use crate::mutants::{Mutant, mutated};

/// Room that an operation may need in the log: the way to a name that lies deep.
const ROOM_BYTES: u64 = 128 << 10;
/// Attributes that a log tells of for longer than this are made durable in the backing, as file systems do
/// after a while with all that they have.
pub(super) const ATTRIBUTES_AGE_NS: i128 = 30_000_000_000;

/// A log that is being made.
pub(super) struct NextLog {
    /// Which it is: a sync that began before it was prepared does not tell that it may count.
    number: u64,
    pub(super) records: Vec<Record>,
    /// So many of them were there from the beginning.
    carried: usize,
}

impl<S: NameSpace> Names<S> {
    /// Whether the log is so full that [`Names::checkpoint`] should be called.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        let (used, all) = self.lock().log.fill();
        used > all / 2
    }

    /// Whether it should because the log has told of attributes for long.
    pub(crate) fn has_aged(&self) -> bool {
        let since_ns = self.lock().attributes_since_ns;
        since_ns.is_some_and(|since_ns| self.space.now_ns() - since_ns > ATTRIBUTES_AGE_NS)
    }

    /// Begins a new log that knows only the inodes held. The backing is synced meanwhile, and
    /// names go on changing. Where another thread is at that, the backing is synced alone: that thread's sync may have begun
    /// before what this caller relies on.
    ///
    /// # Errors
    /// The backing's or the pool's; the old log goes on then.
    pub(crate) fn checkpoint(&self) -> io::Result<()> {
        let number = {
            let mut inner = self.lock();
            if inner.is_over {
                return Ok(());
            }
            let is_free = inner.next_log.is_none();
            is_free.then(|| inner.prepare_next_log())
        };
        let synced_ns = self.space.now_ns();
        let synced = self.sync_for_trim();
        match number {
            Some(number) => self.lock().switch_log(number, synced, synced_ns),
            None => synced,
        }
    }

    /// The same, while no thread may change names: the log has no room.
    pub(super) fn make_room(&self, inner: &mut Inner) -> io::Result<()> {
        let (used, all) = inner.log.fill();
        if used + ROOM_BYTES.min(all / 2) <= all {
            return Ok(());
        }
        // The sync below begins after either was prepared.
        let number = match &inner.next_log {
            Some(next) => next.number,
            None => inner.prepare_next_log(),
        };
        let synced_ns = self.space.now_ns();
        let synced = self.sync_for_trim();
        inner.switch_log(number, synced, synced_ns)
    }

    /// A log that does not count any more must not be needed: all that it tells is in the backing.
    pub(super) fn sync_for_trim(&self) -> io::Result<()> {
        if mutated(Mutant::FilesTrimmedBeforeSync) {
            return Ok(());
        }
        self.space.sync_all()
    }
}

impl Inner {
    /// From here on everything is recorded for the next log too, which begins with what is held and
    /// the directories on the way there. Returns which one it is.
    pub(super) fn prepare_next_log(&mut self) -> u64 {
        let needed = self.needed();
        let mut records = Vec::new();
        for described in self.file_systems.values() {
            records.extend_from_slice(described);
        }
        for &id in &needed {
            let node = self.table.node(id).expect("what is needed is known");
            // A parent's id may be greater than its child's: the replay does not mind.
            let mut places = node.names.iter();
            let Some(first) = places.next() else { continue };
            records.push(Record::Introduce {
                id,
                mode: node.mode,
                identity: node.identity(),
                place: first.clone(),
            });
            for place in places {
                let place = place.clone();
                records.push(Record::Link { id, place });
            }
            let time = self.time_that_lasts(id);
            records.extend(time.map(|outcome| Record::Attribute { id, outcome }));
        }
        self.next_logs += 1;
        let number = self.next_logs;
        let carried = records.len();
        self.next_log = Some(NextLog {
            number,
            records,
            carried,
        });
        self.introduced = needed.into_iter().collect();
        number
    }

    fn needed(&self) -> BTreeSet<FileId> {
        let mut needed = BTreeSet::from([FileId::ROOT]);
        let mut open: Vec<FileId> = self.held.iter().copied().collect();
        while let Some(id) = open.pop() {
            let Some(node) = self.table.node(id) else {
                continue;
            };
            if node.names.is_empty() || !needed.insert(id) {
                continue;
            }
            open.extend(node.names.iter().map(|place| place.parent));
        }
        needed
    }

    /// The backing has been synced, or not, since the next log was prepared.
    pub(super) fn switch_log(
        &mut self,
        number: u64,
        synced: io::Result<()>,
        synced_ns: i128,
    ) -> io::Result<()> {
        let is_it = |next: &mut NextLog| next.number == number;
        let Some(next) = self.next_log.take_if(is_it) else {
            // An operation that found no room has switched meanwhile, and another log may be in the making, which this sync
            // is too old for.
            return synced;
        };
        synced?;
        let records = next.records;
        if !self.log.begin(&records)? {
            return Err(no_room());
        }
        self.is_asked = false;
        self.has_changes = records.iter().any(is_change);
        let is_attribute = |record: &Record| matches!(record, Record::Attribute { .. });
        let is_any_newer = records[next.carried..].iter().any(is_attribute);
        self.attributes_since_ns = is_any_newer.then_some(synced_ns);
        self.table.forget_attributes_but(&records);
        let table = &self.table;
        self.unrecorded.retain(|id| table.has_attributes(id));
        self.synced_ns = self.synced_ns.max(synced_ns);
        let forgotten: Vec<FileId> = self
            .table
            .nodes()
            .map(|(id, _)| id)
            .filter(|id| !self.introduced.contains(id) && !self.held.contains(id))
            .collect();
        forgotten.into_iter().for_each(|id| self.table.forget(id));
        Ok(())
    }
}
