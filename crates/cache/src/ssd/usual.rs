//! What a new pool is made on where nobody says it.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use forebay_log::{FileDevice, has_room_for_a_pool};
use forebay_pmem::{MediaKind, nameless_beside};

use crate::options::{Medium, PoolOptions, Redundancy};

/// What these options have that no pool on an SSD has.
pub(super) fn what_it_lacks(options: &PoolOptions) -> Option<&'static str> {
    let format = &options.format;
    let is_asked = [
        (options.paths.len() > 1, "has one member"),
        (format.redundancy != Redundancy::None, "has no redundancy"),
        (options.runtime.witness.is_some(), "has no witness"),
        (
            format.block_bytes != forebay_log::PAGE_BYTES as u32,
            "has blocks of 4096 bytes",
        ),
        (
            format.strict || !format.checksums,
            "always has checksums, by which recovery goes, so it cannot be strict either",
        ),
        (
            format.lanes.is_some() || format.lane_bytes.is_some(),
            "has no lanes",
        ),
    ];
    let first = is_asked.into_iter().find(|(is_asked, _)| *is_asked);
    first.map(|(_, what)| what)
}

/// A log on plain files and block devices, and memory that is mapped on everything else. A plain file that can have no log is
/// mapped too, page by page: then the text says why. What is wrong with the place itself `create` says.
pub(crate) fn usual_medium(options: &PoolOptions) -> (Medium, Option<String>) {
    let Some(path) = options.paths.first() else {
        return (Medium::Memory, None);
    };
    let found = std::fs::symlink_metadata(path).map(|found| found.file_type());
    match found {
        Ok(found) if found.is_block_device() => (Medium::Ssd, None),
        Ok(found) if !found.is_file() => (Medium::Memory, None),
        _ => usual_of_file(options, path),
    }
}

fn usual_of_file(options: &PoolOptions, path: &Path) -> (Medium, Option<String>) {
    let mapped = |why: String| (Medium::Memory, Some(why));
    let (probe, kind) = match nameless_beside(path) {
        Ok(probe) => probe,
        Err(error) => return mapped(format!("what a file there is cannot be asked ({error})")),
    };
    if kind != MediaKind::PlainFile {
        return (Medium::Memory, None);
    }
    if let Some(what) = what_it_lacks(options) {
        return mapped(format!("a pool on an SSD {what}"));
    }
    if !has_room_for_a_pool(options.member_bytes) {
        return mapped(String::from("a pool on an SSD has 9 MiB to 16 TiB"));
    }
    match FileDevice::obstacle(probe, path) {
        Some(why) => mapped(why),
        None => (Medium::Ssd, None),
    }
}
