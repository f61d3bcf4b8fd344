//! Which pool some files are members of, from their superblocks alone.

use std::path::{Path, PathBuf};

use forebay_pmem::{Region, RegionOptions};

use crate::api::pool::MemoryPool;
use crate::error::{ErrorKind, Result, refused};
use crate::media::superblock::read_superblock;

impl MemoryPool {
    /// The identity of the pool with these members, and their paths in its order: what else lies beside a pool's files
    /// is found by it. The pool may be in use by another process; nothing is changed, and only how each file begins is
    /// looked at. A path at which nothing is takes the place that is left, where one is.
    ///
    /// # Errors
    /// A file is no member, or of another pool; not every member is named, or one twice.
    pub fn identity<P: AsRef<Path>>(
        paths: &[P],
        options: &RegionOptions,
    ) -> Result<([u8; 16], Vec<PathBuf>)> {
        let is_there = |path: &&Path| path.try_exists().unwrap_or(true);
        let paths = paths.iter().map(AsRef::as_ref);
        let (present, absent): (Vec<_>, Vec<_>) = paths.partition(is_there);
        let mut found: Option<([u8; 16], Vec<Option<PathBuf>>)> = None;
        for path in present {
            let superblock = read_superblock(&Region::open_read_only_with(path, options)?)?;
            let (uuid, members) = found.get_or_insert_with(|| {
                let members = vec![None; superblock.members as usize];
                (superblock.pool_uuid, members)
            });
            let place = members.get_mut(superblock.member as usize);
            match place {
                Some(place @ None) if *uuid == superblock.pool_uuid => {
                    *place = Some(path.to_path_buf());
                }
                _ => {
                    return Err(refused(
                        path,
                        "it is a member of another pool than the files before, or the same member as one of them",
                        "name every member of one pool once",
                    ));
                }
            }
        }
        let Some((uuid, mut members)) = found else {
            return Err(refused(
                absent.first().unwrap_or(&Path::new("")),
                "nothing is there, and no member was named that is",
                "name the members of a pool",
            ));
        };
        let mut left: Vec<_> = members.iter_mut().filter(|place| place.is_none()).collect();
        if let ([place], [path]) = (&mut left[..], &absent[..]) {
            **place = Some(path.to_path_buf());
        }
        let named = members.iter().flatten().count();
        match named == members.len() {
            true => Ok((uuid, members.into_iter().flatten().collect())),
            false => Err(ErrorKind::Options(format!(
                "the pool has {} members, and the paths of {named} are known; name every one (on the command line with --member)",
                members.len()
            ))
            .into()),
        }
    }
}
