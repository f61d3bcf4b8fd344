//! What keeps sums and parity: over the files of a region and a tracker, whatever these are.

mod format;

pub(crate) use format::{file_lines, format, put_lines};
