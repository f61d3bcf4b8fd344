//! Finding a region's files beside the members, and making those that are gone.

use std::error::Error as _;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use forebay_pmem::{PmemError, PmemErrorKind, Region};

use super::create::{make_directory, make_part, make_sidecar, region_options};
use crate::error::{Error, ErrorKind, Result};
use crate::format::Line;
use crate::medium::{Part, Sidecar};
use crate::pool::{DaxPool, check_name, extent_path, new_path, sidecar_path};
use crate::recover::{Files, FoundPair, not_found};

/// From one try to the next, where a keeper has the files for a moment.
const TRY_AGAIN: Duration = Duration::from_millis(10);
/// Tries to lock what another process has locked: a keeper's pass ends.
pub(super) const LOCK_TRIES: u32 = 50;
/// Tries to open what is under a lease: the kernel breaks a lease in 45 s by default.
const LEASE_TRIES: u32 = 6000;

/// Opens and locks a file of a region, once whoever has a lease on it has let it go.
pub(super) fn open_region(path: &Path, lock_tries: u32) -> Result<Region> {
    let (mut locked, mut leased) = (0, 0);
    loop {
        match Region::open(path, &region_options()) {
            Err(error) if error.kind() == PmemErrorKind::Locked && locked < lock_tries => {
                locked += 1
            }
            Err(error) if is_leased(&error) && leased < LEASE_TRIES => leased += 1,
            Err(error) => return Err(refusal(path, error)),
            Ok(opened) => return Ok(opened),
        }
        sleep(TRY_AGAIN);
    }
}

fn refusal(path: &Path, error: PmemError) -> Error {
    match error.kind() {
        PmemErrorKind::TooSmall { found, .. } => Error::cut_short(path, found),
        _ => error.into(),
    }
}

fn is_leased(error: &PmemError) -> bool {
    let source = error
        .source()
        .and_then(|source| source.downcast_ref::<io::Error>());
    source.is_some_and(|source| source.kind() == io::ErrorKind::WouldBlock)
}

fn is_missing(path: &Path) -> Result<bool> {
    match path.try_exists() {
        Ok(exists) => Ok(!exists),
        Err(error) => Err(Error::io("look for it", path, error)),
    }
}

/// All sidecars of a region and their extents, locked: the sidecars first.
pub(super) fn find(pool: &DaxPool, name: &str, lock_tries: u32) -> Result<Vec<FoundPair>> {
    let mut found = find_sidecars(pool, name, lock_tries)?;
    for pair in &mut found {
        if !is_missing(&pair.part_path)? {
            let region = open_region(&pair.part_path, lock_tries)?;
            pair.part = Some(Part::new(region, pair.part_path.clone()));
        }
    }
    Ok(found)
}

/// The sidecars alone.
pub(crate) fn find_sidecars(pool: &DaxPool, name: &str, lock_tries: u32) -> Result<Vec<FoundPair>> {
    check_name(name)?;
    let mut found = Vec::new();
    for member in 0..pool.members().len() {
        let directory = pool.directory(member);
        for is_parity in [false, true] {
            let path = sidecar_path(&directory, name, is_parity);
            if is_missing(&path)? {
                continue;
            }
            found.push(FoundPair {
                sidecar: Sidecar::new(open_region(&path, lock_tries)?, path),
                part: None,
                part_path: extent_path(&directory, name, is_parity),
            });
        }
    }
    match found.is_empty() {
        true => Err(not_found(name, pool.directory(0))),
        false => Ok(found),
    }
}

/// Where a pool's members have room for what a region lacks.
pub(super) struct PoolFiles<'p> {
    pool: &'p DaxPool,
    name: &'p str,
    /// Members that have a role already.
    used: Vec<usize>,
}

impl<'p> PoolFiles<'p> {
    pub fn new(pool: &'p DaxPool, name: &'p str, found: &[FoundPair]) -> PoolFiles<'p> {
        let has_one = |member: &usize| {
            let directory = pool.directory(*member);
            let mut pairs = found.iter();
            pairs.any(|pair| pair.part_path.parent() == Some(&directory))
        };
        PoolFiles {
            pool,
            name,
            used: (0..pool.members().len()).filter(has_one).collect(),
        }
    }

    /// Where a role's extent and sidecar are, or are to be: where the line says, if a member given is there, otherwise
    /// beside a member that has no role.
    fn paths(&self, role: usize, line: &Line) -> Result<(PathBuf, PathBuf)> {
        let is_parity = role == line.geometry.parity_role();
        let recorded = line.files[role].path.parent();
        let members = 0..self.pool.members().len();
        let directory = members
            .clone()
            .map(|member| self.pool.directory(member))
            .find(|directory| Some(directory.as_path()) == recorded)
            .or_else(|| {
                let mut free = members.filter(|member| !self.used.contains(member));
                free.nth(self.rank_among_lost(role, line))
                    .map(|member| self.pool.directory(member))
            });
        let Some(directory) = directory else {
            return Err(ErrorKind::Missing {
                path: line.files[role].path.clone(),
                found: "no member that is given has room for what replaces it: name one that has no part of the region"
                    .to_owned(),
            }
            .into());
        };
        Ok((
            extent_path(&directory, self.name, is_parity),
            sidecar_path(&directory, self.name, is_parity),
        ))
    }

    /// How many roles before this one have no member that is given, so that each gets one of its own.
    fn rank_among_lost(&self, role: usize, line: &Line) -> usize {
        let is_given = |path: &Path| {
            let mut members = 0..self.pool.members().len();
            members.any(|member| Some(self.pool.directory(member).as_path()) == path.parent())
        };
        let before = line.files[..role].iter();
        before.filter(|file| !is_given(&file.path)).count()
    }
}

impl Files for PoolFiles<'_> {
    fn lone_part(&self, role: usize, line: &Line) -> Result<Option<Part>> {
        let path = &line.files[role].path;
        let is_given = (0..self.pool.members().len())
            .any(|member| Some(self.pool.directory(member).as_path()) == path.parent());
        if !is_given || is_missing(path)? {
            return Ok(None);
        }
        Ok(Some(Part::new(
            open_region(path, LOCK_TRIES)?,
            path.clone(),
        )))
    }

    fn make_part(&self, role: usize, line: &Line) -> Result<Part> {
        let (path, _) = self.paths(role, line)?;
        if let Some(directory) = path.parent() {
            make_directory(directory)?;
        }
        let made_at = new_path(&path);
        match std::fs::remove_file(&made_at) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io(
                    "remove what an opening left behind",
                    &made_at,
                    error,
                ));
            }
            _ => {}
        }
        let made = make_part(line.geometry, &made_at)?;
        Ok(Part { path, ..made })
    }

    fn install_part(&self, part: &Part) -> Result<()> {
        let directory = part.path.parent().unwrap_or(Path::new("."));
        std::fs::rename(new_path(&part.path), &part.path)
            .and_then(|()| std::fs::File::open(directory)?.sync_all())
            .map_err(|error| Error::io("give it its name", &part.path, error))
    }

    fn make_sidecar(&self, role: usize, line: &Line) -> Result<Sidecar> {
        let (_, path) = self.paths(role, line)?;
        if let Some(directory) = path.parent() {
            make_directory(directory)?;
        }
        make_sidecar(line.geometry, role, &path)
    }
}
