//! Streams of the same bytes to two regions at once, and fences of several.

#![allow(
    unsafe_code,
    reason = "a region is raw memory; every access is checked against its length here"
)]

use super::Region;
use crate::arch;
use crate::{PersistenceDomain, PmemError};

impl Region {
    /// Streams `bytes` to `offset` here and to `copy_offset` in `copy`, line by line, which memory takes in
    /// less time than one stream after the other. `copy` may be this region, where the places do not
    /// overlap. For each of the two it is a [`Region::stream`]: counted there, and durable after this
    /// thread's next fence there. Offsets and length, in bytes, are multiples of 64.
    #[inline]
    pub fn stream_pair(&self, offset: u64, copy: &Region, copy_offset: u64, bytes: &[u8]) {
        let address = self.stream_address(offset, bytes.len());
        let copy_address = copy.stream_address(copy_offset, bytes.len());
        if self.is_shadow_beside(copy) {
            self.stream(offset, bytes);
            copy.stream(copy_offset, bytes);
            return;
        }
        let stream = arch::kernels().stream_pair;
        // SAFETY: all three are valid for the length, which is in whole lines.
        unsafe { stream(address, copy_address, bytes.as_ptr(), bytes.len()) };
        self.note_stream(bytes.len());
        copy.note_stream(bytes.len());
    }

    /// As [`Region::stream_pair`]; returns the CRC-32C of the block, computed once, on the way past.
    #[inline]
    pub fn stream_crc32c_pair(
        &self,
        offset: u64,
        copy: &Region,
        copy_offset: u64,
        block: &[u8],
    ) -> u32 {
        let address = self.stream_address(offset, block.len());
        let copy_address = copy.stream_address(copy_offset, block.len());
        if self.is_shadow_beside(copy) {
            let crc = self.stream_crc32c(offset, block);
            copy.stream(copy_offset, block);
            return crc;
        }
        let stream = arch::kernels().stream_pair_with_crc;
        // SAFETY: all three are valid for the length, which is in whole lines.
        let state = unsafe { stream(address, copy_address, block.as_ptr(), block.len(), !0) };
        self.note_stream(block.len());
        copy.note_stream(block.len());
        !state
    }

    /// [`Region::fence`] of two regions by one instruction, or of two plain files by syncs that run at the same time:
    /// one fence, counted here. Returns what came of it here, and in `other`.
    #[inline]
    pub fn fence_pair(&self, other: &Region) -> (Result<(), PmemError>, Result<(), PmemError>) {
        self.note_fence();
        arch::fence();
        let is_page = |region: &Region| region.domain() == PersistenceDomain::Page;
        match is_page(self) && is_page(other) && !self.is_shadow_beside(other) {
            true => self.sync_beside(other),
            false => (self.after_fence(), other.after_fence()),
        }
    }

    /// The same of any number of regions: one fence, counted at the first.
    pub fn fence_all(regions: &[&Region]) -> Vec<Result<(), PmemError>> {
        if let Some(first) = regions.first() {
            first.note_fence();
            arch::fence();
        }
        let is_synced = |region: &&Region| {
            region.domain() == PersistenceDomain::Page && region.shadow_state().is_none()
        };
        match regions.iter().all(is_synced) {
            true => Region::sync_all(regions),
            false => regions.iter().map(|region| region.after_fence()).collect(),
        }
    }

    #[cold]
    fn sync_beside(&self, other: &Region) -> (Result<(), PmemError>, Result<(), PmemError>) {
        let mut synced = Region::sync_all(&[self, other]).into_iter();
        let mut next = || synced.next().expect("one for each");
        (next(), next())
    }

    /// Syncs plain files at the same time.
    fn sync_all(regions: &[&Region]) -> Vec<Result<(), PmemError>> {
        let Some((first, others)) = regions.split_first() else {
            return Vec::new();
        };
        std::thread::scope(|scope| {
            let syncing = others.iter().map(|other| {
                let other: &Region = other;
                let thread = std::thread::Builder::new().name("forebay-sync".into());
                (other, thread.spawn_scoped(scope, || other.after_fence()))
            });
            let syncing: Vec<_> = syncing.collect();
            let own = first.after_fence();
            let others = syncing.into_iter().map(|(other, syncing)| match syncing {
                Ok(thread) => thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                // No thread to be had: one after the other.
                Err(_) => other.after_fence(),
            });
            std::iter::once(own).chain(others).collect()
        })
    }

    /// Whether one of the two is a model, so that they are told of one stream after the other: no mapped
    /// memory cares.
    #[inline]
    fn is_shadow_beside(&self, copy: &Region) -> bool {
        (self.is_special && self.shadow_state().is_some())
            || (copy.is_special && copy.shadow_state().is_some())
    }
}
