//! Names that survive: every change of names is recorded in the pool, and recovery brings the backing
//! to what was acknowledged, whatever part of the changes it kept.
//!
//! What removes something is recorded *before* it is done, durably with all records before it (and taken back if it cannot be),
//! everything else right after; one operation at a time. Over a pool on an SSD names that were added wait for a sync, or for the next
//! removal: a power cut leaves a prefix of the records, and whatever the backing kept beyond it is names that were added, of which
//! the log says nothing. Else at most one operation is in flight when the power fails, and that one may have happened or not. An inode is introduced to the log, with the directories on
//! the way to it, before anything happens to it. Attributes are recorded as they are after a change. After a mere kill, in
//! the same mounting of the backing, names and attributes are as programs left them and stay so.

mod attributes;
mod change;
mod changing;
mod errors;
mod file_system;
mod handles;
mod introduce;
mod judge;
mod locate;
mod log;
mod media;
mod next_log;
mod operations;
mod pool;
mod proof;
mod real;
mod real_attributes;
mod reconcile;
mod record;
mod recovery_log;
mod restore;
mod restrict;
mod root;
mod search;
mod seen;
mod space;
mod subjects;
mod table;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use changing::Changing;
use errors::{damaged, no_room, refused};
use log::{Log, NextLog};
use record::Record;

use crate::mutants::{Mutant, mutated};

pub use attributes::AttributeChange;
pub(crate) use log::LogArea;
pub(crate) use pool::{RealNames, RealRecovery, checkpoint_in_background};
pub(crate) use proof::hash;
pub use real::KeepDescriptor;
pub(crate) use real::{RealSpace, link_of, mounting_of};
use reconcile::Reconciled;
use recovery_log::{Attempt, RecoveryLog};
use space::NameSpace;
pub(crate) use space::Renaming;
use table::Table;

use crate::metadata::{Durable, FileId};

/// Draws an id that nothing ever had.
pub(crate) type DrawId = Box<dyn Fn() -> io::Result<FileId> + Send>;

/// The names of a buffer.
pub(crate) struct Names<S> {
    space: S,
    inner: Mutex<Inner>,
    /// Changes of attributes.
    changing: Changing,
    /// That the backing could not be synced, where no caller heard of it.
    untold: Mutex<Option<io::Error>>,
}

impl<S> std::fmt::Debug for Names<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Names").finish_non_exhaustive()
    }
}

struct Inner {
    log: Log,
    /// Whether the log says that this recovery is at work.
    attempt: Attempt,
    table: Table,
    /// Inodes that the current log knows, and the next one too where that is being made.
    introduced: HashSet<FileId>,
    /// What the current log says of the file systems that it tells of, by device.
    file_systems: BTreeMap<u64, Vec<Record>>,
    /// Inodes that must be found after a crash: the pool has data of them.
    held: BTreeSet<FileId>,
    draw: DrawId,
    /// What the next log begins with, while the backing is synced for it.
    next_log: Option<NextLog>,
    /// Next logs so far.
    next_logs: u64,
    /// What was made before this moment is durable in the backing.
    synced_ns: i128,
    /// The same without any sync of ours, of every file system.
    durable_before_ns: i128,
    /// Directories that were synced alone since the whole backing was.
    directories_synced: u32,
    /// The log tells of more than what was there before it.
    has_changes: bool,
    /// Inodes of whose attributes the log may tell what was before a change that it does not tell of.
    loose: BTreeMap<FileId, u64>,
    /// How often an inode became loose: each time has its number.
    loosenings: u64,
    /// When the first attribute was recorded that the log tells of.
    attributes_since_ns: Option<i128>,
    /// Why nothing can be recorded any more.
    broken: Option<String>,
    /// Nothing has to be recorded any more: the pool is closed.
    is_over: bool,
    /// Tells the checkpointing thread that it is time for a new log.
    ask: Option<SyncSender<()>>,
    /// It was told.
    is_asked: bool,
}

