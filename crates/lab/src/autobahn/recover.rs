//! Recovery (§4.5): dirty blocks go to their files. It can be cut off and begun again.

use std::collections::BTreeMap;
use std::io;

use super::folder::{Folder, StoredFile};
use super::layout::IN_USE;
use super::media::{Media, State, VolumeEntry, refused};
use super::options::AutoBahnOptions;

/// What recovery did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Files that were in use.
    pub files: u64,
    /// Dirty blocks brought to them.
    pub blocks: u64,
}

/// A dirty block.
#[derive(Clone, Copy, Debug)]
struct Found {
    inode: u32,
    block: u32,
    /// Bytes of the file up to which its inode says that it goes; zero where the size alone says that.
    until: u64,
}

/// Brings all that is dirty to the files. By default nothing stays, clean neither, and no volume is in use.
///
/// # Errors
/// The region is damaged; a file is not there, is another one, or fails.
pub(super) fn recover(
    media: &Media,
    folder: &dyn Folder,
    options: &AutoBahnOptions,
) -> io::Result<Recovered> {
    if !options.as_printed {
        // A killed process may have left here what a power cut takes back: not after it was believed.
        media.flush_found();
        media.fence()?;
    }
    let dirty = dirty_blocks(media)?;
    let mut recovered = Recovered::default();
    let mut failures = Vec::new();
    for volume in 0..media.layout.volumes as u32 {
        let Some(entry) = media.described(volume)? else {
            continue;
        };
        recovered.files += 1;
        let of_volume = dirty.range((volume, 0)..=(volume, u64::MAX));
        let of_volume: Vec<(u64, Found)> =
            of_volume.map(|(&(_, lbn), found)| (lbn, *found)).collect();
        let brought = bring_to_file(media, folder, &entry, &of_volume, options);
        match brought {
            Ok(()) => recovered.blocks += of_volume.len() as u64,
            Err(error) => {
                failures.push(format!("{}: {error}", entry.path.display()));
                continue;
            }
        }
        for (_, found) in &of_volume {
            media.set_state(found.inode, State::Clean);
        }
        // Clean before the volume goes: dirty blocks have a volume.
        media.fence()?;
        if !options.as_printed {
            media.set_flags(volume, 0);
        }
    }
    media.fence()?;
    if !failures.is_empty() {
        let why = format!(
            "not recovered, and kept in the region: {}",
            failures.join("; ")
        );
        return Err(io::Error::other(why));
    }
    if !options.as_printed {
        for inode in 0..media.layout.blocks as u32 {
            media.format_inode(inode, inode);
        }
        media.fence()?;
    }
    Ok(recovered)
}

/// All dirty blocks, by volume and place.
fn dirty_blocks(media: &Media) -> io::Result<BTreeMap<(u32, u64), Found>> {
    let mut dirty = BTreeMap::new();
    let mut owners = BTreeMap::new();
    let block_bytes = media.layout.block_bytes;
    for inode in 0..media.layout.blocks as u32 {
        let found = media.inode(inode);
        let damaged = |why: &str| refused(media.region(), &format!("damaged: inode {inode} {why}"));
        let state = found.state.ok_or_else(|| damaged("has no state"))?;
        if state != State::Dirty {
            continue;
        }
        let volume = found.volume.filter(|&volume| {
            u64::from(volume) < media.layout.volumes && media.flags(volume) & IN_USE != 0
        });
        let volume = volume.ok_or_else(|| damaged("is dirty and of no file"))?;
        let begin = found.lbn.checked_mul(block_bytes);
        let begin = begin.filter(|_| u64::from(found.valid) <= block_bytes);
        let begin = begin.filter(|begin| begin.checked_add(block_bytes).is_some());
        let begin = begin.ok_or_else(|| damaged("has a place that no file has"))?;
        if u64::from(found.block) >= media.layout.blocks
            || owners.insert(found.block, inode).is_some()
        {
            return Err(damaged("has a block that is another one's, or none"));
        }
        let until = match found.valid {
            0 => 0,
            valid => begin + u64::from(valid),
        };
        let one = Found {
            inode,
            block: found.block,
            until,
        };
        if dirty.insert((volume, found.lbn), one).is_some() {
            return Err(damaged("is of a block that has another one"));
        }
    }
    Ok(dirty)
}

fn bring_to_file(
    media: &Media,
    folder: &dyn Folder,
    entry: &VolumeEntry,
    dirty: &[(u64, Found)],
    options: &AutoBahnOptions,
) -> io::Result<()> {
    if dirty.is_empty() && !options.as_printed {
        return Ok(());
    }
    let file = open_again(folder, entry, options)?;
    let block_bytes = media.layout.block_bytes;
    let size_bytes = dirty.iter().map(|(_, found)| found.until);
    let size_bytes = size_bytes.fold(entry.size_bytes, u64::max);
    for (lbn, found) in dirty {
        let begin = lbn * block_bytes;
        let len = size_bytes.saturating_sub(begin).min(block_bytes);
        let mut content = vec![0; len as usize];
        media.get(found.block, 0, &mut content);
        if !content.is_empty() {
            file.write_at(begin, &content)?;
        }
    }
    file.sync()
}

/// The file that a volume is of, by its path. Another one there is refused: as printed the path alone counts.
fn open_again(
    folder: &dyn Folder,
    entry: &VolumeEntry,
    options: &AutoBahnOptions,
) -> io::Result<std::sync::Arc<dyn StoredFile>> {
    let file = folder.open(&entry.path, options.as_printed)?;
    if !options.as_printed && file.number()? != entry.number {
        let why = "another file has its name; move that one away and the buffered one back, then open again";
        return Err(io::Error::other(why));
    }
    Ok(file)
}
