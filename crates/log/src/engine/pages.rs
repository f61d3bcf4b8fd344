//! Reading what lies on the device while it is looked through.

use crate::device::{Device, copies};
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

/// The first of the copies of something of which `look` makes what is wanted. One that cannot be read is passed over if another can.
pub(crate) fn first_of<T>(
    device: &dyn Device,
    mut look: impl FnMut(&dyn Device) -> Result<Option<T>>,
) -> Result<Option<T>> {
    let (mut failed, mut is_read) = (None, false);
    for copy in copies(device) {
        match look(copy) {
            Ok(Some(found)) => return Ok(Some(found)),
            Ok(None) => is_read = true,
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    match failed.filter(|_| !is_read) {
        None => Ok(None),
        Some(error) => Err(error),
    }
}

/// A segment's summary, if it holds on one copy.
pub(crate) fn read_summary(
    device: &dyn Device,
    uuid: u128,
    geometry: Geometry,
    segment: u64,
) -> Result<Option<Summary>> {
    first_of(device, |copy| summary_on(copy, uuid, geometry, segment))
}

/// The same of one copy.
pub(crate) fn summary_on(
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
