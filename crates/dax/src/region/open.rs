//! Finding a region's files beside the members, and making those that are gone.

use std::error::Error as _;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use forebay_pmem::{PmemError, PmemErrorKind, Region};

use super::create::{check_path, make_directory, make_part, make_sidecar, region_options};
use crate::error::{Error, ErrorKind, Result};
use crate::format::Line;
use crate::medium::{Part, Sidecar};
use crate::pool::{DaxPool, check_name, extent_path, new_path, sidecar_of, sidecar_path};
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
            let part_path = extent_path(&directory, name, is_parity);
            // The next line is to name it, wherever the pool was moved.
            check_path(&part_path)?;
            found.push(FoundPair {
                sidecar: Sidecar::new(open_region(&path, lock_tries)?, path),
                part: None,
                part_path,
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
    /// The extents of the sidecars that were found, whether they are there or not.
    found: Vec<PathBuf>,
}

impl<'p> PoolFiles<'p> {
    pub fn new(pool: &'p DaxPool, name: &'p str, found: &[FoundPair]) -> PoolFiles<'p> {
        PoolFiles {
            pool,
            name,
            found: found.iter().map(|pair| pair.part_path.clone()).collect(),
        }
    }

    /// The member in whose directory a file lies, if it is given.
    fn member_of(&self, path: &Path) -> Option<usize> {
        let mut members = 0..self.pool.members().len();
        members.find(|&member| Some(self.pool.directory(member).as_path()) == path.parent())
    }
}

impl Files for PoolFiles<'_> {
    fn lone_part(&self, role: usize, line: &Line) -> Result<Option<Part>> {
        let path = &line.files[role].path;
        // Where members changed places another role's extent may lie there now.
        if self.member_of(path).is_none() || self.found.contains(path) || is_missing(path)? {
            return Ok(None);
        }
        Ok(Some(Part::new(
            open_region(path, LOCK_TRIES)?,
            path.clone(),
        )))
    }

    /// Where the line says, if that is beside a member that is given and has no role, otherwise beside another such.
    fn places(&self, roles: &[usize], line: &Line) -> Result<Vec<PathBuf>> {
        let recorded = |role: usize| self.member_of(&line.files[role].path);
        let is_alone = self.pool.members().len() == 1;
        let mut used: Vec<usize> = self
            .found
            .iter()
            .filter_map(|path| self.member_of(path))
            .collect();
        let mut chosen: Vec<Option<usize>> = Vec::with_capacity(roles.len());
        for &role in roles {
            // A pool of one member has all roles there.
            let member = match is_alone {
                true => Some(0),
                false => recorded(role).filter(|member| !used.contains(member)),
            };
            used.extend(member);
            chosen.push(member);
        }
        let mut free = (0..self.pool.members().len()).filter(|member| !used.contains(member));
        let places = roles.iter().zip(chosen).map(|(&role, member)| {
            let Some(member) = member.or_else(|| free.next()) else {
                return Err(ErrorKind::Missing {
                    path: line.files[role].path.clone(),
                    found: "no member that is given has room for what replaces it: name one that has no part of the \
                            region"
                        .to_owned(),
                }
                .into());
            };
            let is_parity = role == line.geometry.parity_role();
            let place = extent_path(&self.pool.directory(member), self.name, is_parity);
            check_path(&place).map(|()| place)
        });
        places.collect()
    }

    fn make_part(&self, role: usize, line: &Line) -> Result<Part> {
        let path = line.files[role].path.clone();
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
        let extent = &line.files[role].path;
        if let Some(directory) = extent.parent() {
            make_directory(directory)?;
        }
        make_sidecar(line.geometry, role, &sidecar_of(extent))
    }
}
