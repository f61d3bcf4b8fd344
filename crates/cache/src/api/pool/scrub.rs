//! Scrubbing a pool while it is used: how fast, how far it is, and a way to stop.

use std::ops::{ControlFlow, Range};

use super::Pool;
use super::pace::Pace;
use crate::engine::{Engine, ScrubReport};
use crate::error::Result;
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
}

impl Default for ScrubOptions {
    fn default() -> Self {
        ScrubOptions {
            rate_bytes_s: None,
            evict: true,
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
    engine: &'a Engine,
    options: &'a ScrubOptions,
    watcher: &'a mut Watcher<'w>,
    report: ScrubReport,
    done_slots: u64,
    pace: Pace,
}

/// What a step does, with so many entries, or lines.
type Step = fn(&Engine, Range<u32>, bool, &mut ScrubReport) -> Result<u64>;

impl Pool {
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
        let mut scrub = Scrub {
            engine,
            options,
            watcher: progress,
            report: ScrubReport::default(),
            done_slots: 0,
            pace: Pace::new(options.rate_bytes_s),
        };
        let geometry = &engine.media().geometry;
        let is_mirrored = engine.media().is_mirrored();
        let lines = is_mirrored.then_some(geometry.entries / ENTRIES_PER_LINE);
        let flow = scrub.steps(geometry.entries, STEP_ENTRIES, true, Engine::scrub_entries)?;
        if flow.is_break() {
            return Ok(scrub.report);
        }
        let flow = scrub.steps(lines.unwrap_or(0), STEP_LINES, false, Engine::scrub_table)?;
        if flow.is_break() {
            return Ok(scrub.report);
        }
        if is_mirrored {
            engine.scrub_lines(options.evict, &mut scrub.report)?;
            engine.scrub_volumes(options.evict, &mut scrub.report)?;
        }
        scrub.report.is_whole = true;
        // There is nothing left that it could end.
        let _ = scrub.tell();
        Ok(scrub.report)
    }
}

impl Scrub<'_, '_> {
    fn steps(
        &mut self,
        count: u32,
        at_once: u32,
        are_slots: bool,
        step: Step,
    ) -> Result<ControlFlow<()>> {
        let mut at = 0;
        while at < count {
            let end = count.min(at + at_once);
            let bytes = step(self.engine, at..end, self.options.evict, &mut self.report)?;
            self.pace.note(bytes);
            self.done_slots += u64::from(end - at) * u64::from(are_slots);
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
