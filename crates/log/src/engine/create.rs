//! Making a pool on a device.

use super::core::{Log, Options};
use super::open::{draw, open};
use super::pages::read_pages;
use crate::device::{Device, copies};
use crate::error::{LogError, Result};
use crate::media::{
    Geometry, INCARNATION_PAGE, IncarnationLine, PLACES_MIN, SUPERBLOCK_PAGE, Salt, Superblock,
    volume_page, volumes_max,
};
use crate::page::{PAGE_BYTES, Pages};
use std::sync::Arc;

/// Makes a pool on a device that has none, and opens it. Until the superblock is there, which comes last, there is none.
///
/// # Errors
/// There is one already; the device is too small or too large; it fails.
pub fn create(device: Arc<dyn Device>, options: Options) -> Result<Log> {
    let unsuitable = |reason: String| LogError::Unsuitable {
        path: device.path().to_owned(),
        reason,
    };
    let pages = device.pages();
    let geometry = match options.segment_pages {
        Some(segment_pages) => Geometry::with_segments(pages, segment_pages),
        None => Geometry::of_device(pages),
    };
    let geometry = geometry.ok_or_else(|| {
        let bytes = pages * PAGE_BYTES as u64;
        unsuitable(format!(
            "a pool of {bytes} bytes cannot be made: it has {PLACES_MIN} segments of at least a MiB and one more, \
             and fewer than 2^32 pages"
        ))
    })?;
    for copy in copies(&*device) {
        let first = read_pages(copy, SUPERBLOCK_PAGE, 1)?;
        if Superblock::decode(&first, u64::MAX).is_ok() {
            return Err(LogError::Unsuitable {
                path: copy.path().to_owned(),
                reason: "a pool is here already; open it, or clear its first page".into(),
            });
        }
    }
    let made = format(&*device, geometry, &options);
    made.map_err(LogError::of_device(device.path(), "make a pool on it"))?;
    open(device, options)
}

/// Whether a device of so many bytes has the segments that a pool needs, and no more pages than it can number.
#[must_use]
pub fn has_room_for_a_pool(bytes: u64) -> bool {
    Geometry::of_device(bytes / PAGE_BYTES as u64).is_some()
}

/// Takes away what makes a pool of a device, durably.
///
/// # Errors
/// The device fails.
pub fn clear(device: &dyn Device) -> Result<()> {
    let cleared = device.write_durable(SUPERBLOCK_PAGE, &[&Pages::zeroed(1)]);
    cleared.map_err(LogError::of_device(device.path(), "clear its first page"))
}

/// Whether a file or device that begins so is a pool on an SSD.
#[must_use]
pub fn begins_as_pool(bytes: &[u8]) -> bool {
    Superblock::has_magic(bytes)
}

fn format(device: &dyn Device, geometry: Geometry, options: &Options) -> std::io::Result<()> {
    let seed = options.seed;
    let [high, low] = [draw(seed, u64::MAX)?, draw(seed, u64::MAX - 1)?];
    let uuid = u128::from(high) << 64 | u128::from(low);
    if let Some(members) = device.members() {
        let ids = [draw(seed, u64::MAX - 2)?, draw(seed, u64::MAX - 3)?];
        members.found(uuid, ids)?;
    }
    let line = IncarnationLine {
        number: 1,
        salt: Salt(draw(seed, 1)?),
        first_segment: 0,
        depth: 1,
    };
    let mut lines = Pages::zeroed(2);
    line.encode(uuid, lines.page_mut(1));
    device.write_durable(INCARNATION_PAGE, &[&lines])?;
    // Whatever lay there before is no row.
    let table = Pages::zeroed(2 * volumes_max(geometry) as usize);
    device.write_durable(volume_page(1, 0), &[&table])?;
    let mut page = Pages::zeroed(1);
    let is_mirrored = device.members().is_some();
    let superblock = Superblock {
        uuid,
        geometry,
        is_test: options.is_test,
        has_inline: options.has_inline && !is_mirrored,
        is_mirrored,
    };
    superblock.encode(&mut page);
    device.write_durable(SUPERBLOCK_PAGE, &[&page])
}
