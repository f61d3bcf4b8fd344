//! The engine: commits, checkpoints, fills and evictions, and what it takes to read a cached block.
//!
//! It changes the medium by the protocol of `docs/inside/protocol.md` and knows of no backing: what has
//! to come from one, or go to one, the layers above bring and fetch. A failed fence poisons it: nothing can
//! be promised any more, so every later change is refused. It waits for no slot and no entry: it says what
//! is missing (`Need`). If the log is full it takes a checkpoint itself, before it locks a stripe.

pub(crate) mod change;
pub(crate) mod checkpoint;
pub(crate) mod commit;
pub(crate) mod content;
mod drill;
mod evict;
pub(crate) mod fill;
pub(crate) mod plan;
mod read;
mod rebuild;
mod repair;
mod retire;
mod rows;
mod scrub;
mod space;
mod start;
mod suspects;
pub(crate) mod wakeup;
mod walk;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::backing::BackingIdentity;
use crate::error::{Error, ErrorKind, Result};
use crate::log::Log;
use crate::media::Media;
use crate::media::entry::Key;
use crate::media::layout::ScrubMark;
use crate::media::salt::Salt;
use crate::media::seals::Round;
use crate::media::volumes::{self, Standing};
use crate::mutants::{Mutant, mutated};
use crate::options::VerifyPolicy;
use crate::policy::replace::Switchable;
use crate::sync::{AtomicBool, AtomicU8, Ordering};
use crate::table::Table;
use crate::table::slots::SlotCache;
use crate::tallies::Tallies;
use checkpoint::CheckpointState;
use content::Content;
use suspects::Suspects;
use wakeup::Wakeup;

pub(crate) use drill::DrillBegun;
pub use drill::{Drill, DrillKind, DrillStrike};
pub(crate) use evict::EVICT_BATCH_MAX;
pub use rebuild::{RebuildProgress, RebuildWatcher};
pub use scrub::ScrubReport;

/// What a change lacks, so that it could not be made. The caller holds nothing then, and waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// So many slots.
    Slots(u64),
    /// An entry of the table.
    Entry,
}

/// What a pool that is laid out anew goes on from.
pub(crate) struct Ended {
    pub(crate) media: Media,
    pub(crate) salt: Salt,
    pub(crate) incarnation: u64,
    pub(crate) strict: bool,
    /// The last that was drawn.
    pub(crate) sequence: u64,
    pub(crate) next_checkpoint_line: usize,
    /// The last of lines of the table.
    pub(crate) round: Round,
}

/// See the module.
pub(crate) struct Engine {
    table: Table,
    log: Log,
    content: Content,
    replacement: Switchable,
    checkpoint: Mutex<CheckpointState>,
    /// Held while a member of a mirror is rebuilt.
    rebuilding: Mutex<()>,
    scrub: Mutex<ScrubMark>,
    free_low_per_mille: u32,
    verify: AtomicU8,
    /// A fence failed, a thread panicked in a commit, or the pool was closed.
    poisoned: AtomicBool,
    /// The fence of a volume's line failed.
    line_failed: AtomicBool,
    /// The pool was closed while callers held volumes; it is poisoned soon after.
    closed: AtomicBool,
    tallies: Tallies,
    suspects: Suspects,
    /// What background threads and writers that wait are told.
    wakeup: Wakeup,
}

impl Engine {
    #[inline]
    pub(crate) fn table(&self) -> &Table {
        &self.table
    }
    #[inline]
    pub(crate) fn media(&self) -> &Media {
        self.table.media()
    }
    #[inline]
    pub(crate) fn log(&self) -> &Log {
        &self.log
    }
    #[inline]
    pub(crate) fn content(&self) -> &Content {
        &self.content
    }
    #[inline]
    pub(crate) fn replacement(&self) -> &Switchable {
        &self.replacement
    }
    #[inline]
    pub(crate) fn tallies(&self) -> &Tallies {
        &self.tallies
    }
    #[inline]
    pub(crate) fn wakeup(&self) -> &Wakeup {
        &self.wakeup
    }
    pub(crate) fn path(&self) -> PathBuf {
        self.media().path()
    }
    #[inline]
    pub(crate) fn block_bytes(&self) -> usize {
        self.media().block_bytes()
    }

