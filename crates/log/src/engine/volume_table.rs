//! The volume table as it is known: of each number the row that counts, and which of its two pages are as that says.

use super::pages::read_pages;
use crate::device::{Device, copies};
use crate::error::{LogError, Result};
use crate::media::{Geometry, VolumeRow, volume_page, volumes_max};
use crate::page::{PAGE_BYTES, Pages};

/// A number's row, and the versions that its two pages have; 0 is none that holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    pub(crate) row: Option<VolumeRow>,
    pub(crate) versions: [u64; 2],
    /// The highest version that a page may have, also by a write that failed.
    pub(crate) last_version: u64,
}

/// The table as it is known.
#[derive(Debug, Default)]
pub(crate) struct VolumeTable {
    pub(crate) places: Vec<Place>,
}

impl VolumeTable {
    /// Reads it.
    pub(crate) fn read(device: &dyn Device, uuid: u128, geometry: Geometry) -> Result<VolumeTable> {
        let count = volumes_max(geometry);
        let pages = newest_pages(device, uuid, geometry)?;
        let places = (1..=count).zip(pages.chunks_exact(2 * PAGE_BYTES));
        let places = places.map(|(number, pages)| {
            Place::of(uuid, number, pages).ok_or_else(|| LogError::Damaged {
                path: device.path().to_owned(),
                found: format!("neither copy of row {number} of its volume table holds"),
            })
        });
        Ok(VolumeTable {
            places: places.collect::<Result<_>>()?,
        })
    }

    /// Every row that was ever written.
    pub(crate) fn rows(&self) -> Vec<VolumeRow> {
        let rows = self.places.iter().filter_map(|place| place.row.clone());
        rows.collect()
    }
}

/// The pages of the table as they count: of each page the newest of its copies that holds.
pub(crate) fn newest_pages(device: &dyn Device, uuid: u128, geometry: Geometry) -> Result<Pages> {
    let count = volumes_max(geometry);
    let mut newest: Option<Pages> = None;
    let mut failed = None;
    for copy in copies(device) {
        let pages = match read_pages(copy, volume_page(1, 0), count * 2) {
            Ok(pages) => pages,
            Err(error) => {
                failed = failed.or(Some(error));
                continue;
            }
        };
        let Some(newest) = &mut newest else {
            newest = Some(pages);
            continue;
        };
        for place in 0..pages.count() {
            let number = place as u32 / 2 + 1;
            let version = |page: &[u8]| {
                VolumeRow::decode(uuid, number, page).map_or(0, |(version, _)| version)
            };
            if version(pages.page(place)) > version(newest.page(place)) {
                newest.page_mut(place).copy_from_slice(pages.page(place));
            }
        }
    }
    match (newest, failed) {
        (Some(newest), _) => Ok(newest),
        (None, failed) => Err(failed.expect("it has a copy")),
    }
}

impl Place {
    /// What two pages say; none if it was something and is nothing now.
    fn of(uuid: u128, number: u32, pages: &[u8]) -> Option<Place> {
        let mut place = Place::default();
        for (copy, page) in pages.chunks_exact(PAGE_BYTES).enumerate() {
            if let Some((version, row)) = VolumeRow::decode(uuid, number, page) {
                place.versions[copy] = version;
                if version > place.last_version {
                    place.last_version = version;
                    place.row = Some(row);
                }
            }
        }
        // The first write of a row may be torn, and then the other page is as it was made. Of any later one the other page holds.
        let is_blank = |page: &[u8]| page.iter().all(|byte| *byte == 0);
        let has_blank = pages.chunks_exact(PAGE_BYTES).any(is_blank);
        (place.row.is_some() || has_blank).then_some(place)
    }

    /// The page that is written first: the one that does not hold, or that is older.
    pub(crate) fn first_copy(&self) -> usize {
        usize::from(self.versions[1] < self.versions[0])
    }
}
