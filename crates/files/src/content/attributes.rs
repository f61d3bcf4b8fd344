//! Attributes that the content has to do with: a time of modification that a caller chose, and a capability. No change of
//! the content comes between such a change and its record.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use rustix::fs::{Timespec, UTIME_OMIT};

use super::{Content, State};
use crate::mutants::{Mutant, mutated};
use crate::names::{Applied, AttributeChange, CAPABILITY};

impl Content {
    /// Has `apply` change attributes while the content stays as it is.
    pub(crate) fn change_attributes(
        &self,
        change: &AttributeChange<'_>,
        apply: impl FnOnce() -> Applied,
    ) -> io::Result<Applied> {
        let mut state = self.write_state();
        if sets_capability(change) && state.pooled.is_some() {
            // What the pool writes or cuts there later would take it.
            self.drain_locked(&mut state)?;
            self.leave_pool(&mut state)?;
        }
        let Some(chosen) = chosen_time(change) else {
            return Ok(apply());
        };
        let times = &self.target.times;
        // Before the backing has it: write-back that comes right behind must put this time back, no other.
        let before = times.choose(&chosen);
        let applied = apply();
        let file = self.target.descriptor();
        match &applied.result {
            Ok(()) => times.chosen_now(&chosen, &file)?,
            Err(_) => times.not_chosen(before, &file),
        }
        Ok(applied)
    }

    /// The log tells of something that a change of the content ends, and is to be told of that.
    pub(crate) fn note_ended_by_change(&self, change: &AttributeChange<'_>) {
        if sets_capability(change) || chosen_time(change).is_some() {
            self.is_ended_by_change.store(true, Ordering::Release);
        }
    }

    /// Before the content changes: recovery must not put a time over it that was chosen before, nor a capability.
    pub(super) fn begin_change(&self, state: &mut State) -> io::Result<()> {
        let is_ended = self.is_ended_by_change.load(Ordering::Acquire)
            && self.is_ended_by_change.swap(false, Ordering::AcqRel);
        if !is_ended || mutated(Mutant::FilesOlderTimeReplayed) {
            return Ok(());
        }
        let recorded = self
            .shared
            .naming
            .modified(self.target.descriptor().as_fd());
        let is_recorded = recorded.inspect_err(|_| {
            self.is_ended_by_change.store(true, Ordering::Release);
        })?;
        if !is_recorded {
            state.unsynced.attributes = true;
            self.needs_sync.store(true, Ordering::Release);
        }
        Ok(())
    }
}

fn sets_capability(change: &AttributeChange<'_>) -> bool {
    matches!(change, AttributeChange::Set { name, .. } if *name == CAPABILITY)
}

/// The time of modification that is asked for.
fn chosen_time(change: &AttributeChange<'_>) -> Option<Timespec> {
    match change {
        AttributeChange::Times(times) => Some(times.last_modification),
        _ => None,
    }
    .filter(|time| time.tv_nsec != UTIME_OMIT)
}
