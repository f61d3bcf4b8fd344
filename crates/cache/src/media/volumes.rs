//! The volume table: which backing each id stands for, so that no block ever meets another disk.
//!
//! A volume's description has two lines that are written in turn; the valid one with the greater
//! version counts. In a pool of one copy that has seals both are, so that one that goes bad leaves the same in
//! the other. An id is its place in the table and a generation that grows with each use.

use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::backing::BackingIdentity;
use crate::error::{ErrorKind, Result};
use crate::marks::Stage;
use crate::media::Media;
use crate::media::copies::{self, LineState};
use crate::media::entry::{BLOCK_BITS, VOLUME_BITS};
use crate::media::layout::{VOLUME_BYTES, VOLUME_PATH_BYTES, VolumeLine};

/// Bits of an id that are the place in the table, plus one so that no id is 0.
const PLACE_BITS: u32 = 7;
const STATE_FREE: u32 = 0;
const STATE_ATTACHED: u32 = 1;

/// The place in the table that an id belongs to.
#[inline]
pub(crate) fn place_of(id: u32) -> usize {
    (id as usize & ((1 << PLACE_BITS) - 1)).wrapping_sub(1)
}

/// What the table says of a volume's mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) generation: u64,
    pub(crate) stage: Stage,
}

/// Generations beyond it are nonsense: no counter of ours overflows.
const GENERATION_MAX: u64 = 1 << 62;

/// What the table says of one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Description {
    pub(crate) place: u32,
    version: u64,
    line: u64,
    pub(crate) id: u32,
    pub(crate) attached: bool,
    pub(crate) identity: BackingIdentity,
    pub(crate) standing: Standing,
}

/// Reads the current description of a place; `None` where there never was a volume. Where several members have it the
/// newer one counts: a crash may have kept it from the other.
pub(crate) fn read(media: &Media, place: u32) -> Option<Description> {
    let copies = media.metadata();
    let lines = copies.flat_map(|region| (0..2).map(move |line| (region, line)));
    let lines = lines.filter_map(|(region, line)| {
        let mut raw = [0; VOLUME_BYTES];
        region.read(media.geometry.volume_line(place, line), &mut raw);
        let found = VolumeLine::decode(&raw)
            .filter(|found| is_sensible(found, place, u64::from(media.geometry.block_bytes)))?;
        Some((found, line))
    });
    let (found, line) = lines.max_by_key(|(found, _)| found.version)?;
    let path_bytes = found.path_bytes as usize;
    Some(Description {
        place,
        version: found.version,
        line,
        id: found.id,
        attached: found.state == STATE_ATTACHED,
        identity: BackingIdentity {
            path: PathBuf::from(OsStr::from_bytes(&found.path[..path_bytes])),
            inode: found.inode,
            size_bytes: found.size_bytes,
        },
        standing: Standing {
            generation: found.generation,
            stage: Stage::of_number(found.stage).expect("a sensible line has one"),
        },
    })
}

/// Where the line of a place lies that counts, if a volume is attached there.
pub(crate) fn current_line(media: &Media, place: u32) -> Option<Range<u64>> {
    let current = read(media, place).filter(|found| found.attached)?;
    let offset = media.geometry.volume_line(place, current.line);
    Some(offset..offset + VOLUME_BYTES as u64)
}

/// Whether a line of `place` says what `write` could have said. Keys are made of its numbers.
fn is_sensible(line: &VolumeLine, place: u32, block_bytes: u64) -> bool {
    let blocks = line.size_bytes.div_ceil(block_bytes);
    line.id < 1 << VOLUME_BITS
        && line.id & ((1 << PLACE_BITS) - 1) == place + 1
        && (1..=1 << BLOCK_BITS).contains(&blocks)
        && [STATE_FREE, STATE_ATTACHED].contains(&line.state)
        && line.path_bytes as usize <= VOLUME_PATH_BYTES
        && line.version < u64::MAX
        && line.generation < GENERATION_MAX
        && Stage::of_number(line.stage).is_some()
}

/// All volumes that are attached.
pub(crate) fn read_attached(media: &Media) -> Vec<Description> {
    let places = 0..media.geometry.volumes;
    places
        .filter_map(|place| read(media, place))
        .filter(|found| found.attached)
        .collect()
}

/// Flushes all lines of the table, as found.
pub(crate) fn flush_found(media: &Media) {
    let start = media.geometry.volume_line(0, 0);
    let len = media.geometry.volumes as usize * 2 * VOLUME_BYTES;
    media.on_metadata(|region| media.flush_found(region, start, len));
}

/// Stores each volume's current line where a member lacks it; durable after a fence. What it replaces there is older
/// than the member's other line, or torn.
pub(crate) fn equalise(media: &Media) {
    let _held = media.hold_volume_lines();
    for place in 0..media.geometry.volumes {
        let Some(current) = read(media, place) else {
            continue;
        };
        let offset = media.geometry.volume_line(place, current.line);
        let copies = media.metadata().map(|region| {
            let mut raw = [0; VOLUME_BYTES];
            region.read(offset, &mut raw);
            (region, raw)
        });
        let is_current = |raw: &[u8; VOLUME_BYTES]| {
            VolumeLine::decode(raw).is_some_and(|line| line.version == current.version)
        };
        let copies: Vec<_> = copies.collect();
        let Some((_, newest)) = copies.iter().find(|(_, raw)| is_current(raw)) else {
            continue;
        };
        for (region, _) in copies.iter().filter(|(_, raw)| !is_current(raw)) {
            region.store(offset, newest);
            region.flush(offset, VOLUME_BYTES);
        }
    }
}

