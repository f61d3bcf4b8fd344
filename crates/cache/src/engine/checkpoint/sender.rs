//! Lines of the table on their way to the medium, in one round.

use crate::engine::Engine;
use crate::error::Result;
use crate::media::seals::{Round, TableLine};
use crate::table::word_set_queue::numbers;

/// Lines that are gathered before they are sent: 4 MiB of them.
const GATHERED_LINES_MAX: usize = 1 << 16;

/// Sends words of lines, a bit each, in ascending order.
pub(super) struct LineSender<'e> {
    engine: &'e Engine,
    round: Round,
    /// Of a table of one copy with seals, whose seals go before the lines.
    gathered: Vec<(u32, TableLine)>,
    is_lone: bool,
}

impl<'e> LineSender<'e> {
    pub(super) fn new(engine: &'e Engine, round: Round) -> LineSender<'e> {
        LineSender {
            engine,
            round,
            gathered: Vec::new(),
            is_lone: engine.media().has_lone_seals(),
        }
    }

    /// Sends lines of the word of this number; `are_found` says that an earlier process may have stored them. They are
    /// there after the fence that follows [`LineSender::finish`].
    ///
    /// # Errors
    /// A fence fails that orders seals.
    #[inline]
    pub(super) fn send(&mut self, word: u32, bits: u64, are_found: bool) -> Result<()> {
        let (media, entries) = (self.engine.media(), self.engine.table.entries());
        if self.is_lone {
            let lines = numbers(word, bits).map(|line| (line, entries.line(media, line)));
            self.gathered.extend(lines);
            return match self.gathered.len() < GATHERED_LINES_MAX {
                true => Ok(()),
                false => self.send_gathered(),
            };
        }
        for line in numbers(word, bits) {
            match are_found {
                true => entries.send_found(media, line, self.round),
                false => entries.send(media, line, self.round),
            }
        }
        if media.is_mirrored() {
            // Eight seals lie together.
            let sent = (0..).zip(bits.to_le_bytes()).filter(|(_, bits)| *bits != 0);
            sent.for_each(|(eighth, _)| media.flush_seals(u64::from(word) * 8 + eighth));
        }
        Ok(())
    }

    /// Sends what was gathered.
    ///
    /// # Errors
    /// As [`LineSender::send`].
    pub(super) fn finish(mut self) -> Result<()> {
        self.send_gathered()
    }

    fn send_gathered(&mut self) -> Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let sent = self.engine.media().send_sealed(&self.gathered, self.round);
        self.gathered.clear();
        sent.inspect_err(|_| self.engine.poison())
    }
}
