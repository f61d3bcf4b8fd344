//! Scrubbing a pool while it is used: how fast, how far it is, and a way to stop.

use std::ops::{ControlFlow, Range};
use std::time::Duration;

use super::MemoryPool;
use super::pace::Pace;
use crate::engine::{Engine, ScrubReport};
use crate::error::Result;
use crate::media::layout::ScrubMark;
use crate::repeatable;
use crate::table::index::ENTRIES_PER_LINE;

/// Entries whose blocks are read between two reports of progress.
const STEP_ENTRIES: u32 = 128;
/// Lines of the table that are compared while the next checkpoint waits.
const STEP_LINES: u32 = 512;

/// How a pool is scrubbed. Each setter takes the options and returns them changed.
///
/// ```
/// let options = forebay::ScrubOptions::default().rate_bytes_s(Some(20 << 20));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ScrubOptions {
    rate_bytes_s: Option<u64>,
    evict: bool,
    resume: bool,
}

impl Default for ScrubOptions {
    fn default() -> Self {
        ScrubOptions {
            rate_bytes_s: None,
            evict: true,
            resume: false,
        }
    }
}

impl ScrubOptions {
    /// Bytes that are read a second at most, of all members together; as fast as it goes by default.
    #[must_use]
    pub fn rate_bytes_s(mut self, rate_bytes_s: Option<u64>) -> ScrubOptions {
        self.rate_bytes_s = rate_bytes_s;
        self
    }
    /// Goes on where the last one ended that was not whole, if there is one, also in an earlier process; from the
    /// beginning by default.
    #[must_use]
    pub fn resume(mut self, resume: bool) -> ScrubOptions {
        self.resume = resume;
        self
    }
    /// Reads what the medium has, and not what the processor's caches have of it, as is the default: a write that the
    /// medium lost shows nowhere else. A plain file's pages are read from the page cache all the same.
    #[must_use]
    pub fn evict(mut self, evict: bool) -> ScrubOptions {
        self.evict = evict;
        self
    }
}

/// How far a scrub is.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct ScrubProgress {
    /// Places for blocks that were looked at, empty ones too.
    pub done_slots: u64,
    /// All of them.
    pub all_slots: u64,
    /// As in [`ScrubReport::found`].
    pub found: u64,
    /// As in [`ScrubReport::repaired`].
    pub repaired: u64,
    /// As in [`ScrubReport::lost`].
    pub lost: u64,
}

/// Is told of the progress, and says whether to go on.
type Watcher<'a> = dyn FnMut(ScrubProgress) -> ControlFlow<()> + 'a;

/// A scrub under way.
struct Scrub<'a, 'w> {
    pool: &'a MemoryPool,
    engine: &'a Engine,
    options: &'a ScrubOptions,
    watcher: &'a mut Watcher<'w>,
    report: ScrubReport,
    done_slots: u64,
    pace: Pace,
}

impl MemoryPool {
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
        let engine = self.pipeline().engine();
        engine.checkpoint()?;
        let mark = engine.scrub_mark();
        let entries = engine.media().geometry.entries;
        let is_resumed = options.resume && mark.began_s != 0 && mark.entry <= entries;
        let mark = match is_resumed {
            true => mark,
            false => ScrubMark {
                began_s: repeatable::now_s(),
                entry: 0,
                ..mark
            },
        };
        engine.set_scrub_mark(mark);
        let mut scrub = Scrub {
            pool: self,
            engine,
            options,
            watcher: progress,
            report: ScrubReport::default(),
            done_slots: u64::from(mark.entry),
            pace: Pace::new(options.rate_bytes_s),
        };
        scrub.report.is_whole = scrub.pass(mark)?.is_continue();
        if scrub.report.is_whole {
            // There is nothing left that it could end.
            let _ = scrub.tell();
            engine.set_scrub_mark(ScrubMark {
                scrubbed_s: mark.began_s,
                ..ScrubMark::default()
            });
        }
        engine.save_scrub_mark()?;
        Ok(scrub.report)
    }
}

impl MemoryPool {
    /// See [`Stats::unverified`](crate::Stats::unverified).
    pub(crate) fn unverified(&self) -> Option<Duration> {
        let scrubbed_s = self.pipeline().engine().scrub_mark().scrubbed_s;
        let since_s = repeatable::now_s().saturating_sub(scrubbed_s);
        (scrubbed_s != 0).then(|| Duration::from_secs(u64::from(since_s)))
    }
}

impl Scrub<'_, '_> {
    fn pass(&mut self, mark: ScrubMark) -> Result<ControlFlow<()>> {
        let engine = self.engine;
        let geometry = &engine.media().geometry;
        let entries = mark.entry..geometry.entries;
        let flow = self.steps(entries, STEP_ENTRIES, |scrub, entries| {
            let end = entries.end;
            let bytes = engine.scrub_entries(entries, scrub.options.evict, &mut scrub.report)?;
            scrub.done_slots = u64::from(end);
            engine.set_scrub_mark(ScrubMark { entry: end, ..mark });
            Ok(bytes)
        })?;
        if flow.is_break() || !engine.media().is_sealed() {
            return Ok(flow);
        }
        let lines = 0..geometry.entries / ENTRIES_PER_LINE;
        let flow = self.steps(lines, STEP_LINES, |scrub, lines| {
            engine.scrub_table(lines, scrub.options.evict, &mut scrub.report)
        })?;
        if flow.is_continue() {
            engine.scrub_lines(self.options.evict, &mut self.report)?;
            // Of one copy the two lines of a volume differ while a thread writes them, and the older one is
            // all that is durable until a fence.
            let _no_line_changes = self.pool.lock_table();
            engine.scrub_volumes(self.options.evict, &mut self.report)?;
        }
        Ok(flow)
    }

    /// Does a step after the other, each of which returns how many bytes it read.
    fn steps(
        &mut self,
        all: Range<u32>,
        at_once: u32,
        step: impl Fn(&mut Self, Range<u32>) -> Result<u64>,
    ) -> Result<ControlFlow<()>> {
        let mut at = all.start;
        while at < all.end {
            let end = all.end.min(at + at_once);
            let bytes = step(self, at..end)?;
            self.pace.note(bytes);
            at = end;
            if self.rest().is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Tells how far it is, and rests until what was read is within the rate.
    fn rest(&mut self) -> ControlFlow<()> {
        self.tell()?;
        while !self.pace.is_due() {
            self.tell()?;
        }
        ControlFlow::Continue(())
    }

    fn tell(&mut self) -> ControlFlow<()> {
        let report = &self.report;
        (self.watcher)(ScrubProgress {
            done_slots: self.done_slots,
            all_slots: u64::from(self.engine.media().geometry.entries),
            found: report.found,
            repaired: report.repaired,
            lost: report.lost,
        })
    }
}
