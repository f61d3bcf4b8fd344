//! A mapping of another process, which put it under asynchronous write protection itself: its pages are taken
//! from here, with no help from it.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::maps::{FileId, Maps};
use super::pagemap::Pagemap;
use super::{Coverage, Hold, Missed, Tracker};
use crate::error::{ErrorKind, Result};
use crate::format::PAGE_BYTES;
use crate::options::TrackerKind;

/// Sees stores by the threads of the other process, and by their system calls through the mapping. Its first take has
/// all pages that were not protected before. Writers cannot be held from here.
#[derive(Debug)]
pub(crate) struct RemoteTracker {
    addresses: Range<u64>,
    /// One of these is mapped at each of the addresses.
    files: Vec<FileId>,
    pagemap: Pagemap,
    maps: Mutex<Maps>,
}

impl RemoteTracker {
    /// `pages` pages from `start` on of the process, which are mappings of these files side by side. It needs the right
    /// to trace the process (ptrace(2), PTRACE_MODE_READ).
    pub(crate) fn attach(
        pid: u32,
        start: u64,
        pages: u64,
        files: &[&File],
    ) -> Result<RemoteTracker> {
        let step = |what: &'static str| {
            move |error: io::Error| ErrorKind::Tracker {
                tracker: TrackerKind::AsyncWriteProtect,
                found: format!("{what} of process {pid}: {error}"),
            }
        };
        let files: io::Result<Vec<FileId>> = files.iter().map(|file| FileId::of(file)).collect();
        let end = pages.checked_mul(PAGE_BYTES);
        let end = end.and_then(|len| start.checked_add(len)).ok_or_else(|| {
            let outside = io::Error::other("the pages end outside of the address space");
            step("the mapping")(outside)
        })?;
        let tracker = RemoteTracker {
            addresses: start..end,
            files: files.map_err(step("the files"))?,
            pagemap: Pagemap::of_process(pid).map_err(step("/proc/PID/pagemap"))?,
            maps: Mutex::new(Maps::of_process(pid).map_err(step("/proc/PID/maps"))?),
        };
        if !tracker.is_mapped() {
            let found = io::Error::other("the files are not mapped there");
            return Err(step("the mapping")(found).into());
        }
        Ok(tracker)
    }

    /// Whether the whole range is mapped from the files. A scan passes over what is not mapped without a word.
    fn is_mapped(&self) -> bool {
        let mut maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(mappings) = maps.read() else {
            return false;
        };
        let mut covered = self.addresses.start;
        for mapped in mappings {
            if mapped.start <= covered && covered < mapped.end && self.files.contains(&mapped.file)
            {
                covered = mapped.end;
            }
        }
        covered >= self.addresses.end
    }
}

impl Tracker for RemoteTracker {
    fn kind(&self) -> TrackerKind {
        TrackerKind::AsyncWriteProtect
    }

    fn find_written(
        &self,
        pages: Range<u64>,
        takes: bool,
        written: &mut Vec<Range<u64>>,
    ) -> Result<Coverage> {
        let base = self.addresses.start;
        let addresses = base + pages.start * PAGE_BYTES..base + pages.end * PAGE_BYTES;
        assert!(addresses.end <= self.addresses.end, "pages of the mapping");
        let scanned = self
            .pagemap
            .written(addresses, base, takes, written.len(), written);
        // Mapped after the scan means mapped during it: one that was unmapped and mapped again in between either is
        // not protected, which the scan says, or counts as written as a whole.
        Ok(match scanned.is_ok() && self.is_mapped() {
            true => Coverage::Complete,
            false => Coverage::MayHaveMissed(Missed::TrackerFailed),
        })
    }

    fn hold(&self, _: Range<u64>) -> Result<Option<Hold<'_>>> {
        Ok(None)
    }
}