impl<S: NameSpace> Names<S> {
    /// Names as the log in `area` tells; ids are drawn with `draw`. They may change after
    /// [`Names::recover`] and [`Names::begin`].
    ///
    /// # Errors
    /// The log is damaged; the pool's.
    pub(crate) fn open(area: Arc<dyn LogArea>, space: S, draw: DrawId) -> io::Result<Names<S>> {
        let (log, records) = Log::open(area)?;
        let table = Table::replay(&records).map_err(|found| damaged(&found))?;
        Ok(Names {
            space,
            changing: Changing::new(),
            untold: Mutex::new(None),
            inner: Mutex::new(Inner {
                log,
                table,
                introduced: HashSet::new(),
                file_systems: BTreeMap::new(),
                held: BTreeSet::new(),
                draw,
                next_log: None,
                next_logs: 0,
                synced_ns: i128::MIN,
                durable_before_ns: i128::MIN,
                directories_synced: 0,
                has_changes: records.iter().any(is_change),
                loose: BTreeMap::new(),
                loosenings: 0,
                attributes_since_ns: None,
                broken: Some(String::from("names cannot be changed: not recovered yet")),
                is_over: false,
                ask: None,
                is_asked: false,
                attempt: Attempt::NotBegun,
            }),
        })
    }

    /// Brings the backing's names to what the log says, and finds the inodes `with_data`. The log still
    /// counts: when what relies on it is saved, [`Names::begin`] is called.
    ///
    /// # Errors
    /// The log is of another directory; the backing's or the pool's.
    pub(crate) fn recover(&self, with_data: &HashSet<FileId>) -> io::Result<Reconciled<S>> {
        let mut inner = self.lock();
        let table = inner.table.clone();
        reconcile::reconcile(&self.space, &table, with_data, &mut inner.recovery_log())
    }

    /// What recovery made anew, in this try or one that was cut short, is durable when this returns.
    ///
    /// # Errors
    /// The backing's.
    pub(crate) fn keep_made(&self) -> io::Result<()> {
        let has_changes = self.lock().has_changes;
        match has_changes {
            true => self.space.sync_all(),
            false => Ok(()),
        }
    }

    /// Makes the backing durable and begins an empty log: nothing recovered is needed any more.
    ///
    /// # Errors
    /// The backing's or the pool's.
    pub(crate) fn begin(&self) -> io::Result<()> {
        let seen = self.space.seen(&self.space.root())?;
        let now_ns = self.space.now_ns();
        let durable_before_ns = self.space.durable_before_ns();
        let (has_changes, synced_ns) = {
            let inner = self.lock();
            (inner.has_changes, inner.synced_ns.max(durable_before_ns))
        };
        if has_changes {
            self.sync_for_trim()?;
        } else if seen.made_ns >= synced_ns {
            // A root that was made just now: what is promised of its files is promised of it.
            self.space.sync_inode(&self.space.root())?;
        }
        let mut inner = self.lock();
        let device = seen.identity.device;
        let file_system = self.describe(&self.space.root(), device)?;
        let mut records = vec![root::root_record(&seen)];
        records.extend_from_slice(&file_system);
        if !inner.log.begin(&records)? {
            return Err(no_room());
        }
        inner.broken = None;
        inner.has_changes = false;
        inner.loose = BTreeMap::new();
        inner.attributes_since_ns = None;
        inner.table = Table::default();
        for record in records {
            inner.learn(record)?;
        }
        inner.introduced = HashSet::from([FileId::ROOT]);
        inner.file_systems = BTreeMap::from([(device, file_system)]);
        inner.durable_before_ns = durable_before_ns;
        inner.synced_ns = match has_changes {
            true => now_ns,
            false => synced_ns,
        };
        Ok(())
    }

