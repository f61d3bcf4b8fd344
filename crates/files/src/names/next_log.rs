//! New logs: made while the backing is synced, so that they need not tell what it has then.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::sync::MutexGuard;

use super::errors::{NotBegun, damaged, is_no_room, no_room};
use super::log::NextLog;
use super::record::Record;
use super::space::NameSpace;
use super::table::Table;
use super::{Inner, Names, is_change};
use crate::metadata::FileId;
use crate::mutants::{Mutant, mutated};

/// Room that an operation may need in the log: the way to a name that lies deep.
const ROOM_BYTES: u64 = 128 << 10;
/// Attributes that a log tells of for longer than this are made durable in the backing, as file systems do
/// after a while with all that they have.
pub(super) const ATTRIBUTES_AGE_NS: i128 = 30_000_000_000;

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
        Ok(self.try_checkpoint()?)
    }

    /// The same where no caller hears of errors: the old log goes on, and that the backing could not be synced the next sync of
    /// an inode tells.
    pub(crate) fn checkpoint_unheard(&self) {
        if let Err(NotBegun::Unsynced(error)) = self.try_checkpoint() {
            self.tell_later(error);
        }
    }

    fn try_checkpoint(&self) -> Result<(), NotBegun> {
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
        let is_synced = synced.is_ok();
        let switched = match number {
            Some(number) => self.lock().switch_log(number, synced, synced_ns),
            None => synced,
        };
        switched.map_err(|error| match is_synced {
            true => NotBegun::Other(error),
            false => NotBegun::Unsynced(error),
        })
    }

    /// Locks the names when the log has room for an operation. The backing is synced while they are not locked.
    ///
    /// # Errors
    /// The backing's or the pool's; that there is no room even in a new log, before anything is changed.
    pub(super) fn lock_with_room(&self) -> Result<MutexGuard<'_, Inner>, NotBegun> {
        let mut inner = self.lock();
        loop {
            if inner.has_room() {
                return Ok(inner);
            }
            // Another thread's may be in the making: the sync below begins after it was prepared, and will do for it.
            let others = inner.next_log.as_ref().map(|next| next.number);
            let number = others.unwrap_or_else(|| inner.prepare_next_log());
            let held = inner.held.len();
            drop(inner);
            let synced_ns = self.space.now_ns();
            let synced = self.sync_for_trim();
            let is_synced = synced.is_ok();
            inner = self.lock();
            // One with what a log must carry alone: another would have no less. What was recorded since, or left the pool, the
            // next one need not carry.
            let is_least =
                others.is_none() && inner.is_least_next_log(number) && inner.held.len() >= held;
            match inner.switch_log(number, synced, synced_ns) {
                Err(error) if !is_synced => return Err(NotBegun::Unsynced(error)),
                Err(error) if is_least || !is_no_room(&error) => return Err(error.into()),
                Ok(()) if is_least && !inner.has_room() => return Err(no_room().into()),
                Ok(()) | Err(_) => {}
            }
        }
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
    /// Whether the next log is this one, and nothing was recorded since it was prepared.
    fn is_least_next_log(&self, number: u64) -> bool {
        let next = self.next_log.as_ref();
        next.is_some_and(|next| next.number == number && next.records.len() == next.carried)
    }

    fn has_room(&self) -> bool {
        let (used, all) = self.log.fill();
        self.is_over || used + ROOM_BYTES.min(all / 2) <= all
    }

    /// From here on everything is recorded for the next log too, which begins with what is held and
    /// the directories on the way there. Returns which one it is.
    pub(super) fn prepare_next_log(&mut self) -> u64 {
        self.introduced = HashSet::new();
        let mut records = Vec::new();
        for described in self.file_systems.values() {
            records.extend_from_slice(described);
        }
        let held: Vec<FileId> = self.held.iter().copied().collect();
        records.extend(self.carried(&held));
        self.introduced.extend(self.on_the_way(&held));
        self.next_logs += 1;
        let number = self.next_logs;
        let carried = records.len();
        self.next_log = Some(NextLog {
            number,
            records,
            carried,
        });
        number
    }

    /// What tells the next log, which does not know them, of inodes that the current one knows, and of the directories
    /// on the way to them: all their names.
    pub(super) fn carried(&self, ids: &[FileId]) -> Vec<Record> {
        let mut records = Vec::new();
        for id in self.on_the_way(ids) {
            let node = self.table.node(id).expect("what is on the way is known");
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
        }
        records
    }

    /// These inodes, as far as they have names, and the directories on the way to them, without those that the next log
    /// knows.
    pub(super) fn on_the_way(&self, ids: &[FileId]) -> BTreeSet<FileId> {
        let mut needed = BTreeSet::new();
        let mut open = vec![FileId::ROOT];
        open.extend_from_slice(ids);
        while let Some(id) = open.pop() {
            let Some(node) = self.table.node(id) else {
                continue;
            };
            let is_known = self.introduced.contains(&id);
            if is_known || node.names.is_empty() || !needed.insert(id) {
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
        self.begin_next(&next)?;
        let records = next.records;
        self.is_asked = false;
        self.has_changes = records.iter().any(is_change);
        let is_attribute = |record: &Record| matches!(record, Record::Attribute { .. });
        let is_any_newer = records[next.carried..].iter().any(is_attribute);
        self.attributes_since_ns = is_any_newer.then_some(synced_ns);
        let table = &self.table;
        self.loose.retain(|id, _| table.has_attributes(*id));
        self.synced_ns = self.synced_ns.max(synced_ns);
        Ok(())
    }

    /// The next log counts, and the table has what it says: nothing that is recorded from here on may rely on more. It is
    /// read as an open will read it before it counts; one that could not be read must never.
    fn begin_next(&mut self, next: &NextLog) -> io::Result<()> {
        let mut table = Table::replay(&next.records).map_err(|found| damaged(&found))?;
        if !self.log.begin(&next.records)? {
            return Err(no_room());
        }
        for (id, node) in self.table.nodes() {
            table.keep(id, node, self.held.contains(&id));
        }
        self.table = table;
        let is_checked = cfg!(any(test, feature = "mutants"));
        assert!(
            !is_checked || self.is_read_as_known(),
            "a log that was switched to says what the table has"
        );
        Ok(())
    }

    /// Whether the log can be read, and says of all inodes that it tells of what the table says.
    pub(super) fn is_read_as_known(&self) -> bool {
        let records = self.log.read_again();
        let read = records.map(|records| Table::replay(&records));
        match read {
            Ok(Ok(read)) => read.nodes().all(|(id, node)| {
                let known = self.table.node(id);
                known.is_some_and(|known| {
                    known.names == node.names && known.attributes == node.attributes
                })
            }),
            _ => false,
        }
    }
}
