//! What can be set of a pool while it is open, how it stands, and what only pools in memory have: members, drills, scrubs.

use std::ops::ControlFlow;
use std::path::Path;

use forebay_pmem::Region;

use super::pool::Kind;
use crate::api::pool::{Member, MemoryPool, RebuildOptions, ScrubOptions, ScrubProgress, Witness};
use crate::api::stats::Stats;
use crate::api::tuning::{self, Tuning};
use crate::engine::{Drill, DrillStrike, RebuildProgress, RebuildWatcher, ScrubReport};
use crate::error::{ErrorKind, Result};
use crate::facade::pool::Pool;
use crate::facade::volume::Volume;
use crate::options::{Medium, PoolOptions, ReplacementPolicy, VerifyPolicy};
use crate::ssd::usual_medium;

impl Pool {
    // Hidden: for the command that makes pools.
    /// What a pool of these options is made on unless somebody says it: memory, or an SSD where its place is a plain file or a
    /// block device. With the reason where a plain file is mapped all the same.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`](crate::ErrorKind::Refused): it cannot be asked now, or the place is a link to a file.
    #[doc(hidden)]
    pub fn usual_medium(options: &PoolOptions) -> Result<(Medium, Option<String>)> {
        usual_medium(options)
    }

    /// How the pool stands and what it did. Cheap: nothing is locked for longer than a look.
    pub fn stats(&self) -> Stats {
        match &self.kind {
            Kind::Memory(pool) => pool.stats(),
            Kind::Ssd(pool) => pool.stats(),
        }
    }

    /// The settings in force.
    pub fn tuning(&self) -> Tuning {
        match &self.kind {
            Kind::Memory(pool) => pool.tuning(),
            Kind::Ssd(pool) => pool.tuning(),
        }
    }

    /// Sets the dirty watermarks, per mille of the pool's slots: see [`Tuning`].
    ///
    /// # Errors
    /// [`ErrorKind::Options`] where `low` exceeds `high`, or `high` 1000; nothing is changed then.
    pub fn set_watermarks(&self, low_per_mille: u32, high_per_mille: u32) -> Result<()> {
        match &self.kind {
            Kind::Memory(pool) => pool.set_watermarks(low_per_mille, high_per_mille),
            Kind::Ssd(pool) => {
                tuning::check_watermarks(low_per_mille, high_per_mille)?;
                pool.set_watermarks(low_per_mille, high_per_mille);
                Ok(())
            }
        }
    }

    /// Limits what background write-back writes, in bytes a second; 0 lifts the limit. Writers that
    /// outrun it are slowed to it. A flush that a caller asks for is not limited.
    pub fn set_flush_rate_limit(&self, bytes_per_s: u64) {
        match &self.kind {
            Kind::Memory(pool) => pool.set_flush_rate_limit(bytes_per_s),
            Kind::Ssd(pool) => pool.set_flush_rate_limit(bytes_per_s),
        }
    }

    /// Lets whole blocks whose bytes the pool holds already share their slot, or stops it. A pool on an SSD does not do that.
    pub fn set_share_duplicates(&self, on: bool) {
        if let Some(pool) = self.memory() {
            pool.set_share_duplicates(on);
        }
    }

    /// Has whole blocks compared with what is cached, so that only what is new is stored, or stops it. A pool on an SSD does not do that.
    pub fn set_compare_writes(&self, on: bool) {
        if let Some(pool) = self.memory() {
            pool.set_compare_writes(on);
        }
    }

    /// Whether write-back leaves the blocks of file systems' journals for last. Whatever is set, a
    /// flush writes all of them, and so does write-back where nothing else is left to write. A pool on an SSD does not do that.
    pub fn set_defer_journal(&self, defers: bool) {
        if let Some(pool) = self.memory() {
            pool.set_defer_journal(defers);
        }
    }

    /// Has misses of reads that follow one another pass the pool by once these have come to more than so many bytes: what is
    /// not cached is read from the backing and not brought in. With 0 all is brought in. A pool on an SSD does not do that.
    pub fn set_sequential_cutoff(&self, cutoff_bytes: u64) {
        if let Some(pool) = self.memory() {
            pool.set_sequential_cutoff(cutoff_bytes);
        }
    }

