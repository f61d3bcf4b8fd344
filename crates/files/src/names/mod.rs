//! Names that survive: every change of names is recorded in the pool, and recovery brings the backing
//! to what was acknowledged, whatever part of the changes it kept.
//!
//! What removes something is recorded *before* it is done (and taken back if it cannot be), everything
//! else right after; one operation at a time, so that at most one is in flight when the power fails,
//! and that one may have happened or not. An inode is introduced to the log, with the directories on
//! the way to it, before anything happens to it. After a mere kill, in the same mounting of the backing,
//! the names are as programs left them and stay so.

mod file_system;
mod handles;
mod introduce;
mod locate;
mod log;
mod media;
mod operations;
mod pool;
mod proof;
mod real;
mod reconcile;
mod root;
mod search;
mod space;
mod table;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use log::Log;
use media::Record;

use crate::mutants::{Mutant, mutated};

pub(crate) use log::LogArea;
pub(crate) use pool::{RealNames, RealRecovery, checkpoint_in_background};
pub(crate) use proof::hash;
pub use real::KeepDescriptor;
pub(crate) use real::{RealSpace, link_of, mounting_of};
use reconcile::Reconciled;
use space::NameSpace;
pub(crate) use space::Renaming;
use table::Table;

use crate::metadata::FileId;

/// Room that an operation may need in the log: the way to a name that lies deep.
const ROOM_BYTES: u64 = 128 << 10;

/// Draws an id that nothing ever had.
pub(crate) type DrawId = Box<dyn Fn() -> io::Result<FileId> + Send>;

/// The names of a buffer.
pub(crate) struct Names<S> {
    space: S,
    inner: Mutex<Inner>,
}

impl<S> std::fmt::Debug for Names<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Names").finish_non_exhaustive()
    }
}

/// A log that is being made.
struct NextLog {
    /// Which it is: a sync that began before it was prepared does not tell that it may count.
    number: u64,
    records: Vec<Record>,
}

struct Inner {
    log: Log,
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
    /// The log tells of more than what was there before it.
    has_changes: bool,
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
                has_changes: records.iter().any(is_change),
                broken: Some(String::from("names cannot be changed: not recovered yet")),
                is_over: false,
                ask: None,
                is_asked: false,
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
        let mut record = |record: Record| {
            table.check(&record).map_err(|found| refused(&found))?;
            match inner.log.append(&[record])? {
                true => Ok(()),
                false => Err(no_room()),
            }
        };
        reconcile::reconcile(&self.space, &table, with_data, &mut record)
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
        inner.table = Table::default();
        for record in records {
            inner.learn(record)?;
        }
        inner.introduced = HashSet::from([FileId::ROOT]);
        inner.file_systems = BTreeMap::from([(device, file_system)]);
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

    /// Whether the inode was made here since the log began.
    pub(crate) fn has_made(&self, identity: &space::Identity) -> bool {
        let inner = self.lock();
        let node = inner
            .table
            .find(identity)
            .and_then(|id| inner.table.node(id));
        node.is_some_and(|node| node.creation.is_some())
    }

