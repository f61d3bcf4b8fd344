//! What lies on the media: every offset and every bit is declared here.

mod boot;
mod generation;
mod geometry;
mod line;
mod sums;

pub(crate) use generation::{Generation, History};
#[cfg(feature = "campaign")]
pub(crate) use geometry::ALLOWS_SMALL_UNITS;
pub(crate) use geometry::{Geometry, PAGE_BYTES, SUMS_AT, UNIT_BYTES};
pub(crate) use line::{
    Evidence, FileLine, LINE_BYTES, Line, Mark, NAME_BYTES, NoLine, PATH_BYTES, Relation,
};
pub(crate) use sums::{Copies, Sum, turned};
