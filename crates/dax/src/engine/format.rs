//! A new region's sums and first lines.

use std::io;

use crate::error::{Error, Result};
use crate::format::{FileLine, Geometry, Line, PAGE_BYTES, Sum};
use crate::medium::{Medium, Sidecar};
use crate::report::RegionState;

/// Sums written at once.
const BATCH: u64 = 512;

/// Makes a region of files that are all zero: their sums, **fence**, then the first lines, **fence**.
pub(crate) fn format(medium: &Medium, pool: [u8; 16], name: &str) -> Result<Line> {
    let geometry = medium.geometry;
    let zero_sum = |extent, row| Sum::of(&[0; PAGE_BYTES as usize], extent, row, 0);
    for extent in 0..geometry.extents() {
        let own = (&medium.sidecars[extent], geometry.sum_at(0));
        let parity = &medium.sidecars[geometry.parity_role()];
        let places = [own, (parity, geometry.sum_at_parity(extent, 0))];
        put_table(geometry, extent, &places, zero_sum);
    }
    // Sums are durable before the line that believes them.
    medium.fence_sidecars()?;
    let mut region = [0; 16];
    getrandom::fill(&mut region).map_err(|error| {
        let path = &medium.sidecars[0].path;
        Error::io("get random bytes for its id", path, io::Error::other(error))
    })?;
    let line = Line {
        pool,
        region,
        name: name.to_owned(),
        generation: 1,
        state: RegionState::Sealed,
        geometry,
        pass: 0,
        unverified_pages: 0,
        lost_pages: 0,
        files: file_lines(medium)?,
    };
    put_lines(medium, &line)?;
    Ok(line)
}

/// What a line says of the files now.
pub(crate) fn file_lines(medium: &Medium) -> Result<Vec<FileLine>> {
    let of_part = |part: &crate::medium::Part| {
        Ok(FileLine {
            path: part.path.clone(),
            evidence: part.evidence()?,
        })
    };
    medium.parts.iter().map(of_part).collect()
}

/// Writes a line to every sidecar, and returns when it is durable on all of them.
pub(crate) fn put_lines(medium: &Medium, line: &Line) -> Result<()> {
    for (role, sidecar) in medium.sidecars.iter().enumerate() {
        sidecar.put_line(line, role);
    }
    // Whatever the line allows comes after it.
    medium.fence_sidecars()
}

fn put_table(
    geometry: Geometry,
    extent: usize,
    places: &[(&Sidecar, u64)],
    sum: impl Fn(usize, u64) -> Sum,
) {
    for start in (0..geometry.rows()).step_by(BATCH as usize) {
        let end = geometry.rows().min(start + BATCH);
        let mut bytes: Vec<u8> = (start..end)
            .flat_map(|row| sum(extent, row).0.to_le_bytes())
            .collect();
        // Whole lines: what follows the last sum is nothing's.
        bytes.resize(bytes.len().next_multiple_of(64), 0);
        for (sidecar, at) in places {
            sidecar.region.stream(at + start * 8, &bytes);
        }
    }
}
