//! Rows of the volume table: which backing each number stands for. A number has two pages, which say the same but while one of
//! them is being written.

use super::layout::{VOLUME_PAGE, VOLUMES_MAX, VolumeLine};
use super::structs::{has_crc, seed_of_pool, store_crc};
use crate::media::Geometry;
use crate::page::PAGE_BYTES;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

const MAGIC: u64 = u64::from_le_bytes(*b"FBAYVOLM");
const STATE_FREE: u32 = 0;
const STATE_ATTACHED: u32 = 1;
/// Longest path.
const PATH_BYTES_MAX: usize = PAGE_BYTES - VolumeLine::BYTES;

/// What a pool says of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeRow {
    /// Its number, from 1 on, which its blocks have in the log.
    pub number: u32,
    /// What its user calls it, so that no two volumes that had one number are taken for each other.
    pub id: u32,
    /// Whether there is such a volume; else its number is free.
    pub is_attached: bool,
    /// Where its backing is.
    pub path: PathBuf,
    /// Which file that is.
    pub inode: u64,
    /// Bytes of the volume.
    pub size_bytes: u64,
    /// What its user counts: how often the backing began to be in use.
    pub generation: u64,
    /// What its user says of how far that is.
    pub stage: u32,
}

/// How many volumes a pool of this plan can have: two pages each, before the first segment.
pub(crate) fn volumes_max(geometry: Geometry) -> u32 {
    let pages = geometry.segment_pages - VOLUME_PAGE as u32;
    (pages / 2).min(VOLUMES_MAX as u32)
}

/// Where a number has one of its two pages.
pub(crate) fn volume_page(number: u32, copy: usize) -> u64 {
    VOLUME_PAGE + u64::from(number - 1) * 2 + copy as u64
}

impl VolumeRow {
    /// Whether a page has room for its path.
    pub(crate) fn fits(&self) -> bool {
        self.path.as_os_str().len() <= PATH_BYTES_MAX
    }

    /// Its page, for the pool `uuid`.
    pub(crate) fn encode(&self, uuid: u128, version: u64, page: &mut [u8]) {
        let path = self.path.as_os_str().as_bytes();
        let line = VolumeLine {
            magic: MAGIC,
            uuid,
            version,
            size_bytes: self.size_bytes,
            inode: self.inode,
            generation: self.generation,
            number: self.number,
            id: self.id,
            stage: self.stage,
            state: match self.is_attached {
                true => STATE_ATTACHED,
                false => STATE_FREE,
            },
            path_bytes: path.len() as u32,
            crc: 0,
        };
        line.encode(page);
        page[VolumeLine::BYTES..][..path.len()].copy_from_slice(path);
        store_crc(seed_of_pool(uuid), page, VolumeLine::BYTES - 4);
    }

    /// What a page says, and in which version, if it is one of this number of this pool.
    pub(crate) fn decode(uuid: u128, number: u32, page: &[u8]) -> Option<(u64, VolumeRow)> {
        let line = VolumeLine::decode(page);
        let path = page[VolumeLine::BYTES..].get(..line.path_bytes as usize);
        let is_one = line.magic == MAGIC
            && line.uuid == uuid
            && line.number == number
            && line.version > 0
            && line.version < u64::MAX
            && [STATE_FREE, STATE_ATTACHED].contains(&line.state)
            && has_crc(seed_of_pool(uuid), page, VolumeLine::BYTES - 4);
        let path = path.filter(|_| is_one)?;
        let row = VolumeRow {
            number,
            id: line.id,
            is_attached: line.state == STATE_ATTACHED,
            path: PathBuf::from(OsStr::from_bytes(path)),
            inode: line.inode,
            size_bytes: line.size_bytes,
            generation: line.generation,
            stage: line.stage,
        };
        Some((line.version, row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_as_it_was_written_and_no_bit_of_it_may_differ() {
        let row = VolumeRow {
            number: 7,
            id: 135,
            is_attached: true,
            path: "/srv/disk.img".into(),
            inode: 3,
            size_bytes: 1 << 40,
            generation: 9,
            stage: 2,
        };
        let mut page = vec![0; PAGE_BYTES];
        row.encode(5, 11, &mut page);
        assert_eq!(VolumeRow::decode(5, 7, &page), Some((11, row.clone())));
        assert_eq!(VolumeRow::decode(5, 8, &page), None);
        assert_eq!(VolumeRow::decode(6, 7, &page), None);
        for byte in 0..VolumeLine::BYTES + row.path.as_os_str().len() {
            page[byte] ^= 4;
            assert_eq!(VolumeRow::decode(5, 7, &page), None, "byte {byte}");
            page[byte] ^= 4;
        }
    }

    #[test]
    fn the_smallest_pool_has_a_table_before_its_first_segment() {
        let small = Geometry::with_segments(200, 16).unwrap();
        assert_eq!(volumes_max(small), 5);
        assert!(volume_page(5, 1) < small.page_of(0));
        let usual = Geometry::with_segments(1 << 16, 256).unwrap();
        assert_eq!(volumes_max(usual), 64);
        assert!(volume_page(64, 1) < usual.page_of(0));
    }
}
