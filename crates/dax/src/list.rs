//! Which regions lie beside a pool's members.

use std::collections::BTreeSet;
use std::path::PathBuf;

use forebay_pmem::Region;

use crate::error::{Error, Result};
use crate::format::Generation;
use crate::medium::Sidecar;
use crate::pool::{DaxPool, check_name, extent_path, region_of_sidecar, sidecar_path};
use crate::report::{Listed, RegionState};

/// The regions of a pool, by name. Nothing is locked or changed; a region that is open changes meanwhile.
///
/// # Errors
/// A directory cannot be read.
pub fn list(pool: &DaxPool) -> Result<Vec<Listed>> {
    let names = names(pool)?;
    Ok(names.into_iter().map(|name| look_at(pool, name)).collect())
}

/// Names of regions of which a sidecar lies beside a member.
pub(crate) fn names(pool: &DaxPool) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for directory in pool.directories() {
        let failed = |error| Error::io("list the directory", &directory, error);
        let entries = match std::fs::read_dir(&directory) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            entries => entries.map_err(failed)?,
        };
        for entry in entries {
            let file_name = entry.map_err(failed)?.file_name();
            let name = file_name.to_str().and_then(region_of_sidecar);
            names.extend(
                name.filter(|name| check_name(name).is_ok())
                    .map(str::to_owned),
            );
        }
    }
    Ok(names)
}

fn look_at(pool: &DaxPool, name: String) -> Listed {
    let mut listed = Listed {
        name,
        size_bytes: 0,
        width: 0,
        state: RegionState::Open,
        generation: 0,
        unverified_pages: 0,
        lost_pages: 0,
        paths: Vec::new(),
        contiguous: None,
        faults: Vec::new(),
    };
    let mut newest = Generation::default();
    let mut found = Vec::new();
    for directory in pool.directories() {
        for is_parity in [false, true] {
            let path = sidecar_path(&directory, &listed.name, is_parity);
            if !path.exists() {
                continue;
            }
            let region = match Region::open_read_only(&path) {
                Ok(region) => region,
                Err(error) => {
                    listed.faults.push(error.to_string());
                    continue;
                }
            };
            let lines = Sidecar::new(region, path.clone()).lines();
            let lines = lines.into_iter().flatten();
            let Some((line, role)) = lines.max_by_key(|(line, _)| line.generation) else {
                listed
                    .faults
                    .push(format!("{}: no line of it can be read", path.display()));
                continue;
            };
            if line.pool != pool.uuid() {
                let what = "it belongs to a region of another pool";
                listed.faults.push(format!("{}: {what}", path.display()));
            }
            found.push((role, extent_path(&directory, &listed.name, is_parity)));
            if line.generation > newest {
                listed.size_bytes = line.geometry.size_bytes;
                listed.width = line.geometry.width;
                listed.state = RegionState::of(line.mark);
                listed.generation = line.generation.count();
                newest = line.generation;
                listed.unverified_pages = line.unverified_pages;
                listed.lost_pages = line.lost_pages;
                listed.paths = line.files.into_iter().map(|file| file.path).collect();
            }
        }
    }
    follow_moved(&mut listed.paths, &found);
    let wanted_bytes = listed.size_bytes / u64::from(listed.width.max(1));
    for path in &listed.paths {
        match std::fs::metadata(path) {
            Ok(found) if found.len() >= wanted_bytes => {}
            Ok(found) => {
                let error = Error::cut_short(path, found.len());
                listed.faults.push(error.to_string());
            }
            Err(_) => listed.faults.push(format!("{}: not there", path.display())),
        }
    }
    listed
}

/// Has paths name what was `found` of their roles, where members were moved since they were in use last.
fn follow_moved(paths: &mut [PathBuf], found: &[(usize, PathBuf)]) {
    for (role, path) in paths.iter_mut().enumerate() {
        let mut there = found.iter().filter(|(found, _)| *found == role);
        let is_there = there.clone().any(|(_, found)| found == path);
        match there.next() {
            Some((_, moved)) if !is_there => path.clone_from(moved),
            _ => {}
        }
    }
}