    /// Has the backing read ahead of reads that follow one another and miss, so many bytes at most (64 MiB if it is more). With 0
    /// nothing is. A pool on an SSD does not do that.
    pub fn set_read_ahead(&self, bytes: u64) {
        if let Some(pool) = self.memory() {
            pool.set_read_ahead(bytes);
        }
    }

    /// When reads compare data with checks; can be changed at any time.
    pub fn set_verify(&self, policy: VerifyPolicy) {
        match &self.kind {
            Kind::Memory(pool) => pool.set_verify(policy),
            Kind::Ssd(pool) => pool.set_verify(policy),
        }
    }

    /// When reads compare data with checks.
    pub fn verify(&self) -> VerifyPolicy {
        match &self.kind {
            Kind::Memory(pool) => pool.verify(),
            Kind::Ssd(pool) => pool.verify(),
        }
    }

    /// Which blocks are evicted; can be changed at any time. What the policy before had learnt of the blocks
    /// is forgotten: the new one knows them in the order of the entry table. Takes a look at every
    /// entry; reads and writes go on meanwhile.
    pub fn set_replacement(&self, policy: ReplacementPolicy) {
        match &self.kind {
            Kind::Memory(pool) => pool.set_replacement(policy),
            Kind::Ssd(pool) => pool.set_replacement(policy),
        }
    }

    /// Which blocks are evicted.
    pub fn replacement(&self) -> ReplacementPolicy {
        match &self.kind {
            Kind::Memory(pool) => pool.replacement(),
            Kind::Ssd(pool) => pool.replacement(),
        }
    }
}

impl Pool {
    /// The members, by number.
    pub fn members(&self) -> Vec<Member> {
        match &self.kind {
            Kind::Memory(pool) => pool.members(),
            Kind::Ssd(pool) => pool.members(),
        }
    }

    /// Takes a member of a mirrored pool out, as if it had failed. When this returns, all members that are left say so,
    /// durably: the pool goes on with one copy of what had a half there, and opens without the member that is out. One
    /// that is out already stays so.
    ///
    /// # Errors
    /// [`ErrorKind::Options`]: no mirror, no such member, or another one is out or being rebuilt.
    /// [`ErrorKind::Media`]: a fence failed, and the pool takes no more writes.
    pub fn fail_member(&self, number: u32) -> Result<()> {
        match &self.kind {
            Kind::Memory(pool) => pool.fail_member(number),
            Kind::Ssd(pool) => pool.fail_member(number),
        }
    }

    /// The witness of a mirrored pool, if it has one.
    pub fn witness(&self) -> Option<Witness> {
        self.memory()?.witness()
    }

    /// Gives a mirrored pool a witness, a new file at `path`, or with `None` takes away the one that it has, also if
    /// that is not there. Both members are in. When this returns both say so, durably.
    ///
    /// A witness is a third vote: each change of which members count is durable there first. So after a power cut a
    /// member opens without the other one if the witness has seen none go on alone. While it cannot be written no member is
    /// taken out: a death then ends all writes.
    ///
    /// # Errors
    /// [`ErrorKind::Options`]: no mirror of two members that are in, it has a witness already, or `path` is on the device
    /// of a member. [`ErrorKind::Refused`]: the file is there already, or cannot be written.
    /// [`ErrorKind::Media`]: a fence failed, and the pool takes no more writes.
    pub fn set_witness(&self, path: Option<&Path>) -> Result<()> {
        self.mirror()?.set_witness(path)
    }