    /// Whether the log is so full that [`Names::checkpoint`] should be called.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        let (used, all) = self.lock().log.fill();
        used > all / 2
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
    fn make_room(&self, inner: &mut Inner) -> io::Result<()> {
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
    fn sync_for_trim(&self) -> io::Result<()> {
        if mutated(Mutant::FilesTrimmedBeforeSync) {
            return Ok(());
        }
        self.space.sync_all()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Records are durable when this returns, and so is what they say.
    fn commit(&mut self, records: Vec<Record>) -> io::Result<()> {
        self.write(&records)?;
        records
            .into_iter()
            .try_for_each(|record| self.learn(record))
    }

    /// Records are durable when this returns; the table does not know of them. Nothing is appended that could not be read
    /// again: the table has what the log says, so what fits the one fits the other.
    fn write(&mut self, records: &[Record]) -> io::Result<()> {
        if records.is_empty() || self.is_over {
            return Ok(());
        }
        if let Some(reason) = &self.broken {
            return Err(io::Error::other(reason.clone()));
        }
        for record in records {
            self.table.check(record).map_err(|found| refused(&found))?;
        }
        let error = match self.log.append(records) {
            Ok(true) => {
                self.has_changes |= records.iter().any(is_change);
                match &mut self.next_log {
                    Some(next) => next.records.extend_from_slice(records),
                    None => self.ask_if_half_full(),
                }
                return Ok(());
            }
            Ok(false) => no_room(),
            Err(error) => error,
        };
        // The backing may be ahead of the log now, so nothing may follow.
        self.broken = Some(format!(
            "names cannot be changed: the pool could not record an earlier change ({error}); \
             recover the pool"
        ));
        Err(error)
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

    fn new_id(&mut self) -> io::Result<FileId> {
        (self.draw)()
    }

    /// An inode without a name that is not held will not be named again.
    fn forget_if_gone(&mut self, id: FileId) {
        let is_gone = |node: &table::Node| node.names.is_empty();
        if self.table.node(id).is_some_and(is_gone) && !self.held.contains(&id) {
            self.table.forget(id);
            self.introduced.remove(&id);
        }
    }

    /// From here on everything is recorded for the next log too, which begins with what is held and
    /// the directories on the way there. Returns which one it is.
    fn prepare_next_log(&mut self) -> u64 {
        self.introduced = HashSet::new();
        let mut records = Vec::new();
        for described in self.file_systems.values() {
            records.extend_from_slice(described);
        }
        let held: Vec<FileId> = self.held.iter().copied().collect();
        let needed = self.on_the_way(&held);
        records.extend(self.carried(&needed));
        self.introduced = needed.into_iter().collect();
        self.next_logs += 1;
        let number = self.next_logs;
        self.next_log = Some(NextLog { number, records });
        number
    }

    /// What tells the next log of inodes that the current one knows: all their names, for any may be taken away next.
    fn carried(&self, ids: &BTreeSet<FileId>) -> Vec<Record> {
        let mut records = Vec::new();
        for &id in ids {
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

    /// These inodes, as far as they have names, and the directories on the way to them, without those that are
    /// introduced.
    fn on_the_way(&self, ids: &[FileId]) -> BTreeSet<FileId> {
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
    fn switch_log(
        &mut self,
        number: u64,
        synced: io::Result<()>,
        synced_ns: i128,
    ) -> io::Result<()> {
        let is_it = |next: &mut NextLog| next.number == number;
        let Some(NextLog { records, .. }) = self.next_log.take_if(is_it) else {
            // An operation that found no room has switched meanwhile, and another log may be in the making, which this sync
            // is too old for.
            return synced;
        };
        synced?;
        // One that could not be read must never count.
        Table::replay(&records).map_err(|found| refused(&found))?;
        if !self.log.begin(&records)? {
            return Err(no_room());
        }
        self.is_asked = false;
        self.has_changes = records.iter().any(is_change);
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

/// Whether the backing may be without what the record says.
fn is_change(record: &Record) -> bool {
    !matches!(
        record,
        Record::Introduce { .. } | Record::Mounted { .. } | Record::FileSystem { .. }
    )
}

fn no_room() -> io::Error {
    io::Error::new(
        io::ErrorKind::StorageFull,
        "the namespace log is too small for what is buffered; make the pool larger",
    )
}

fn refused(found: &str) -> io::Error {
    let text = format!(
        "names cannot be changed like this: the namespace log would contradict itself ({found}); nothing was recorded: \
         sync the file system, recover the pool, and report this"
    );
    io::Error::other(text)
}

fn damaged(found: &str) -> io::Error {
    let text = format!(
        "the namespace log contradicts itself: {found}; the medium lost data: check the pool with \
         `forebay check`"
    );
    io::Error::new(io::ErrorKind::InvalidData, text)
}