    /// Begins an empty log and records nothing any more: the files have all that was acknowledged, and
    /// what happens to the directory from now on is not ours to undo.
    ///
    /// # Errors
    /// The backing's or the pool's; the log still counts then.
    pub(crate) fn end(&self) -> io::Result<()> {
        // First: what is done from here on is not recorded, so it is nothing that the new log lacks.
        self.lock().is_over = true;
        let ended = self.begin();
        self.lock().is_over = ended.is_ok();
        ended
    }

    /// Whether nothing is recorded any more.
    pub(crate) fn is_over(&self) -> bool {
        self.lock().is_over
    }

    /// `ask` is sent something when [`Names::checkpoint`] is to be called; when the names are gone it is
    /// dropped.
    pub(crate) fn ask_for_checkpoints(&self, ask: SyncSender<()>) {
        self.lock().ask = Some(ask);
    }

    /// The inode need not be found any more: its data is in the backing, or forgotten.
    pub(crate) fn release(&self, id: FileId) {
        let mut inner = self.lock();
        inner.held.remove(&id);
        inner.forget_if_gone(id);
    }

    /// Whether the log says that the inode has no name any more, which is durable: removals are when they are recorded.
    pub(crate) fn is_removed(&self, id: FileId) -> bool {
        let inner = self.lock();
        let is_gone = |node: &table::Node| node.names.is_empty() && !node.displaced;
        inner.table.node(id).is_none_or(is_gone)
    }

    /// Whether the inode was made here since the log began.
    pub(crate) fn has_made(&self, identity: &space::Identity) -> bool {
        let inner = self.lock();
        let node = inner
            .table
            .find(identity)
            .and_then(|id| inner.table.node(id));
        node.is_some_and(|node| node.creation.is_some())
    }

    /// The backing could not be synced, and no caller hears of it now: the next sync of an inode tells it.
    fn tell_later(&self, error: io::Error) {
        let mut untold = self.untold.lock().unwrap_or_else(PoisonError::into_inner);
        untold.get_or_insert(error);
    }

