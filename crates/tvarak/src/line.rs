//! Lines of memory: their bytes, and the numbers by which the caches know them.
//!
//! The caches know a line of a mapped file by its place in the file, so that no access that hits divides; the controller
//! turns it into a place on a DIMM. Redundancy has no place in a file: it is known by its place on the DIMMs,
//! as is what software reads and writes of it.

/// Bytes of a line.
pub const LINE_BYTES: u64 = 64;
/// Lines of a page of 4 KiB, over which a system checksum goes.
pub const PAGE_LINES: u32 = 64;
/// Checksums of four bytes in a line.
pub const SUMS_PER_LINE: u32 = 16;
/// No line has this number.
pub const NO_LINE: u32 = u32::MAX;

/// The first line of NVM as its DIMMs have it.
const RAW_BASE: u32 = 1 << 30;
/// The first line of DRAM.
const DRAM_BASE: u32 = 1 << 31;

/// The bytes of a line, little-endian.
pub type Words = [u64; 8];
/// The bytes of a page.
pub type PageWords = [Words; PAGE_LINES as usize];

/// What memory a line is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// A line of the mapped file.
    Data(u32),
    /// A line of the DIMMs of NVM.
    Raw(u32),
    /// A line of DRAM.
    Dram(u32),
}

/// The memory of a line, and its number there.
#[inline]
pub fn home(line: u32) -> Home {
    match line {
        RAW_BASE..DRAM_BASE => Home::Raw(line - RAW_BASE),
        DRAM_BASE.. => Home::Dram(line - DRAM_BASE),
        _ => Home::Data(line),
    }
}

/// The byte address of a line of DRAM.
pub fn dram_address(line: u32) -> u64 {
    u64::from(DRAM_BASE + line) * LINE_BYTES
}

/// The byte address of a line of the DIMMs of NVM.
pub fn raw_address(line: u32) -> u64 {
    u64::from(RAW_BASE + line) * LINE_BYTES
}

/// The bytes in which two lines differ.
#[inline]
pub fn difference(a: &Words, b: &Words) -> Words {
    std::array::from_fn(|word| a[word] ^ b[word])
}

/// The checksum at one of a line's sixteen places.
#[inline]
pub fn sum_at(words: &Words, place: u32) -> u32 {
    (words[place as usize / 2] >> (32 * (place % 2))) as u32
}

/// Puts a checksum at one of a line's sixteen places.
#[inline]
pub fn set_sum(words: &mut Words, place: u32, sum: u32) {
    let shift = 32 * (place % 2);
    let word = &mut words[place as usize / 2];
    *word = *word & !(0xFFFF_FFFF << shift) | u64::from(sum) << shift;
}

/// The checksum of a line.
#[inline]
pub fn line_sum(words: &Words) -> u32 {
    forebay_pmem::crc32c_append_line(0, words)
}

/// The checksum of a page.
pub fn page_sum(page: &PageWords) -> u32 {
    forebay_pmem::crc32c_append_lines(0, page)
}

/// The check of a page in a sum of Forebay's regions, which knows the page's place.
pub fn region_sum_check(page: u32, words: &PageWords) -> u32 {
    page_sum(words) ^ crate::mix::mix(u64::from(page)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_room_for_sixteen_sums() {
        let mut words = [0; 8];
        for place in 0..SUMS_PER_LINE {
            set_sum(&mut words, place, 0xA000_0000 + place);
        }
        set_sum(&mut words, 7, 3);
        for place in 0..SUMS_PER_LINE {
            let expected = if place == 7 { 3 } else { 0xA000_0000 + place };
            assert_eq!(sum_at(&words, place), expected);
        }
    }

    #[test]
    fn every_line_has_one_home() {
        assert_eq!(home(5), Home::Data(5));
        assert_eq!(home((raw_address(7) / LINE_BYTES) as u32), Home::Raw(7));
        assert_eq!(home((dram_address(9) / LINE_BYTES) as u32), Home::Dram(9));
    }
}
