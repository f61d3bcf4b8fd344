//! A tracker together with what notices the stores that it cannot see.

use std::fs::File;
use std::io;
use std::ops::Range;

use forebay_pmem::MediaKind;

use super::mapping::Mapping;
use crate::error::{Error, Result};
use crate::medium::Medium;
use crate::options::TrackerKind;
use crate::track::{self, Children, Coverage, Hold, Tracker, Watch};

/// A tracker under watch.
struct Watched {
    tracker: Box<dyn Tracker>,
    watch: Watch,
    path: std::path::PathBuf,
}

/// The tracker of a region's mapping: the one asked for, or the best that can be had.
pub(super) fn open(
    medium: &Medium,
    mapping: &Mapping,
    wanted: Option<TrackerKind>,
) -> Result<Box<dyn Tracker>> {
    let is_dax = medium.parts[0].region.kind() == MediaKind::FsDax;
    let tracker = track::open(mapping.span().dax(is_dax), wanted)?;
    if tracker.kind() == TrackerKind::Compare {
        // It compares every page in any case.
        return Ok(tracker);
    }
    let path = medium.parts[0].path.clone();
    let files = duplicates(medium).and_then(|files| {
        let files: Vec<&File> = files.iter().collect();
        Watch::new(&files, Children::Allowed)
    });
    let watch = files.map_err(|error| Error::io("watch who else opens it", &path, error))?;
    Ok(Box::new(Watched {
        tracker,
        watch,
        path,
    }))
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

    fn take_written(&self, pages: Range<u64>, written: &mut Vec<Range<u64>>) -> Result<Coverage> {
        let before = written.len();
        let look = self.watch.look();
        let look = look.map_err(|error| Error::io("look who else opened it", &self.path, error))?;
        match self.tracker.take_written(pages, written)? {
            Coverage::Complete => Ok(look.coverage(written.len() > before)),
            missed => Ok(missed),
        }
    }

    fn peek_written(&self, pages: Range<u64>, written: &mut Vec<Range<u64>>) -> Result<Coverage> {
        self.tracker.peek_written(pages, written)
    }

    fn hold(&self, pages: Range<u64>) -> Result<Option<Hold<'_>>> {
        self.tracker.hold(pages)
    }

    fn hold_hot(&self, pages: Range<u64>) -> Result<Option<Hold<'_>>> {
        self.tracker.hold_hot(pages)
    }
}
