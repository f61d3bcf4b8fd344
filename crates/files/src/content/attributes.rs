//! Attributes that the content has to do with: a time of modification that a caller chose, and a capability. No change of
//! the content comes between such a change and its record.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use rustix::fs::{Timespec, UTIME_NOW, UTIME_OMIT};

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
            Ok(()) => {
                times.chosen_now(&chosen, &file)?;
                state.chosen_ns = Some(match chosen.tv_nsec {
                    UTIME_NOW => modified_ns(&file)?,
                    nanoseconds => ns_of(chosen.tv_sec, nanoseconds),
                });
            }
            Err(_) => times.not_chosen(before, &file),
        }
        Ok(applied)
    }

    /// Before the content changes: recovery must not put a time over it that was chosen before, nor a capability. Whether there
    /// is one is asked when any was recorded since it was asked last: the record of one of this file is made under its lock,
    /// and one of a file that nobody had open before this one was.
    pub(super) fn begin_change(&self, state: &mut State) -> io::Result<()> {
        state.chosen_ns = None;
        let naming = &self.shared.naming;
        let endings = naming.endings();
        if endings == state.endings || mutated(Mutant::FilesOlderTimeReplayed) {
            return Ok(());
        }
        let descriptor = self.target.descriptor();
        let identity = self.target.identity();
        let is_recorded = naming.modified(descriptor.as_fd(), identity)?;
        state.endings = endings;
        if !is_recorded {
            state.unsynced.attributes = true;
            self.needs_sync.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// The file is in the pool from now on. The time that a caller chose for what it holds lasts, which write-back moves and puts
    /// back later. The log may tell it no more, since the backing was synced with it.
    pub(super) fn keep_chosen_time(&self, state: &State) -> io::Result<()> {
        let Some(chosen_ns) = state
            .chosen_ns
            .filter(|_| !mutated(Mutant::FilesChosenTimeForgotten))
        else {
            return Ok(());
        };
        let descriptor = self.target.descriptor();
        self.shared.naming.keep_time(descriptor.as_fd(), chosen_ns)
    }
}

fn ns_of(seconds: i64, nanoseconds: i64) -> i128 {
    i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds)
}

fn modified_ns(file: &File) -> io::Result<i128> {
    let stat = rustix::fs::fstat(file)?;
    Ok(ns_of(stat.st_mtime, stat.st_mtime_nsec as i64))
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
