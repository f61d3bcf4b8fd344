//! Streams of a sum without carry: the parity of bytes that lie elsewhere in memory.

#![allow(
    unsafe_code,
    reason = "a region is raw memory; every access is checked against its length here"
)]

use super::Region;
use crate::arch;
use crate::parity::xor_into;

impl Region {
    /// Streams the XOR of `sources`, at least one, all of as many bytes, to `offset`: a [`Region::stream`] of bytes that are
    /// nowhere but in registers before, since a cached store between streams waits for those before it. Offset and length,
    /// in bytes, are multiples of 64.
    ///
    /// # Panics
    /// There is no source, they differ in length, or the place is not inside the region.
    #[inline]
    pub fn stream_xor(&self, offset: u64, sources: &[&[u8]]) {
        let len = sources.first().expect("there is a source").len();
        assert!(
            sources.iter().all(|source| source.len() == len),
            "sources are of one length"
        );
        let address = self.stream_address(offset, len);
        if let Some(shadow) = self.special_shadow(offset, len) {
            let mut sum = vec![0; len];
            sources.iter().for_each(|source| xor_into(&mut sum, source));
            shadow.stream(offset, &sum);
        } else {
            // SAFETY: all are valid for the length, which is in whole lines.
            unsafe { (arch::kernels().stream_xor)(address, sources, len) };
        }
        self.note_stream(len);
    }
}
