//! What lies on the media: every offset and every bit is declared here.

mod geometry;
mod line;
mod sums;

pub(crate) use geometry::{Geometry, PAGE_BYTES, UNIT_BYTES};
pub(crate) use line::{Evidence, FileLine, LINE_BYTES, Line, NAME_BYTES, NoLine, PATH_BYTES};
pub(crate) use sums::{Sum, turned};
