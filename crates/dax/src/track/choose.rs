//! Which tracker a mapping gets.

use super::async_wp::AsyncTracker;
use super::compare::CompareTracker;
use super::fault::FaultTracker;
use super::span::Span;
use super::{Tracker, soft_dirty};
use crate::error::{ErrorKind, Result};
use crate::options::TrackerKind;

/// The tracker asked for, or an error that says why it cannot be had; asked for none, the best that can be.
pub(crate) fn open(mapping: Span, wanted: Option<TrackerKind>) -> Result<Box<dyn Tracker>> {
    match wanted {
        Some(TrackerKind::AsyncWriteProtect) => Ok(Box::new(AsyncTracker::new(mapping)?)),
        Some(TrackerKind::SoftDirty) => Err(ErrorKind::Tracker {
            tracker: TrackerKind::SoftDirty,
            found: soft_dirty::refusal(),
        }
        .into()),
        Some(TrackerKind::Fault) => Ok(Box::new(FaultTracker::new(mapping)?)),
        Some(TrackerKind::Compare) => Ok(Box::new(CompareTracker)),
        None => Ok(best(mapping)),
    }
}

fn best(mapping: Span) -> Box<dyn Tracker> {
    if let Ok(tracker) = AsyncTracker::new(mapping) {
        return Box::new(tracker);
    }
    // Not `fault`: read(2) into the region, which programs do, would fail with EFAULT.
    Box::new(CompareTracker)
}
