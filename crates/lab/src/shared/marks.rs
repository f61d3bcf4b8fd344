//! The mark of the disk behind an engine of the papers, as a pool's (`docs/inside/marks.md`): two lines behind
//! the header, written in turn, stand for a volume's line.

use std::path::Path;

use forebay::internals::{FoundMark, Mark, PoolSide, Stage, StaleRefusal, classify, new_pool_id};
use forebay::{Backing, Error, ErrorKind, MarkPlace, Region, Result};
use forebay_pmem::{LINE_BYTES, crc32c};

use super::HEADER_BYTES;

/// Where the lines begin: behind the header's own.
const LINES_AT: u64 = LINE_BYTES as u64;
const _: () = assert!(LINES_AT + 2 * LINE_BYTES as u64 <= HEADER_BYTES);
/// An engine has one disk.
const VOLUME: u32 = 1;

/// What a line says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Line {
    version: u64,
    side: PoolSide,
}

impl Line {
    fn encode(&self) -> [u8; LINE_BYTES] {
        let mut bytes = [0; LINE_BYTES];
        bytes[..8].copy_from_slice(&self.version.to_le_bytes());
        bytes[8..24].copy_from_slice(&self.side.pool);
        bytes[24..32].copy_from_slice(&self.side.generation.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.side.stage.number().to_le_bytes());
        let crc = crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; LINE_BYTES]) -> Option<Line> {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
        let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        if half(60) != crc32c(&bytes[..60]) || word(0) == 0 {
            return None;
        }
        let side = PoolSide {
            pool: bytes[8..24].try_into().expect("sixteen"),
            volume: VOLUME,
            generation: word(24),
            stage: Stage::of_number(half(32))?,
            is_kept_for_a_boot: false,
        };
        let version = word(0);
        Some(Line { version, side })
    }
}

/// What an engine's region says of its disk.
pub(crate) fn side_on(region: &Region) -> Option<PoolSide> {
    newest(region).map(|line| line.side)
}

fn newest(region: &Region) -> Option<Line> {
    if region.len() < HEADER_BYTES {
        return None;
    }
    let lines = [0, 1].map(|which| {
        let mut bytes = [0; LINE_BYTES];
        region.read(LINES_AT + which * LINE_BYTES as u64, &mut bytes);
        Line::decode(&bytes)
    });
    lines.into_iter().flatten().max_by_key(|line| line.version)
}

/// Writes the next line, durably; a torn one leaves the other.
fn write(region: &Region, side: PoolSide) -> Result<()> {
    let version = newest(region).map_or(0, |line| line.version) + 1;
    let offset = LINES_AT + version % 2 * LINE_BYTES as u64;
    region.store(offset, &Line { version, side }.encode());
    region.flush(offset, LINE_BYTES);
    Ok(region.fence()?)
}

/// A disk and a region that belong together: the mark is open before anything is acknowledged.
pub(crate) struct Begun<'a> {
    place: &'a dyn MarkPlace,
    /// What stood there.
    before: Vec<Vec<u8>>,
    mark: Mark,
}

/// Whether the disk's mark admits an engine that is yet to be made.
///
/// # Errors
/// [`ErrorKind::Stale`]; the mark cannot be read.
pub(crate) fn check_new(backing: &Backing) -> Result<()> {
    let Some(place) = backing.mark_place() else {
        return Ok(());
    };
    let path = backing.identity().path;
    let found = place.read().map_err(|source| mark_error(&path, source))?;
    match classify(&new_side([0; 16]), &FoundMark::of(&found), false, || true) {
        Ok(_) => Ok(()),
        Err(StaleRefusal { found, todo }) => Err(ErrorKind::Stale { path, found, todo }.into()),
    }
}

fn new_side(pool: [u8; 16]) -> PoolSide {
    PoolSide {
        pool,
        volume: VOLUME,
        generation: 0,
        stage: Stage::None,
        is_kept_for_a_boot: false,
    }
}

/// Checks the disk's mark and goes on with the next generation, for an engine that is made anew on the
/// region or that it holds. Nothing is done where the disk keeps no mark.
///
/// # Errors
/// [`ErrorKind::Stale`], and then nothing has changed; the mark or the medium failed.
pub(crate) fn begin<'a>(
    region: &Region,
    backing: &'a Backing,
    is_new: bool,
    accept_stale: bool,
) -> Result<Option<Begun<'a>>> {
    let Some(place) = backing.mark_place() else {
        return Ok(None);
    };
    if region.len() < HEADER_BYTES {
        // The engine says what is wrong with it.
        return Ok(None);
    }
    let path = backing.identity().path;
    let before = place.read().map_err(|source| mark_error(&path, source))?;
    let found = FoundMark::of(&before);
    let own = side_on(region).filter(|_| !is_new);
    let mut side = match own {
        Some(side) => side,
        None => new_side(new_pool_id()?),
    };
    let classified = classify(&side, &found, false, || is_new);
    let generation = match classified {
        Ok(generation) => generation,
        Err(_) if accept_stale => forebay::internals::next_generation(&side, &found),
        Err(StaleRefusal { found, todo }) => {
            return Err(ErrorKind::Stale { path, found, todo }.into());
        }
    };
    // What a killed process left may be seen and not be durable; the next line takes the other's place.
    region.flush(LINES_AT, 2 * LINE_BYTES);
    region.fence()?;
    side.generation = generation;
    side.stage = Stage::Starting;
    write(region, side)?;
    let pool_path = std::path::absolute(region.path()).unwrap_or_default();
    let mark = Mark::open_now(&side, pool_path, generation, region.kind());
    let written = place.write(&mark.encode());
    written.map_err(|source| mark_error(&path, source))?;
    side.stage = Stage::Open;
    write(region, side)?;
    let begun = Begun {
        place,
        before,
        mark,
    };
    Ok(Some(begun))
}

impl Begun<'_> {
    /// No engine came of it: the disk is as it was.
    pub(crate) fn take_back(self) {
        let before = FoundMark::of(&self.before);
        let bytes = match before {
            FoundMark::Mark(before) => before.encode(),
            FoundMark::None | FoundMark::Damaged => self.mark.whole().encode(),
        };
        // Where that fails the disk stays open, which is told at the next start.
        let _ = self.place.write(&bytes);
    }
}

/// The engine on the region is not in use, and its disk has everything: both say so, durably.
///
/// # Errors
/// The disk, the mark or the medium failed; they are as after a crash.
pub(crate) fn end(region: &Region, backing: &Backing) -> Result<()> {
    let (Some(place), Some(mut side)) = (backing.mark_place(), side_on(region)) else {
        return Ok(());
    };
    let path = backing.identity().path;
    let failed = |source| mark_error(&path, source);
    let found = FoundMark::of(&place.read().map_err(failed)?);
    let is_its = |mark: &&Mark| mark.pool == side.pool && mark.generation == side.generation;
    let Some(mark) = found.mark().filter(is_its).cloned() else {
        return Ok(());
    };
    if side.stage != Stage::Open {
        return Ok(());
    }
    let synced = backing.sync();
    synced.map_err(|source| ErrorKind::Backing {
        path: path.clone(),
        source,
    })?;
    side.stage = Stage::Clean;
    write(region, side)?;
    place.write(&mark.whole().encode()).map_err(failed)
}

fn mark_error(path: &Path, source: std::io::Error) -> Error {
    ErrorKind::Mark {
        path: path.to_path_buf(),
        source,
    }
    .into()
}
