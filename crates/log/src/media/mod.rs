//! What lies on the device, byte by byte: `docs/inside/format.md` has the same as a table.
//!
//! ```text
//! page 0    superblock    1, 2  incarnation lines    3, 4  roster lines    5 …  volume table, two pages a number
//! then      segment 0 | segment 1 | …, each: [header][group][group]…[summary]
//! group     [record, with the bytes of its inline elements][blocks, in the order of the record's elements]
//! ```
//!
//! Every byte is untrusted when it is read: a struct counts if its CRC holds, and then every number in it is bounded
//! before it is used.

mod element;
mod geometry;
mod header;
mod incarnation;
mod layout;
mod record;
mod roster;
mod structs;
mod summary;
mod superblock;
mod volume;

pub(crate) use element::{BLOCK_BITS, Element, Inline, Key, Shape, check_of};
pub(crate) use geometry::{Geometry, PLACES_MIN};
pub(crate) use header::{CleanPoints, SegmentHeader};
pub(crate) use incarnation::{DEPTH_MAX, IncarnationLine, Salt};
pub(crate) use layout::{
    INCARNATION_PAGE, INLINE_BYTES_MAX, ROSTER_PAGE, SUPERBLOCK_PAGE, VOLUMES_MAX, inline_at,
    record_pages, record_pages_with, summary_pages,
};
pub(crate) use record::Record;
pub(crate) use roster::{Roster, Standing};
pub(crate) use summary::Summary;
pub(crate) use superblock::Superblock;
pub use volume::VolumeRow;
pub(crate) use volume::{volume_page, volumes_max};
