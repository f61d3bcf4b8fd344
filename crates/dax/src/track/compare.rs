//! No tracker: every page is read and compared with its sum.

use std::ops::Range;

use super::{Coverage, Hold, Missed, Tracker};
use crate::error::Result;
use crate::options::TrackerKind;

/// Sees nothing, and says so.
#[derive(Debug, Default)]
pub(crate) struct CompareTracker;

impl Tracker for CompareTracker {
    fn kind(&self) -> TrackerKind {
        TrackerKind::Compare
    }

    fn find_written(&self, _: Range<u64>, _: bool, _: &mut Vec<Range<u64>>) -> Result<Coverage> {
        Ok(Coverage::MayHaveMissed(Missed::Untracked))
    }

    fn hold(&self, _: Range<u64>) -> Result<Option<Hold<'_>>> {
        Ok(None)
    }
}
