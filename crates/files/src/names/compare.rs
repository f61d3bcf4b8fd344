//! What was seen of an inode's attributes, compared with what the log tells.

use std::io;

use super::attributes::{ACCESS_LIST, Attributes, Rights};
use super::space::{KIND_BITS, NameSpace, Seen};

/// Bits of a mode by which others than the owner get at an inode; those of the group are the mask of an access list, where there
/// is one.
pub(super) const NOT_OWNERS_BITS: u32 = 0o077;
pub(super) const GROUP_BITS: u32 = 0o070;

impl Attributes {
    /// Whether mode or owner are others than told. A symbolic link's mode is nobody's.
    pub(super) fn has_other_rights(&self, seen: &Seen) -> bool {
        let is_link = seen.mode & KIND_BITS == libc::S_IFLNK;
        self.rights().is_some_and(|told| {
            let found = Rights::of(seen);
            found.owner() != told.owner() || (found.mode != told.mode && !is_link)
        })
    }

    /// Whether one of the extended attributes has another value than told.
    pub(super) fn has_other_values<S: NameSpace>(
        &self,
        space: &S,
        handle: &S::Handle,
    ) -> io::Result<bool> {
        for (name, value) in self.extended() {
            if space.value(handle, name)?.as_deref() != value {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether it has another access list than told.
    pub(super) fn has_other_list<S: NameSpace>(
        &self,
        space: &S,
        handle: &S::Handle,
    ) -> io::Result<bool> {
        match self.told_of(ACCESS_LIST.as_ref()) {
            Some(told) => Ok(space.value(handle, ACCESS_LIST.as_ref())?.as_deref() != told),
            None => Ok(false),
        }
    }
}