/// Compares the members' copies of a place's current line, or the two lines of one copy.
pub(crate) fn settle_current(media: &Media, place: u32, evict: bool) -> LineState {
    let _held = media.hold_volume_lines();
    if media.has_lone_seals() {
        return settle_twins(media, place, evict);
    }
    let Some(current) = read(media, place) else {
        return LineState::Same;
    };
    let is_current = |raw: &[u8]| {
        let line = raw.try_into().ok().and_then(VolumeLine::decode);
        line.is_some_and(|line| line.version == current.version)
    };
    let offset = media.geometry.volume_line(place, current.line);
    media.settle_copies(offset, VOLUME_BYTES, evict, is_current)
}

/// Has both lines of a place say the same: the newer one, if either can be read.
fn settle_twins(media: &Media, place: u32, evict: bool) -> LineState {
    let are_twins = |evict| {
        let says = [0, 1].map(|which| {
            if evict {
                let offset = media.geometry.volume_line(place, which);
                media.main().evict(offset, VOLUME_BYTES);
            }
            let line = line_at(media, place, which);
            line.map(|line| VolumeLine { version: 0, ..line }.encode())
        });
        says[0] == says[1]
    };
    if are_twins(evict) {
        return LineState::Same;
    }
    if are_twins(true) {
        return LineState::Transient;
    }
    let right = read(media, place).and_then(|current| {
        let line = line_at(media, place, current.line)?;
        Some((current.line ^ 1, twin_of(line)))
    });
    right.map_or(LineState::Unrepaired, |(which, twin)| {
        let offset = media.geometry.volume_line(place, which);
        copies::rewrite(media.main(), offset, &twin.encode())
    })
}

/// The id that a place gets at its next use.
pub(crate) fn next_id(place: u32, before: Option<&Description>) -> u32 {
    let generations = 1 << (VOLUME_BITS - PLACE_BITS);
    let generation = before.map_or(0, |found| ((found.id >> PLACE_BITS) + 1) % generations);
    generation << PLACE_BITS | (place + 1)
}

/// Stores and flushes a description: attached with `identity`, or free. It is durable after a fence. If that
/// fails a crash may find it or not, and no record may rest on either.
pub(crate) fn store(
    media: &Media,
    place: u32,
    id: u32,
    identity: &BackingIdentity,
    standing: Standing,
    attached: bool,
) -> Result<()> {
    let path = encode_path(&identity.path)?;
    let _held = media.hold_volume_lines();
    let before = read(media, place);
    let line = VolumeLine {
        version: before.as_ref().map_or(0, |found| found.version) + 1,
        size_bytes: identity.size_bytes,
        inode: identity.inode,
        id,
        state: if attached { STATE_ATTACHED } else { STATE_FREE },
        path_bytes: identity.path.as_os_str().len() as u32,
        reserved0: 0,
        path,
        generation: standing.generation,
        stage: standing.stage.number(),
        reserved: [0; 16],
        crc: 0,
    };
    let which = before.map_or(0, |found| found.line ^ 1);
    send(media, place, which, &line);
    Ok(())
}

/// Stores and flushes a description that is durable over what was there before, if the pool has both lines say the same; true
/// if it does.
pub(crate) fn store_twin(media: &Media, place: u32) -> bool {
    if !media.has_lone_seals() {
        return false;
    }
    let Some(current) = read(media, place) else {
        return false;
    };
    let line = line_at(media, place, current.line);
    line.inspect(|line| send(media, place, current.line ^ 1, &twin_of(*line)))
        .is_some()
}

/// One of the two lines of a place on the first member, if it can be read.
fn line_at(media: &Media, place: u32, which: u64) -> Option<VolumeLine> {
    let mut raw = [0; VOLUME_BYTES];
    let offset = media.geometry.volume_line(place, which);
    media.main().read(offset, &mut raw);
    VolumeLine::decode(&raw).map(|line| VolumeLine { crc: 0, ..line })
}

/// Stores and flushes one of the two lines of a place.
fn send(media: &Media, place: u32, which: u64, line: &VolumeLine) {
    let offset = media.geometry.volume_line(place, which);
    media.on_metadata(|region| {
        region.store(offset, &line.encode());
        region.flush(offset, VOLUME_BYTES);
    });
}

/// What a pool of one copy has beside this line.
fn twin_of(line: VolumeLine) -> VolumeLine {
    VolumeLine {
        version: line.version + 1,
        ..line
    }
}

fn encode_path(path: &Path) -> Result<[u8; VOLUME_PATH_BYTES]> {
    let bytes = path.as_os_str().as_bytes();
    let mut encoded = [0; VOLUME_PATH_BYTES];
    let Some(room) = encoded.get_mut(..bytes.len()) else {
        return Err(ErrorKind::Volume(format!(
            "{}: a path of {} bytes; the pool's table holds {VOLUME_PATH_BYTES}: use a shorter one",
            path.display(),
            bytes.len()
        ))
        .into());
    };
    room.copy_from_slice(bytes);
    Ok(encoded)
}