    /// What [`Names::tell_later`] was told, once.
    fn tell(&self) -> io::Result<()> {
        let mut untold = self.untold.lock().unwrap_or_else(PoisonError::into_inner);
        untold.take().map_or(Ok(()), Err)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Records names that were added: a sync makes them durable.
    fn commit(&mut self, records: Vec<Record>) -> io::Result<()> {
        self.write(&records, Durable::AfterSync)?;
        records
            .into_iter()
            .try_for_each(|record| self.learn(record))
    }

    /// The same of what no change of the backing is waiting for: where it cannot be recorded, all else goes on.
    fn tell(&mut self, records: Vec<Record>, durable: Durable) -> io::Result<()> {
        self.append(&records, durable)?;
        records
            .into_iter()
            .try_for_each(|record| self.learn(record))
    }

    /// Records, of which the table does not know. Nothing is appended that could not be read
    /// again: the table has what the log says, so what fits the one fits the other.
    fn write(&mut self, records: &[Record], durable: Durable) -> io::Result<()> {
        let error = match self.append(records, durable) {
            Err(error) if self.broken.is_none() => error,
            appended => return appended,
        };
        // The backing may be ahead of the log now, so nothing may follow.
        self.broken = Some(format!(
            "names cannot be changed: the pool could not record an earlier change ({error}); \
             recover the pool"
        ));
        Err(error)
    }

    fn append(&mut self, records: &[Record], durable: Durable) -> io::Result<()> {
        if records.is_empty() || self.is_over {
            return Ok(());
        }
        self.check()?;
        self.table
            .check_all(records)
            .map_err(|found| refused(&found))?;
        let is_for_next = self.is_for_next_log(records);
        let durable = match records.iter().any(|record| self.table.frees_place(record)) {
            true => Durable::AtOnce,
            false => durable,
        };
        if !self.log.append(records, durable)? {
            return Err(no_room());
        }
        self.has_changes |= records.iter().any(is_change);
        match &mut self.next_log {
            Some(next) if is_for_next => next.records.extend_from_slice(records),
            Some(_) => {}
            None => self.ask_if_half_full(),
        }
        Ok(())
    }

    /// Whether the next log gets the records: it may name no inode that nothing introduces there, or no open could read it.
    /// That attributes are settled which it does not tell of need not be said there; of anything else the inodes are known.
    /// Were they not, that log is given up: this one goes on until another is made.
    fn is_for_next_log(&mut self, records: &[Record]) -> bool {
        let is_introduced = |id: &FileId| {
            let by_these = |record: &Record| match record {
                Record::Introduce { id: other, .. } | Record::Create { id: other, .. } => {
                    other == id
                }
                _ => false,
            };
            self.introduced.contains(id) || records.iter().any(by_these)
        };
        // In a directory that has no name any more the log has what others took out of it. Nothing is looked for there.
        let is_gone = |id: &FileId| {
            let node = self.table.node(*id);
            node.is_none_or(|node| node.names.is_empty())
        };
        let is_complete = records.iter().all(|record| {
            let mut directories = record.directories().into_iter().flatten();
            record.subject().is_none_or(|id| is_introduced(&id))
                && directories.all(|id| is_introduced(&id) || is_gone(&id))
        });
        let settles = matches!(records.first(), Some(Record::Settled { .. }));
        let is_missed = !is_complete && !settles && !mutated(Mutant::FilesNotIntroduced);
        let is_checked = cfg!(any(test, feature = "mutants"));
        assert!(!is_missed || !is_checked, "it lacks an inode: {records:?}");
        if is_missed {
            self.next_log = None;
        }
        is_complete || mutated(Mutant::FilesSettledUnintroduced)
    }

    fn ask_if_half_full(&mut self) {
        let (used, all) = self.log.fill();
        if let Some(ask) = &self.ask
            && used > all / 2
            && !self.is_asked
        {
            // A full channel will do: that thread was told and is not done yet.
            let _ = ask.try_send(());
            self.is_asked = true;
        }
    }

    fn learn(&mut self, record: Record) -> io::Result<()> {
        self.table.apply(&record).map_err(|found| damaged(&found))
    }

    fn recovery_log(&mut self) -> RecoveryLog<'_> {
        RecoveryLog {
            log: &mut self.log,
            attempt: &mut self.attempt,
        }
    }

    /// Attributes of the inode of this number were changed past the log.
    fn loosen(&mut self, number: (u64, u64)) {
        let id = self.table.numbered(number);
        if let Some(id) = id.filter(|id| self.table.has_attributes(*id)) {
            self.loosenings += 1;
            // One that is loose stays what it is: nothing was recorded of it since.
            self.loose.entry(id).or_insert(self.loosenings);
        }
    }

    fn new_id(&mut self) -> io::Result<FileId> {
        (self.draw)()
    }

    /// An inode without a name that is not held will not be named again. If the log tells of attributes of
    /// it, it may have names that the log does not know, and what is recorded next is of the same inode.
    fn forget_if_gone(&mut self, id: FileId) {
        let is_gone = |node: &table::Node| node.names.is_empty() && node.attributes.is_empty();
        if self.table.node(id).is_some_and(is_gone) && !self.held.contains(&id) {
            self.table.forget(id);
            self.introduced.remove(&id);
        }
    }
}

/// Whether the backing may be without what the record says.
fn is_change(record: &Record) -> bool {
    let is_attribute = matches!(record, Record::Attribute { .. });
    if is_attribute && mutated(Mutant::FilesAttributesRetiredEarly) {
        return false;
    }
    !matches!(
        record,
        Record::Introduce { .. }
            | Record::Mounted { .. }
            | Record::FileSystem { .. }
            | Record::Settled { .. }
            | Record::Others { .. }
            | Record::Recovering { .. }
    )
}
