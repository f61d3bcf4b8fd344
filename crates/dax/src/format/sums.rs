//! The eight bytes that vouch for a page.

use forebay_pmem::crc32c;

/// A sum as it lies in a sidecar: the check in the low half; above it the number of the pass that made it, and what is to
/// be told of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sum(pub u64);

/// Bits of the number of a pass.
const PASS_BITS: u32 = 30;
const PASS_MASK: u64 = (1 << PASS_BITS) - 1;
/// The page was taken as it was found, or made anew, after an end without order: nobody said since that it is right.
const UNVERIFIED: u64 = 1 << 62;
/// The page could not be had again, and was made zero at the caller's word.
const LOST: u64 = 1 << 63;
const FLAGS: u64 = UNVERIFIED | LOST;

const _: () = assert!(PASS_MASK << 32 & FLAGS == 0);

impl Sum {
    /// That of these bytes at this place. The place is part of it, so that a page that arrived elsewhere does not
    /// match there.
    pub fn of(page: &[u8], extent: usize, row: u64, pass: u64) -> Sum {
        Sum::from_check(turned(crc32c(page), extent, row), pass)
    }

    /// That of a page with this check.
    pub fn from_check(check: u32, pass: u64) -> Sum {
        Sum(u64::from(check) | (pass & PASS_MASK) << 32)
    }

    /// The same with what another sum tells of the page: a store does not make right what it does not reach.
    pub fn with_flags_of(self, other: Sum) -> Sum {
        Sum(self.0 | other.0 & FLAGS)
    }

    /// The same of a page that nothing vouches for as a whole.
    pub fn unverified(self) -> Sum {
        Sum(self.0 | UNVERIFIED)
    }

    /// The same of a page that was lost.
    pub fn lost(self) -> Sum {
        Sum(self.0 | LOST)
    }

    /// Whether the page is to be named as unverified.
    pub fn is_unverified(self) -> bool {
        self.0 & UNVERIFIED != 0
    }

    /// Whether the page is to be named as lost.
    pub fn is_lost(self) -> bool {
        self.0 & LOST != 0
    }

    /// Whether there is anything to be told of the page.
    pub fn is_named(self) -> bool {
        self.0 & FLAGS != 0
    }

    /// The number of the pass that made it, as far as it is kept.
    pub fn pass(self) -> u64 {
        self.0 >> 32 & PASS_MASK
    }

    /// How many passes after this one made it; 0 for an earlier one, and where the number cannot be.
    pub fn passes_after(self, pass: u64) -> u64 {
        let ahead = self.pass().wrapping_sub(pass) & PASS_MASK;
        // Of a number in so few bits the half behind is earlier.
        if ahead < 1 << (PASS_BITS - 1) {
            ahead
        } else {
            0
        }
    }

    /// What it says of the page.
    pub fn check(self) -> u32 {
        self.0 as u32
    }
}

/// The copies of a page's sum that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copies {
    first: Sum,
    second: Sum,
}

impl Copies {
    /// Of one sum.
    pub fn one(sum: Sum) -> Copies {
        Copies {
            first: sum,
            second: sum,
        }
    }

    /// Of two: the one of the later pass decides, as a page is durable before a sum is, and was stored to since if it does
    /// not match that. Of one pass either vouches: a bit has turned over in the other one.
    pub fn two(first: Sum, second: Sum) -> Copies {
        if first.pass() == second.pass() {
            return Copies { first, second };
        }
        let is_later = first.passes_after(second.pass()) > 0;
        Copies::one(if is_later { first } else { second })
    }

    /// The one that vouches for a page with this check.
    pub fn vouching_for(self, check: u32) -> Option<Sum> {
        let sums = [self.first, self.second];
        let matching = sums.into_iter().filter(|sum| sum.check() == check);
        // What one of them tells of the page is told.
        matching.reduce(Sum::with_flags_of)
    }

    /// The one that decides what is told of the page, whatever that holds.
    pub fn newest(self) -> Sum {
        self.first.with_flags_of(self.second)
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
