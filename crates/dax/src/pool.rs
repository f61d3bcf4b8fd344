//! The pool that regions belong to, and where their files lie beside its members.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::{ErrorKind, Result};
use crate::format::NAME_BYTES;

/// What follows a region's name in the names of its other files.
const PARITY: &str = ".parity";
const SUMS: &str = ".sums";
const NEW: &str = ".new";

/// A pool, as far as its regions need it: its members' paths and its uuid. It need not be open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaxPool {
    members: Vec<PathBuf>,
    uuid: [u8; 16],
}

impl DaxPool {
    /// The pool of these members, in their order.
    #[must_use]
    pub fn new(members: &[PathBuf], pool_uuid: [u8; 16]) -> DaxPool {
        DaxPool {
            members: members.to_vec(),
            uuid: pool_uuid,
        }
    }

    /// The member at a path, by whatever name it is given, so that the same file is meant by every caller. One that is gone
    /// may have its directory still, or not even that.
    ///
    /// # Errors
    /// The path is empty, or relative to a directory that is gone.
    pub fn member_path(path: &Path) -> io::Result<PathBuf> {
        std::fs::canonicalize(path).or_else(|_| {
            let absolute = std::path::absolute(path)?;
            let parent = absolute.parent().map(std::fs::canonicalize);
            match (parent, absolute.file_name()) {
                (Some(Ok(parent)), Some(name)) => Ok(parent.join(name)),
                _ => Ok(absolute),
            }
        })
    }

    pub(crate) fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    pub(crate) fn members(&self) -> &[PathBuf] {
        &self.members
    }

    /// The directories beside its members in which the files of regions lie, whether they are there or not.
    pub fn directories(&self) -> impl Iterator<Item = PathBuf> + '_ {
        (0..self.members.len()).map(|member| self.directory(member))
    }

    /// That of a member.
    pub(crate) fn directory(&self, member: usize) -> PathBuf {
        let mut path = self.members[member].clone().into_os_string();
        path.push(".dax");
        path.into()
    }
}

/// The extent of a region in a directory: a data extent, or the parity.
pub(crate) fn extent_path(directory: &Path, name: &str, is_parity: bool) -> PathBuf {
    directory.join(match is_parity {
        true => format!("{name}{PARITY}"),
        false => name.to_owned(),
    })
}

/// The sidecar of that extent.
pub(crate) fn sidecar_path(directory: &Path, name: &str, is_parity: bool) -> PathBuf {
    sidecar_of(&extent_path(directory, name, is_parity))
}

/// The sidecar of the extent that lies there.
pub(crate) fn sidecar_of(extent: &Path) -> PathBuf {
    let mut path = extent.as_os_str().to_owned();
    path.push(SUMS);
    path.into()
}

/// Where an extent is made that is not to be found yet.
pub(crate) fn new_path(path: &Path) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(NEW);
    path.into()
}

/// The region that a file of this name belongs to, if it is a sidecar.
pub(crate) fn region_of_sidecar(file_name: &str) -> Option<&str> {
    let name = file_name.strip_suffix(SUMS)?;
    Some(name.strip_suffix(PARITY).unwrap_or(name))
}

/// Refuses names that are no names of files, or that are those of another region's files.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_ours = !name.is_empty()
        && name.len() <= NAME_BYTES
        && name.bytes().all(is_plain)
        && !name.starts_with('.')
        && !name.ends_with(PARITY)
        && !name.ends_with(SUMS)
        && !name.ends_with(NEW);
    if is_ours {
        return Ok(());
    }
    Err(ErrorKind::Invalid {
        found: format!("{name:?} cannot be a region's name"),
        todo: "use 1 to 64 letters, digits, dots, hyphens and underscores, not beginning with a dot, not ending in \
               .parity, .sums or .new",
    }
    .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_reach_elsewhere_are_refused() {
        for name in [
            "",
            ".",
            "..",
            "a/b",
            "a\0",
            ".a",
            "a.sums",
            "a.parity",
            "ä",
            &"x".repeat(65),
        ] {
            check_name(name).unwrap_err();
        }
        for name in ["a", "redis.aof", "A-1_b", &"x".repeat(64)] {
            check_name(name).unwrap();
        }
        assert_eq!(region_of_sidecar("a.parity.sums"), Some("a"));
        assert_eq!(region_of_sidecar("a.sums"), Some("a"));
        assert_eq!(region_of_sidecar("a.parity"), None);
    }
}
