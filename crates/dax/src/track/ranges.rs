//! Ascending ranges of pages that do not touch.

use std::ops::Range;

/// Adds a range, to the one before it where they touch; not to one before `first`.
pub(crate) fn push(ranges: &mut Vec<Range<u64>>, first: usize, range: Range<u64>) {
    let is_empty = ranges.len() == first;
    match ranges.last_mut() {
        Some(last) if !is_empty && last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}
