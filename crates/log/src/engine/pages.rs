//! Reading what lies on the device while it is looked through.

use crate::device::Device;
use crate::error::{LogError, Result};
use crate::media::{Geometry, Summary};
use crate::page::{PAGE_BYTES, Pages};

/// Reads so many pages.
pub(crate) fn read_pages(device: &dyn Device, page: u64, count: u32) -> Result<Pages> {
    let mut pages = Pages::zeroed(count as usize);
    let read = device.read(page, &mut pages);
    read.map_err(LogError::of_device(device.path(), "read it"))?;
    Ok(pages)
}

/// A segment's summary, if it holds.
pub(crate) fn read_summary(
    device: &dyn Device,
    uuid: u128,
    geometry: Geometry,
    segment: u64,
) -> Result<Option<Summary>> {
    let page = geometry.page_of(segment) + u64::from(geometry.groups_end());
    let first = read_pages(device, page, 1)?;
    let Some(count) = Summary::pages_of(uuid, segment, &first, geometry) else {
        return Ok(None);
    };
    let mut pages = Pages::zeroed(count as usize);
    pages[..PAGE_BYTES].copy_from_slice(&first);
    if count > 1 {
        let rest = read_pages(device, page + 1, count - 1)?;
        pages[PAGE_BYTES..].copy_from_slice(&rest);
    }
    Ok(Summary::decode(uuid, segment, &pages, geometry))
}
