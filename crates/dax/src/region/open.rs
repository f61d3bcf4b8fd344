//! Finding a region's files.

use forebay_pmem::Region;

use super::create::region_options;
use crate::error::{Error, ErrorKind, Result};
use crate::format::Line;
use crate::medium::{Medium, Part, Sidecar};
use crate::pool::{DaxPool, check_name, extent_path, sidecar_path};

pub(super) fn open(pool: &DaxPool, name: &str) -> Result<(Medium, Line)> {
    check_name(name)?;
    let mut found: Vec<(usize, Line, Part, Sidecar)> = Vec::new();
    for member in 0..pool.members().len() {
        let directory = pool.directory(member);
        for is_parity in [false, true] {
            let path = sidecar_path(&directory, name, is_parity);
            if !path.exists() {
                continue;
            }
            let sidecar = Sidecar::new(Region::open(&path, &region_options())?, path.clone());
            let newest = sidecar
                .lines()
                .into_iter()
                .flatten()
                .max_by_key(|(line, _)| line.generation);
            let Some((line, role)) = newest else {
                return Err(Error::refused(
                    &path,
                    "no line of it can be read",
                    "restore it",
                ));
            };
            let path = extent_path(&directory, name, is_parity);
            let part = Part::new(Region::open(&path, &region_options())?, path);
            found.push((role, line, part, sidecar));
        }
    }
    found.sort_by_key(|(role, ..)| *role);
    let newest = found.iter().map(|(_, line, ..)| line);
    let Some(line) = newest.max_by_key(|line| line.generation).cloned() else {
        return Err(ErrorKind::NotFound {
            name: name.to_owned(),
            path: pool.directory(0),
        }
        .into());
    };
    let mut medium = Medium {
        geometry: line.geometry,
        parts: Vec::new(),
        sidecars: Vec::new(),
    };
    for (_, _, part, sidecar) in found {
        medium.parts.push(part);
        medium.sidecars.push(sidecar);
    }
    Ok((medium, line))
}
