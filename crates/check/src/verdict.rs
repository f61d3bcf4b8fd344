//! Recovers an image and says which state it holds.

use crate::cache::{Begins, Cache};
use crate::digest::Fold;
use crate::image::{Image, regions};
use crate::incarnation::caught;
use crate::mark;
use crate::oracle::{BlockStates, Contents, Found};
use crate::scenario::Shape;
use crate::subject;
use forebay::Backing;
use std::collections::HashSet;
use std::hash::Hasher;

/// Numbers of the incarnations in which an image is verified; no incarnation before it has them.
const VERIFYING: u64 = 1 << 32;

/// How closely a recovered cache is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// Every block is read.
    Read,
    /// Then it is checked.
    Check,
    /// Then it is emptied into its backings, if it can be, and they are compared with it.
    Empty,
}

/// Opens `image` and reads every block; if `twice`, checks it and does it once
/// more from what that left.
pub fn recover(shape: &Shape, image: &Image, twice: bool) -> Result<Found, String> {
    let look = if twice { Look::Check } else { Look::Read };
    let (found, after) = caught(|| recover_once(shape, VERIFYING, image, look))??;
    if twice {
        let (again, _) = caught(|| recover_once(shape, VERIFYING + 1, &after, Look::Empty))??;
        if found != again {
            let block = found.iter().zip(&again).position(|(a, b)| a != b);
            return Err(format!(
                "a second recovery finds something else in block {block:?}"
            ));
        }
    }
    Ok(found)
}

fn recover_once(
    shape: &Shape,
    incarnation: u64,
    image: &Image,
    look: Look,
) -> Result<(Found, Image), String> {
    let shadows = image.shadows(shape);
    let stores = image.crash_stores(shape, 0);
    let backing = |volume: usize| Backing::from_store(stores[volume].clone());
    let regions = regions(&shadows);
    let begins = match image.is_replaced {
        true => Begins::OpenedWithout,
        false => Begins::Opened,
    };
    let cache = subject::open(shape, begins, incarnation, regions, backing);
    let cache = cache.map_err(|refusal| refusal.text)?;
    if mark::are_whole(image) {
        cache.check_nothing_dirty()?;
    }
    let found = read_all(&*cache, shape, image)?;
    if look != Look::Read {
        cache.check()?;
        cache.check_undamaged()?;
        cache.evict_clean(shape.slots)?;
        let again = read_all(&*cache, shape, image)?;
        if let Some(block) = found.iter().zip(&again).position(|(one, two)| one != two) {
            return Err(format!(
                "block {block} counted as clean, and reads otherwise once it has left the pool"
            ));
        }
    }
    if look == Look::Empty {
        cache.empty(&stores)?;
    }
    drop(cache);
    let media = shadows
        .iter()
        .map(|shadow| shadow.crash_state().durable().to_vec())
        .collect();
    // Reads may evict, and evicted blocks go to their backings.
    let states = stores.iter().map(|store| store.crash_state());
    let (stores, marks) = states
        .map(|state| (state.durable(), state.mark.durable()))
        .unzip();
    let after = Image {
        media,
        stores,
        marks,
        lost: Vec::new(),
        is_replaced: image.is_replaced,
    };
    Ok((found, after))
}

/// Every block as it reads.
fn read_all(cache: &dyn Cache, shape: &Shape, image: &Image) -> Result<Found, String> {
    let mut found = Vec::with_capacity(shape.blocks());
    for volume in 0..shape.volumes {
        for block in 0..shape.volume_blocks {
            let read = cache.read_block(shape, volume, block);
            let read =
                read.map_err(|error| format!("read of volume {volume} block {block}: {error}"))?;
            found.push(whole(shape, image, (volume, block), read));
        }
    }
    Ok(found)
}

/// What was read of a block; where the volume ends before it or within it, the backing goes on.
pub fn whole(
    shape: &Shape,
    image: &Image,
    (volume, block): (usize, usize),
    read: Option<Vec<u8>>,
) -> Vec<u8> {
    let mut bytes = read.unwrap_or_default();
    let start = block * shape.block_bytes;
    let end = start + shape.bytes_of(u64::MAX, block);
    bytes.extend_from_slice(&image.stores[volume][start + bytes.len()..end]);
    bytes
}

/// Whether `found` is one of the `legal` states; if not, in what it differs from the nearest one.
pub fn verify(
    shape: &Shape,
    found: &Found,
    legal: &HashSet<BlockStates>,
    contents: &Contents,
) -> Result<(), String> {
    let ids: Vec<Option<u32>> = found.iter().map(|bytes| contents.find(bytes)).collect();
    if let Some(state) = ids.iter().copied().collect::<Option<Vec<u32>>>()
        && legal.contains(state.as_slice())
    {
        return Ok(());
    }
    differs(shape, found, legal, contents)
}

/// The same where some blocks are errors rightly, and none of `found`.
pub fn verify_known(
    shape: &Shape,
    found: &[Option<Vec<u8>>],
    legal: &HashSet<BlockStates>,
    contents: &Contents,
) -> Result<(), String> {
    let matches = |(want, bytes): (&u32, &Option<Vec<u8>>)| match bytes {
        Some(bytes) => contents.find(bytes) == Some(*want),
        None => true,
    };
    if legal
        .iter()
        .any(|state| state.iter().zip(found).all(matches))
    {
        return Ok(());
    }
    let found = found.iter().map(|bytes| bytes.clone().unwrap_or_default());
    differs(shape, &found.collect(), legal, contents)
}

/// In what `found` differs from the nearest of the legal states.
fn differs(
    shape: &Shape,
    found: &Found,
    legal: &HashSet<BlockStates>,
    contents: &Contents,
) -> Result<(), String> {
    let ids: Vec<Option<u32>> = found.iter().map(|bytes| contents.find(bytes)).collect();
    let distance = |state: &&BlockStates| {
        state
            .iter()
            .zip(&ids)
            .filter(|(want, have)| Some(**want) != **have)
            .count()
    };
    let nearest = legal
        .iter()
        .min_by_key(distance)
        .ok_or("no state is legal")?;
    let mut differences = Vec::new();
    for (block, (want, have)) in nearest.iter().zip(&ids).enumerate() {
        if Some(*want) == *have {
            continue;
        }
        let (volume, number) = (block / shape.volume_blocks, block % shape.volume_blocks);
        let have = match have {
            Some(have) => format!("what {} left", contents.origin(*have)),
            None => {
                let same = found[block]
                    .iter()
                    .zip(contents.bytes(*want))
                    .filter(|(a, b)| a == b);
                format!("bytes never written ({} of them as wanted)", same.count())
            }
        };
        differences.push(format!(
            "volume {volume} block {number} holds {have}, not what {} left",
            contents.origin(*want)
        ));
    }
    Err(format!(
        "none of {} legal states; nearest: {}",
        legal.len(),
        differences.join("; ")
    ))
}

/// A hash that tells images apart.
pub fn image_hash(image: &Image) -> u64 {
    let mut hasher = Fold::default();
    let stores = image.stores.iter().chain(&image.marks);
    for bytes in image.media.iter().chain(stores) {
        hasher.write(bytes);
        hasher.write_u64(bytes.len() as u64);
    }
    hasher.write_u8(u8::from(image.is_replaced));
    for (member, pages) in (1..).zip(&image.lost) {
        pages
            .iter()
            .for_each(|page| hasher.write_u64(member << 48 | *page));
    }
    hasher.finish()
}
