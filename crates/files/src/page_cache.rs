//! Which page cache a file's pages are in: what was written there stays for as long as its file system
//! stays mounted.

use std::os::fd::AsFd;

use crate::names::{hash, mounting_of};

/// A mounting of the file's file system, or none. A hash of it, so that it fits a row.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct PageCache(pub(crate) [u8; PageCache::BYTES]);

impl PageCache {
    pub(crate) const BYTES: usize = 16;
    /// None, or one that could lose unsynced pages.
    pub(crate) const NONE: PageCache = PageCache([0; PageCache::BYTES]);

    /// The one that this file's pages are in.
    pub(crate) fn of(file: impl AsFd) -> PageCache {
        let Ok(Some(mounting)) = mounting_of(file.as_fd()) else {
            return PageCache::NONE;
        };
        let parts = [&mounting.boot[..], &mounting.mount.to_le_bytes()];
        PageCache(hash(&parts.concat()).to_le_bytes())
    }
}
