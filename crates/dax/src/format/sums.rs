//! The eight bytes that vouch for a page.

use forebay_pmem::crc32c;

/// A sum as it lies in a sidecar: the check in the low half, the number of the pass that made it in the high one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sum(pub u64);

impl Sum {
    /// That of these bytes at this place. The place is part of it, so that a page that arrived elsewhere does not
    /// match there.
    pub fn of(page: &[u8], extent: usize, row: u64, pass: u64) -> Sum {
        Sum::from_check(turned(crc32c(page), extent, row), pass)
    }

    /// That of a page with this check.
    pub fn from_check(check: u32, pass: u64) -> Sum {
        Sum(u64::from(check) | pass << 32)
    }

    /// How many passes after this one made it; 0 for an earlier one, and where the number cannot be.
    pub fn passes_after(self, pass: u64) -> u32 {
        let ahead = ((self.0 >> 32) as u32).wrapping_sub(pass as u32);
        // Of a number in 32 bits the half behind is earlier.
        if ahead < 1 << 31 { ahead } else { 0 }
    }

    /// What it says of the page.
    pub fn check(self) -> u32 {
        self.0 as u32
    }
}

/// The check of a page with this CRC-32C at this place.
pub(crate) fn turned(crc: u32, extent: usize, row: u64) -> u32 {
    // The finalizer of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
    // OOPSLA'14): every bit of the place changes half of the bits.
    let mut place = ((extent as u64) << 56 ^ row).wrapping_add(0x9e37_79b9_7f4a_7c15);
    place = (place ^ place >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    place = (place ^ place >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    crc ^ (place ^ place >> 31) as u32
}
