//! A tracker together with what notices the stores that it cannot see.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use forebay_pmem::MediaKind;

use super::lease::{self, Lease};
use super::mapping::Mapping;
use crate::engine::FirstPass;
use crate::error::{Error, Result};
use crate::format::Line;
use crate::medium::Medium;
use crate::options::TrackerKind;
use crate::track::{self, Children, Coverage, Hold, Look, Missed, Tracker, Watch};

/// A tracker under watch.
struct Watched {
    tracker: Box<dyn Tracker>,
    watch: Watch,
    /// Looked at since the last take.
    looked: Mutex<Option<Look>>,
    /// Somebody had an extent open before the watch began, and may store unseen for as long as that is so.
    is_shared: AtomicBool,
    /// The extents' own open files.
    files: Vec<File>,
    path: PathBuf,
}

impl Watched {
    /// Whether somebody has an extent still that was opened before the watch began.
    fn is_shared(&self) -> bool {
        if !self.is_shared.load(Ordering::Relaxed) {
            return false;
        }
        let is_shared = !are_alone(&self.files, true);
        self.is_shared.store(is_shared, Ordering::Relaxed);
        is_shared
    }

    fn look(&self) -> Result<Look> {
        let look = self.watch.look();
        look.map_err(|error| Error::io("look who else opened it", &self.path, error))
    }

    fn looked(&self) -> MutexGuard<'_, Option<Look>> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tracker of a region's mapping, the one asked for or the best that can be had, and what the first pass is to take;
/// `line` is that of the opening.
///
/// In order: from the watch on later openers are seen; then it is found out who is there still, then whether one who had
/// gone stored; only then the tracker tries itself, which moves times, too.
pub(super) fn open(
    medium: &Medium,
    mapping: &Mapping,
    wanted: Option<TrackerKind>,
    line: &Line,
) -> Result<(Box<dyn Tracker>, FirstPass)> {
    let path = medium.parts[0].path.clone();
    let failed = |error| Error::io("watch who else opens it", &path, error);
    let files = duplicates(medium).map_err(failed)?;
    let watched: Vec<&File> = files.iter().collect();
    let watch = Watch::new(&watched, Children::Allowed);
    let is_shared = !are_alone(&files, false);
    let has_moved = may_have_moved(medium, line)?;
    let is_dax = medium.parts[0].region.kind() == MediaKind::FsDax;
    let tracker = track::open(mapping.span().dax(is_dax), wanted)?;
    if tracker.kind() == TrackerKind::Compare {
        // It compares every page in any case.
        return Ok((tracker, FirstPass::Compares));
    }
    let watch = watch.map_err(failed)?;
    watch.note_times().map_err(failed)?;
    let first = match is_shared || has_moved {
        true => FirstPass::Compares,
        false => FirstPass::Tracked,
    };
    let tracker = Box::new(Watched {
        tracker,
        watch,
        looked: Mutex::default(),
        is_shared: AtomicBool::new(is_shared),
        files,
        path,
    });
    Ok((tracker, first))
}

/// Whether somebody may have stored into an extent since the line's times, as far as they tell.
fn may_have_moved(medium: &Medium, line: &Line) -> Result<bool> {
    let extents = medium.parts.iter().zip(&line.files);
    for (part, file) in extents.take(medium.geometry.extents()) {
        if !part.is_as(file)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether nobody else has one of these open; `unknown` where there are no leases to tell.
fn are_alone(files: &[File], unknown: bool) -> bool {
    files.iter().all(|file| match lease::take(file.as_fd()) {
        Lease::Held => {
            lease::release(file.as_fd());
            true
        }
        Lease::Unknown => unknown,
        Lease::Refused => false,
    })
}

/// Descriptors of the extents' own open files.
fn duplicates(medium: &Medium) -> io::Result<Vec<File>> {
    let extents = &medium.parts[..medium.geometry.extents()];
    let descriptors = extents.iter().filter_map(|part| part.region.descriptor());
    descriptors
        .map(|descriptor| Ok(File::from(descriptor.try_clone_to_owned()?)))
        .collect()
}

impl Tracker for Watched {
    fn kind(&self) -> TrackerKind {
        self.tracker.kind()
    }

    fn find_written(
        &self,
        pages: Range<u64>,
        takes: bool,
        written: &mut Vec<Range<u64>>,
    ) -> Result<Coverage> {
        if !takes {
            return self.tracker.peek_written(pages, written);
        }
        let before = written.len();
        // It is asked before the take: what was stored before it went away is then compared.
        let was_shared = self.is_shared.load(Ordering::Relaxed);
        let is_shared = self.is_shared() || was_shared;
        let look = self.look()?;
        let look = look.after(self.looked().take());
        match self.tracker.take_written(pages, written)? {
            Coverage::Complete if is_shared => Ok(Coverage::MayHaveMissed(Missed::ForeignOpener)),
            Coverage::Complete => Ok(look.coverage(written.len() > before)),
            missed => Ok(missed),
        }
    }

    fn may_be_blind(&self) -> Result<bool> {
        let look = self.look()?;
        let mut looked = self.looked();
        let look = look.after(looked.take());
        *looked = Some(look);
        // That times moved is what stores through the mapping do on most file systems, and the tracker sees those.
        let may_have_missed = look.coverage(true) != Coverage::Complete;
        Ok(may_have_missed || self.is_shared.load(Ordering::Relaxed))
    }

    fn hold(&self, pages: Range<u64>) -> Result<Option<Hold<'_>>> {
        self.tracker.hold(pages)
    }

    fn hold_hot(&self, pages: Range<u64>) -> Result<Option<Hold<'_>>> {
        self.tracker.hold_hot(pages)
    }
}
