//! Bringing in what was read: blocks that were missed twice lately are handed to the pool's thread, which commits several of them
//! as one group. A reader never waits for that, and what comes too fast is left out.

use std::sync::Arc;

use forebay_log::{Log, Ticket};

use super::fill_queue::Fill;
use super::known::Known;
use super::shared::Shared;

impl Shared {
    /// A block was missed, and read from its backing at that version.
    pub(super) fn note_miss(&self, known: &Arc<Known>, (block, version): (u64, u32), bytes: &[u8]) {
        self.tallies.mine().read_misses(1);
        if !self.options.fill_on_read || !self.fills.was_missed(known.number, block) {
            return;
        }
        if !self.work.has_thread() {
            // Nobody would bring it in, and it would keep the backing.
            return;
        }
        let fill = Fill {
            known: known.clone(),
            block,
            version,
            bytes: bytes.into(),
        };
        if self.fills.add(fill) {
            self.work.wake();
        }
    }

    /// Brings some of what waits in; whether more does. Called by the pool's thread alone, which waits for each at once: no
    /// other thread would lead the group that they are in.
    pub(super) fn bring_in(&self, log: &Log) -> bool {
        let staged: Vec<Ticket> = self
            .fills
            .take_some()
            .into_iter()
            .filter_map(|fill| self.stage(log, &fill))
            .collect();
        for ticket in &staged {
            if log.wait(ticket).is_ok() {
                self.tallies.mine().fills(1);
            }
        }
        !self.fills.is_empty()
    }

    /// None if the block has changed, or there is no room: then it is left out.
    fn stage(&self, log: &Log, fill: &Fill) -> Option<Ticket> {
        // A detach that holds the gate waits for this thread to make room.
        let _entered = fill.known.gate.try_read().ok()?;
        fill.known.state.check_here().ok()?;
        let number = fill.known.number;
        let staged = log.stage_fill(number, fill.block, &fill.bytes, fill.version);
        staged.ok().flatten()
    }
}