    /// Rebuilds member `number` of a mirrored pool, which is out, on the file or device `path`, while the pool is
    /// used. When this returns it is in: all members but any one are enough again.
    ///
    /// A file that is not there is made. One that was the member before is overwritten, and what a crash left of the making of
    /// one; another one only with [`RebuildOptions::force`]. `watcher` is told how far it is, and may end it. After an error, a crash, or a
    /// pool that was closed meanwhile the member is out as before.
    ///
    /// # Errors
    /// [`ErrorKind::Options`]: no mirror, no such member, it is not out, or `watcher` ended it.
    /// [`ErrorKind::Refused`]: what is at `path` is not to be overwritten, in use, or too small.
    /// [`ErrorKind::Media`]: the file cannot be made or mapped, or a fence failed; if one of a member that was left
    /// failed, the pool takes no more writes.
    pub fn replace_member(
        &self,
        number: u32,
        path: &Path,
        options: &RebuildOptions,
        watcher: &mut RebuildWatcher<'_>,
    ) -> Result<()> {
        match &self.kind {
            Kind::Memory(pool) => pool.replace_member(number, path, options, watcher),
            Kind::Ssd(pool) => {
                let mut watch = |done_bytes, all_bytes| {
                    watcher(RebuildProgress {
                        done_bytes,
                        all_bytes,
                    })
                };
                pool.replace_member(number, path, options, &mut watch)
            }
        }
    }

    /// As `replace_member`, as fast as it goes, over a region that is mapped already, whatever it holds.
    ///
    /// # Errors
    /// As [`Pool::replace_member`].
    pub fn replace_member_on(
        &self,
        number: u32,
        region: Region,
        watcher: &mut RebuildWatcher<'_>,
    ) -> Result<()> {
        self.mirror()?.replace_member_on(number, region, watcher)
    }

    /// Reads everything that is in the pool, and compares blocks with their checks, every copy of each, and the metadata of
    /// a mirror's members with each other. What is wrong in one copy is written again there; a block of which none is right
    /// goes if its backing has it, and counts as lost otherwise. The pool is used meanwhile. `progress` is told how far it
    /// is, many times a second, and may end it.
    ///
    /// Begins with a checkpoint. The log is not looked at: a checkpoint, or recovery, reads what of it counts.
    ///
    /// # Errors
    /// [`ErrorKind::Media`](crate::ErrorKind::Media): a fence failed, and the pool takes no more writes.
    /// [`ErrorKind::Poisoned`](crate::ErrorKind::Poisoned): one failed earlier.
    /// [`ErrorKind::Closed`](crate::ErrorKind::Closed).
    pub fn scrub(
        &self,
        options: &ScrubOptions,
        progress: &mut dyn FnMut(ScrubProgress) -> ControlFlow<()>,
    ) -> Result<ScrubReport> {
        let pool = self.memory_or(
            "is not scrubbed: every read compares the block with its checksum, and forebay check reads all of them",
        )?;
        pool.scrub(options, progress)
    }

    /// Whether this pool was made for tests.
    pub fn is_test(&self) -> bool {
        match &self.kind {
            Kind::Memory(pool) => pool.is_test(),
            Kind::Ssd(pool) => pool.is_test(),
        }
    }

    // Hidden: for drills of the command.
    /// Has a member do something wrong. Where a drill waits for a write, `go_on` is asked now and then, at once for the
    /// first time: from then on a write is struck. `None` if it said no before there was one.
    ///
    /// # Errors
    /// No test pool; there is no such member, or nothing there to break; the member's fence fails.
    #[doc(hidden)]
    pub fn inject(
        &self,
        drill: &Drill,
        go_on: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<Option<DrillStrike>> {
        self.memory_or(NO_DRILLS)?.inject(drill, go_on)
    }

    // Hidden: it is there for the command that shows people what a daemon does about a bad block.
    /// Flips one bit of the cached copy of a block, of two that which is read first, as failing memory would.
    ///
    /// # Errors
    /// No test pool; the block is not cached, or has fewer bits.
    #[doc(hidden)]
    pub fn flip_bit(&self, volume: &Volume, block: u64, bit: u64) -> Result<()> {
        let pool = self.memory_or(NO_DRILLS)?;
        let foreign = || ErrorKind::Volume(format!("{volume:?} is not attached to this pool"));
        pool.flip_bit(volume.memory().ok_or_else(foreign)?, block, bit)
    }

    /// The pool in memory, which may have several members.
    fn mirror(&self) -> Result<&MemoryPool> {
        self.memory_or("has neither a witness nor members that are mapped")
    }
}

const NO_DRILLS: &str = "is not broken itself: bits are flipped, and drills done, in pools in memory that were made for tests (on the command line \
     --medium page --test); of this one only the backing may fail";
