//! A new region's sums and first lines.

use std::io;

use crate::error::{Error, Result};
use crate::format::{
    Evidence, FileLine, Generation, Geometry, History, Line, Mark, PAGE_BYTES, Sum,
};
use crate::medium::{Medium, Part, Sidecar, fence};

/// Sums written at once.
const BATCH: u64 = 512;

/// Makes a region of files that are all zero: their sums, **fence**, then a line, **fence**, then the seal, **fence**.
pub(crate) fn format(medium: &Medium, pool: [u8; 16], name: &str) -> Result<Line> {
    let geometry = medium.geometry;
    let zero_sum = |extent, row| Sum::of(&[0; PAGE_BYTES as usize], extent, row, 0);
    for extent in 0..geometry.extents() {
        let places = geometry.places_of_sum(extent, 0);
        let places = places.map(|(role, at)| (&medium.sidecars[role], at));
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
        generation: Generation::default(),
        history: History::first()?,
        mark: Mark::Sealed,
        boot: [0; 16],
        geometry,
        pass: 0,
        unverified_pages: 0,
        lost_pages: 0,
        files: medium.parts.iter().map(new_file).collect(),
    };
    // A line of the first generation says only that a creation is under way: until all sidecars have it, one that has none
    // would look as if it had lost it.
    let line = line.next(Mark::Open);
    put_on_all(medium, &line)?;
    let mut line = line.next(Mark::Sealed);
    note_files(&mut line, medium)?;
    put_on_all(medium, &line)?;
    Ok(line)
}

fn new_file(part: &Part) -> FileLine {
    FileLine {
        path: part.path.clone(),
        evidence: Evidence::default(),
        since: Generation::default(),
    }
}

/// Has a line say what the files are now.
pub(crate) fn note_files(line: &mut Line, medium: &Medium) -> Result<()> {
    for (role, (file, part)) in line.files.iter_mut().zip(&medium.parts).enumerate() {
        file.path.clone_from(&part.path);
        // The parity is written by us alone: no store of a program has to show.
        file.evidence = match role == medium.geometry.parity_role() {
            true => part.evidence()?,
            false => part.settled_evidence()?,
        };
    }
    Ok(())
}

/// Writes a line to every sidecar, and returns when it is durable on all of them.
pub(crate) fn put_on_all(medium: &Medium, line: &Line) -> Result<()> {
    let sidecars: Vec<(usize, &Sidecar)> = medium.sidecars.iter().enumerate().collect();
    put_lines(&sidecars, line)
}

/// Writes a line to these sidecars, each with its role, and returns when it is durable on all of them. Whatever it allows
/// comes after that. The generation is used up, whether that succeeds or not.
pub(crate) fn put_lines(sidecars: &[(usize, &Sidecar)], line: &Line) -> Result<()> {
    let regions = || sidecars.iter().map(|(_, sidecar)| &sidecar.region);
    let unsettled = sidecars.iter().filter(|(_, sidecar)| sidecar.settle_line());
    if unsettled.count() > 0 {
        // The newest line is durable before the other one, which may have been the only one that is, goes.
        fence(regions())?;
    }
    for (role, sidecar) in sidecars {
        sidecar.put_line(line, *role);
    }
    fence(regions())?;
    for (_, sidecar) in sidecars {
        sidecar.keep_line();
    }
    Ok(())
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