    /// Whether reads compare blocks with their checks.
    #[inline]
    pub(crate) fn verifies(&self) -> bool {
        let policy = self.verify.load(Ordering::Relaxed);
        policy == VerifyPolicy::Always as u8
            || policy == VerifyPolicy::Sampled as u8 && self.tallies.mine().is_read_sampled()
            || self.media().must_verify()
    }
    pub(crate) fn verify_policy(&self) -> VerifyPolicy {
        let policies = [
            VerifyPolicy::Never,
            VerifyPolicy::Sampled,
            VerifyPolicy::Scrub,
        ];
        let now = self.verify.load(Ordering::Relaxed);
        let found = policies.into_iter().find(|policy| *policy as u8 == now);
        found.unwrap_or(VerifyPolicy::Always)
    }
    pub(crate) fn set_verify(&self, policy: VerifyPolicy) {
        self.verify.store(policy as u8, Ordering::Relaxed);
    }
    /// Whether changes are refused for good.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::Relaxed)
    }

    /// Refuses changes for good.
    #[cold]
    fn poison(&self) {
        self.poisoned.store(true, Ordering::Relaxed);
    }

    /// Fails once a fence has failed: nothing can be promised any more.
    #[inline]
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.poisoned.load(Ordering::Relaxed) {
            return Err(self.refusal());
        }
        Ok(())
    }

    #[cold]
    fn refusal(&self) -> Error {
        let poisoned = |()| ErrorKind::Poisoned { path: self.path() }.into();
        self.check_open().map_or_else(|closed| closed, poisoned)
    }

    /// Fails once the pool was closed.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(ErrorKind::Closed { path: self.path() }.into());
        }
        Ok(())
    }

    /// Takes the medium back from an engine whose table is empty and checkpointed.
    pub(crate) fn end(self) -> Ended {
        let checkpoint = self
            .checkpoint
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        Ended {
            salt: self.log.salt(),
            incarnation: self.log.incarnation(),
            strict: self.log.is_strict(),
            sequence: self.log.lanes().last_sequence(),
            next_checkpoint_line: checkpoint.next_line,
            round: checkpoint.round,
            media: self.table.into_media(),
        }
    }

    /// Checkpoints since the engine was started.
    pub(crate) fn checkpoints(&self) -> u64 {
        forebay_pmem::lock_or_yield(&self.checkpoint).count
    }

    /// Refuses what callers that still hold a volume ask from now on. When this returns no block is being
    /// brought in or written, as when a volume is detached.
    pub(crate) fn begin_close(&self) {
        self.closed.store(true, Ordering::Release);
        self.table.live().clear();
        self.table.index().wait_for_holders();
    }

    /// Nor does anything leave from now on. A thread that has a lock now may still evict, before it releases
    /// the lock; when this returns it has.
    pub(crate) fn end_changes(&self) {
        self.poisoned.store(true, Ordering::Release);
        self.table.index().wait_for_holders();
    }

    /// Refuses a transaction that one commit could not hold.
    #[inline]
    pub(crate) fn check_transaction_bytes(&self, asked_bytes: u64) -> Result<()> {
        let limit_bytes = self.media().transaction_limit_bytes();
        if asked_bytes > limit_bytes {
            return Err(ErrorKind::TransactionTooLarge {
                asked_bytes,
                limit_bytes,
            }
            .into());
        }
        Ok(())
    }

    /// A fence whose failure makes the pool refuse every later write.
    #[inline(always)]
    pub(crate) fn fence(&self) -> Result<()> {
        match self.media().only_member() {
            Some(only) => only
                .fence()
                .map_err(|error| self.fence_failed(error.into())),
            None => self.fence_members(),
        }
    }

    #[inline(never)]
    fn fence_members(&self) -> Result<()> {
        let fenced = self.media().fence_beside(&|slot| self.table.is_held(slot));
        fenced.map_err(|error| self.fence_failed(error))
    }

    #[cold]
    fn fence_failed(&self, error: Error) -> Error {
        self.poison();
        error
    }

    /// Takes a member of a mirror out. If a fence fails the pool refuses every later write: which members count is
    /// not known.
    pub(crate) fn take_out(&self, number: u32) -> Result<()> {
        // Finds one that has died since the last commit, which leaves by this, and is then the one that lacks something:
        // were the other found dead while this one is taken out, none would be left to go on with.
        self.fence()?;
        let is_held = |slot| self.table.is_held(slot);
        self.fatal(self.media().take_out(number, &is_held))
    }

    /// Gives a mirror a witness, or takes it away. If a fence fails the pool refuses every later write.
    pub(crate) fn set_witness(&self, path: Option<&Path>, pool_uuid: [u8; 16]) -> Result<()> {
        self.check_writable()?;
        self.fatal(self.media().set_witness(path, pool_uuid))
    }

    /// Fails where the key's volume goes or is gone. The caller holds the stripe's lock.
    #[inline]
    pub(crate) fn check_attached(&self, key: Key) -> Result<()> {
        if !self.table.live().contains(key.volume()) {
            return Err(self.detached(key));
        }
        Ok(())
    }

    #[cold]
    fn detached(&self, key: Key) -> Error {
        if let Err(closed) = self.check_open() {
            return closed;
        }
        ErrorKind::Volume(format!(
            "{}: volume {} was detached; attach its backing again and use what that returns",
            self.path().display(),
            key.volume()
        ))
        .into()
    }

    pub(crate) fn corrupt(&self, key: Key) -> Error {
        if let Err(closed) = self.check_open() {
            return closed;
        }
        ErrorKind::Corrupt {
            volume: key.volume(),
            block: key.block(),
        }
        .into()
    }

    /// Fails where part of the table was lost. A caller that did not find a key asks this afterwards: lost
    /// entries read as free ones, and the backing may have an older block.
    #[inline]
    pub(crate) fn check_table_whole(&self) -> Result<()> {
        if self.media().table_lost() && !mutated(Mutant::LostTableForgotten) {
            return Err(self.lost_table());
        }
        Ok(())
    }

    #[cold]
    fn lost_table(&self) -> Error {
        if let Err(closed) = self.check_open() {
            return closed;
        }
        self.poison();
        ErrorKind::Damaged {
            path: self.path(),
            found:
                "the medium lost part of the table of what is cached; nothing that is not found \
                    in the rest can be told from what is older on the backing"
                    .into(),
        }
        .into()
    }

    /// Gives a private slot back that a failed commit did not use. Not once a fence has failed: a
    /// commit word may stand that tells recovery to look into this very slot.
    pub(crate) fn give_unused(&self, slot_cache: &SlotCache<'_>, slot: u32) {
        if self.check_writable().is_ok() || mutated(Mutant::SlotsGivenBackAfterFailedFence) {
            slot_cache.give(slot);
        }
    }

    /// Writes a volume's description, durably: attached with `identity`, or free.
    ///
    /// # Errors
    /// A fence failed, now or earlier; or the path is too long for the table.
    pub(crate) fn write_volume(
        &self,
        place: u32,
        id: u32,
        identity: &BackingIdentity,
        standing: Standing,
        attached: bool,
    ) -> Result<()> {
        self.check_lines()?;
        volumes::store(self.media(), place, id, identity, standing, attached)?;
        // Orders the description before the first block that carries its id, or, when it goes, after
        // the last one has gone. A torn line leaves the other one.
        self.fence_line()?;
        match volumes::store_twin(self.media(), place) {
            false => Ok(()),
            // Orders it before the next description, which is stored over the first line.
            true => self.fence_line(),
        }
    }

    /// Fails once the fence of a volume's line has failed. The line that another one replaces is the older one as far as
    /// can be seen, and may be the only one that is durable. (A close writes lines when the pool takes nothing else.)
    pub(crate) fn check_lines(&self) -> Result<()> {
        let has_failed = self.line_failed.load(Ordering::Relaxed);
        if has_failed && !mutated(Mutant::VolumeLineAfterFailedFence) {
            return Err(self.refusal());
        }
        Ok(())
    }

    /// As `fence`, after a line of the volume table, whose writers exclude each other. If it fails no other is written.
    pub(super) fn fence_line(&self) -> Result<()> {
        let fenced = self.fence();
        fenced.inspect_err(|_| self.line_failed.store(true, Ordering::Relaxed))
    }

    /// Bytes of DRAM in the tables that know blocks by their content.
    pub(crate) fn content_dram_bytes(&self) -> u64 {
        self.content.dram_bytes() + self.table.references().dram_bytes()
    }

    /// Bytes of DRAM in the structures that grow with the pool.
    pub(crate) fn dram_bytes(&self) -> u64 {
        self.table.dram_bytes()
            + self.media().dram_bytes()
            + self.content.dram_bytes()
            + self.replacement.dram_bytes()
    }
}
