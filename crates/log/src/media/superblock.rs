//! The superblock: that this is a pool, of which sizes. Written once.

use super::geometry::Geometry;
use super::layout::SuperblockLine;
use super::structs::{has_crc, store_crc};
use crate::page::PAGE_BYTES;

const MAGIC: u64 = u64::from_le_bytes(*b"FBAYSSD1");
const VERSION: u32 = 1;
/// The pool was made for tests.
const FLAG_TEST: u32 = 1;
/// Records may have inline elements. A program that does not know these would take such a record for a torn one.
const FLAG_INLINE: u32 = 2;
/// The pool is on two members, each of which has a roster.
const FLAG_MIRROR: u32 = 4;
const FLAGS_KNOWN: u32 = FLAG_TEST | FLAG_INLINE | FLAG_MIRROR;

/// What it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    /// Which pool it is.
    pub(crate) uuid: u128,
    /// Its plan.
    pub(crate) geometry: Geometry,
    /// Whether it was made for tests, which may break what is around it.
    pub(crate) is_test: bool,
    /// Whether its records may have inline elements: not if an earlier version made it.
    pub(crate) has_inline: bool,
    /// Whether it is on two members that hold the same.
    pub(crate) is_mirrored: bool,
}

impl Superblock {
    /// Its page.
    pub(crate) fn encode(&self, page: &mut [u8]) {
        let line = SuperblockLine {
            magic: MAGIC,
            version: VERSION,
            page_bytes: PAGE_BYTES as u32,
            uuid: self.uuid,
            segment_pages: self.geometry.segment_pages,
            places: self.geometry.places,
            pages: self.geometry.pages(),
            flags: (u32::from(self.is_test) * FLAG_TEST)
                | (u32::from(self.has_inline) * FLAG_INLINE)
                | (u32::from(self.is_mirrored) * FLAG_MIRROR),
            ..SuperblockLine::default()
        };
        line.encode(page);
        store_crc(0, page, SuperblockLine::BYTES - 4);
    }

    /// Whether a page begins as one does; the rest may be damaged.
    pub(crate) fn has_magic(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC.to_le_bytes())
    }

    /// What a page says, on a device of so many pages; or why it is none, in words.
    pub(crate) fn decode(page: &[u8], device_pages: u64) -> Result<Superblock, String> {
        let line = SuperblockLine::decode(page);
        if line.magic != MAGIC {
            return Err("the first page is not that of one".into());
        }
        if !has_crc(0, page, SuperblockLine::BYTES - 4) {
            return Err("the checksum of its superblock does not hold".into());
        }
        if line.version != VERSION || line.page_bytes != PAGE_BYTES as u32 {
            let version = line.version;
            return Err(format!(
                "its format is version {version}, and this program knows {VERSION}"
            ));
        }
        if line.flags & !FLAGS_KNOWN != 0 {
            let flags = line.flags;
            return Err(format!(
                "its superblock has the flags {flags:#x}, of which this program knows {FLAGS_KNOWN:#x}"
            ));
        }
        if line.pages > device_pages {
            let wanted = line.pages;
            return Err(format!(
                "it has {wanted} pages, of which the device holds {device_pages}"
            ));
        }
        let geometry = Geometry::with_segments(line.pages, line.segment_pages);
        match geometry {
            Some(geometry) if geometry.places == line.places => Ok(Superblock {
                uuid: line.uuid,
                geometry,
                is_test: line.flags & FLAG_TEST != 0,
                has_inline: line.flags & FLAG_INLINE != 0,
                is_mirrored: line.flags & FLAG_MIRROR != 0,
            }),
            _ => Err("its superblock has sizes that no pool has".into()),
        }
    }
}
