//! Whether a tracker may have missed stores, for what happened beside it.

use std::fs::File;
use std::io;
use std::sync::{Mutex, PoisonError};

use super::extent::Extent;
use super::forks;
use crate::track::maps::{FileId, Maps};
use crate::track::{Coverage, Missed};

/// Whether children of this process have the mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Children {
    /// `Span::deny_to_children` was called: none has it, however it was made.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "all regions have their children watched")
    )]
    Denied,
    /// Those forked have it, and may store unseen.
    Allowed,
}

#[derive(Debug)]
struct State {
    extents: Vec<Extent>,
    /// Forks that are known to have left no process with the mapping.
    forks: u64,
    /// Another opener may still have an extent.
    has_foreign: bool,
}

/// Watches the extents of one region, and the forks of this process.
#[derive(Debug)]
pub(crate) struct Watch {
    children: Children,
    state: Mutex<State>,
}

/// What was seen before a take; the take's own findings say what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct Look {
    missed: Option<Missed>,
    has_moved: bool,
}

impl Look {
    /// This look together with an earlier one that no take came after.
    pub(crate) fn after(self, earlier: Option<Look>) -> Look {
        let missed = earlier.and_then(|earlier| earlier.missed);
        Look {
            missed: self.missed.or(missed),
            has_moved: self.has_moved || earlier.is_some_and(|earlier| earlier.has_moved),
        }
    }

    /// What a take that came after the look may have missed; `found`: whether it found any page.
    pub(crate) fn coverage(self, found: bool) -> Coverage {
        match self.missed {
            Some(missed) => Coverage::MayHaveMissed(missed),
            None if self.has_moved && !found => Coverage::MayHaveMissed(Missed::Moved),
            None => Coverage::Complete,
        }
    }
}

impl Watch {
    /// Watches these files from here on, each of which this process has opened once and does not open again (it
    /// may duplicate a descriptor). An opener from before is not noticed.
    pub(crate) fn new(extents: &[&File], children: Children) -> io::Result<Watch> {
        forks::begin()?;
        let forks = forks::count();
        let extents: io::Result<Vec<Extent>> =
            extents.iter().map(|file| Extent::new(file)).collect();
        Ok(Watch {
            children,
            state: Mutex::new(State {
                extents: extents?,
                forks,
                has_foreign: false,
            }),
        })
    }

    /// What moved sizes and times until now was the caller's own: a tracker that tried itself.
    pub(crate) fn note_times(&self) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.extents.iter_mut().try_for_each(Extent::note_times)
    }

    /// What happened since the last look, or still goes on. To be called before a take: what moves the times of a file
    /// through the mapping is then found by the take.
    pub(crate) fn look(&self) -> io::Result<Look> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        let mut look = Look {
            missed: None,
            has_moved: false,
        };
        for extent in &mut state.extents {
            let changes = extent.look()?;
            state.has_foreign |= changes.is_opened;
            look.has_moved |= changes.has_moved;
            if changes.is_modified {
                look.missed = Some(Missed::Moved);
            }
        }
        if state.has_foreign {
            look.missed = Some(Missed::ForeignOpener);
            // One that has gone is told of this once. Another that comes from here on is in the events of the next look.
            state.has_foreign = !state.extents.iter().all(Extent::is_ours_alone);
        }
        if self.children == Children::Allowed && forks::count() != state.forks {
            look.missed = Some(Missed::Forked);
            let before = forks::count();
            let files: io::Result<Vec<FileId>> = state.extents.iter().map(Extent::id).collect();
            // A child that forks while the processes are gone through raises the count.
            if !others_map(&files?) && forks::count() == before {
                state.forks = before;
            }
        }
        Ok(look)
    }
}

/// Whether a process other than this one has one of the files mapped, or may have: its mappings cannot be read, and it
/// is younger than this one, as its descendants are.
fn others_map(files: &[FileId]) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return true;
    };
    let ours = std::process::id();
    let started = started_at(ours);
    let mut pids = processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| *pid != ours);
    pids.any(|pid| {
        let mappings = Maps::of_process(pid).and_then(|mut maps| maps.read());
        match mappings {
            Ok(mappings) => mappings.iter().any(|mapped| files.contains(&mapped.file)),
            // It has ended.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => false,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(_) => match (started, started_at(pid)) {
                (Some(ours), Some(theirs)) => theirs >= ours,
                _ => true,
            },
        }
    })
}

/// When the process started, in ticks since the system did (field 22 of /proc/PID/stat, proc_pid_stat(5)). None where
/// that cannot be read.
fn started_at(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program, before these fields, may hold anything.
    let fields = &stat[stat.rfind(')')? + 1..];
    fields.split_ascii_whitespace().nth(19)?.parse().ok()
}
