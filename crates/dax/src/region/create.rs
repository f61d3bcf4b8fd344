//! A new region: its files, all durable before it counts as made.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use forebay_pmem::{MediaKind, Region, RegionOptions};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Geometry, PATH_BYTES};
use crate::medium::{Medium, Part, Sidecar};
use crate::options::CreateOptions;
use crate::pool::{DaxPool, check_name, extent_path, sidecar_path};
use crate::report::Created;

/// How the files of a region are mapped here. Small pages: stores are tracked by pages of 4 KiB.
pub(super) fn region_options() -> RegionOptions {
    RegionOptions::default().huge_pages(false)
}

/// Beside which member each role of a new region lies.
fn members_of_roles(pool: &DaxPool, geometry: Geometry) -> Result<Vec<usize>> {
    let members = pool.members().len();
    match (members, geometry.roles()) {
        (1, 2) => Ok(vec![0, 0]),
        (members, roles) if roles <= members => Ok((0..roles).collect()),
        _ => {
            let found = format!(
                "a width of {} needs {} members, one of them for the parity, and the pool has {members}",
                geometry.width,
                geometry.roles()
            );
            let todo = "ask for fewer extents";
            Err(ErrorKind::Invalid { found, todo }.into())
        }
    }
}

/// The directory of regions beside a member, made where it is not there.
pub(super) fn make_directory(directory: &Path) -> Result<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(Error::io("make the directory", directory, error))
        }
        Err(_) => Ok(()),
        Ok(()) => {
            let parent = match directory.parent() {
                Some(parent) if parent != Path::new("") => parent,
                _ => Path::new("."),
            };
            std::fs::File::open(parent)
                .and_then(|parent| parent.sync_all())
                .map_err(|error| Error::io("make the directory durable", directory, error))
        }
    }
}

/// Whether a line has room for the path of an extent.
pub(super) fn check_path(path: &Path) -> Result<()> {
    if path.as_os_str().as_bytes().len() > PATH_BYTES {
        let found = format!(
            "{} is a path of more than {PATH_BYTES} bytes",
            path.display()
        );
        let todo = "put the member where its path is shorter";
        return Err(ErrorKind::Invalid { found, todo }.into());
    }
    Ok(())
}

/// A new extent or the parity, all zero.
pub(super) fn make_part(geometry: Geometry, path: &Path) -> Result<Part> {
    check_path(path)?;
    let region = Region::create(path, geometry.extent_bytes(), &region_options())?;
    Ok(Part::new(region, path.to_owned()))
}

/// A new sidecar without a line.
pub(super) fn make_sidecar(geometry: Geometry, role: usize, path: &Path) -> Result<Sidecar> {
    let region = Region::create(path, geometry.sidecar_bytes(role), &region_options())?;
    Ok(Sidecar::new(region, path.to_owned()))
}

/// Makes the files, and the region in them.
pub(super) fn create(pool: &DaxPool, name: &str, options: &CreateOptions) -> Result<Created> {
    check_name(name)?;
    let geometry = Geometry::new(options.size_bytes, options.width)?;
    let members = members_of_roles(pool, geometry)?;
    let mut made = MadeFiles::default();
    let mut medium = Medium {
        geometry,
        parts: Vec::new(),
        sidecars: Vec::new(),
    };
    for (role, &member) in members.iter().enumerate() {
        let directory = pool.directory(member);
        make_directory(&directory)?;
        let is_parity = role == geometry.parity_role();
        let path = extent_path(&directory, name, is_parity);
        medium.parts.push(make_part(geometry, &path)?);
        made.0.push(path);
        let path = sidecar_path(&directory, name, is_parity);
        medium.sidecars.push(make_sidecar(geometry, role, &path)?);
        made.0.push(path);
    }
    crate::engine::format(&medium, pool.uuid(), name)?;
    made.0.clear();
    let survives = survives(&medium, pool.members().len() == 1);
    Ok(Created {
        paths: medium.parts.into_iter().map(|part| part.path).collect(),
        size_bytes: geometry.size_bytes,
        width: geometry.width,
        survives,
    })
}

fn survives(medium: &Medium, is_alone: bool) -> String {
    let kind = medium.parts[0].region.kind();
    let when = match kind {
        MediaKind::PlainFile => "a store is durable when msync or sync has returned, and then ",
        _ => {
            "a store is durable when its line is flushed and fenced, or sync has returned, and then "
        }
    };
    let member = match is_alone {
        true => {
            "flipped bits, lost and misdirected writes are repaired from the copy, but for pages stored to since their last \
             pass; the member's death is not survived, as the pool has no other one"
        }
        false => {
            "flipped bits, lost and misdirected writes, and the death of one member, are repaired from the parity, but for \
             pages stored to since their last pass"
        }
    };
    format!("{when}{}; {member}", kind.survives())
}

/// Files that go again if the region is not finished.
#[derive(Default)]
struct MadeFiles(Vec<PathBuf>);

impl Drop for MadeFiles {
    fn drop(&mut self) {
        for path in &self.0 {
            // What failed first is what the caller is told.
            let _ = std::fs::remove_file(path);
        }
    }
}
