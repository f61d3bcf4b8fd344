//! The bytes on the media of the DIMMs: generated until first written, data and what protects it alike.

use crate::line::{
    PAGE_LINES, PageWords, SUMS_PER_LINE, Words, difference, line_sum, page_sum, region_sum_check,
    set_sum,
};
use crate::mix::mix;
use crate::nvm::layout::{Layout, Place};
use crate::sparse::Sparse;

/// What the media hold.
#[derive(Debug)]
pub struct Contents {
    layout: Layout,
    seed: u64,
    is_blank: bool,
    has_region_sums: bool,
    lines: Sparse,
}

impl Contents {
    /// Media on which the file was written, protected and mapped.
    pub fn new(layout: Layout, seed: u64) -> Contents {
        Contents {
            layout,
            seed,
            is_blank: false,
            has_region_sums: false,
            lines: Sparse::new(layout.lines()),
        }
    }

    /// Makes the file one of zeroes, and all that protects it: right once the caller has made it anew, as
    /// [`protect`](crate::programs::media::protect) does.
    ///
    /// # Panics
    /// If it was written.
    pub fn make_blank(&mut self) {
        assert!(self.is_untouched(), "the file was written");
        self.is_blank = true;
        self.lines = Sparse::zeroed(self.layout.lines());
    }

    /// Has the file protected by the sums of Forebay's regions, where else DAX-CL-checksums are.
    ///
    /// # Panics
    /// If it was written.
    pub fn use_region_sums(&mut self) {
        assert!(self.is_untouched(), "the file was written");
        self.has_region_sums = true;
    }

    /// Whether it is.
    pub fn has_region_sums(&self) -> bool {
        self.has_region_sums
    }

    /// A line of the file as it was before anybody wrote it.
    pub fn generated_data(&self, line: u32) -> Words {
        if self.is_blank {
            return [0; 8];
        }
        let first = mix(self.seed ^ u64::from(line) << 8);
        std::array::from_fn(|word| mix(first.wrapping_add(word as u64 * 0x9E37_79B9_7F4A_7C15)))
    }

    fn generated_page(&self, page: u32) -> PageWords {
        std::array::from_fn(|line| self.generated_data(page * PAGE_LINES + line as u32))
    }

    fn generated(&self, physical: u32) -> Words {
        let mut words = [0; 8];
        match self.layout.place(physical) {
            Place::Data(line) => return self.generated_data(line),
            Place::Parity { stripe, line } => {
                for page in self.layout.pages_of(stripe) {
                    words = difference(&words, &self.generated_data(page * PAGE_LINES + line));
                }
            }
            Place::Sums { dimm, row } => {
                for place in 0..SUMS_PER_LINE {
                    if let Some(page) = self.layout.page_at(row + place, dimm) {
                        set_sum(&mut words, place, page_sum(&self.generated_page(page)));
                    }
                }
            }
            Place::LineSums(first) if self.has_region_sums => {
                for (word, sum) in (0..).zip(&mut words) {
                    if let Some(page) = self.layout.region_sum_page(first, word) {
                        *sum = region_sum_check(page, &self.generated_page(page)).into();
                    }
                }
            }
            Place::LineSums(first) => {
                for place in 0..SUMS_PER_LINE {
                    if first + place < self.layout.data_lines() {
                        let sum = line_sum(&self.generated_data(first + place));
                        set_sum(&mut words, place, sum);
                    }
                }
            }
        }
        words
    }

    /// A line of a DIMM.
    #[inline]
    pub fn get(&self, physical: u32) -> Words {
        match self.lines.get(physical) {
            Some(words) => *words,
            None => self.generated(physical),
        }
    }

    /// Writes a line of a DIMM.
    #[inline]
    pub fn set(&mut self, physical: u32, words: &Words) {
        self.lines.set(physical, words);
    }

    /// A page of the file.
    pub fn page(&self, page: u32) -> PageWords {
        std::array::from_fn(|line| self.get(self.layout.data(page * PAGE_LINES + line as u32)))
    }

    /// Writes every line that is still generated, as it is: for small ones that are looked at often.
    pub fn write_generated(&mut self) {
        for physical in 0..self.layout.lines() {
            let words = self.get(physical);
            self.set(physical, &words);
        }
    }

    /// Whether nothing was written yet.
    pub fn is_untouched(&self) -> bool {
        self.lines.is_untouched()
    }

    /// What of a page of the file and its stripe does not fit: the page's checksum, the stripe's parity.
    pub fn misfits(&self, page: u32) -> (bool, bool) {
        let (line, place) = self.layout.sum(page);
        let sum = crate::line::sum_at(&self.get(line), place);
        let stripe = self.layout.stripe(page);
        let is_parity_wrong = (0..PAGE_LINES).any(|line| {
            let mut parity = self.get(self.layout.parity(stripe, line));
            for mate in self.layout.pages_of(stripe) {
                let data = self.get(self.layout.data(mate * PAGE_LINES + line));
                parity = difference(&parity, &data);
            }
            parity != [0; 8]
        });
        (sum != page_sum(&self.page(page)), is_parity_wrong)
    }

    /// Whether one of the two sums of a page, as Forebay's regions have them, is not that of the page.
    pub fn region_sums_misfit(&self, page: u32) -> bool {
        let check = region_sum_check(page, &self.page(page));
        let sums = self.layout.region_sums(page);
        sums.into_iter()
            .any(|(line, word)| self.get(line)[word as usize] as u32 != check)
    }

    /// Whether a line of a page does not fit its DAX-CL-checksum.
    pub fn line_sums_misfit(&self, page: u32) -> bool {
        let mut lines = page * PAGE_LINES..(page + 1) * PAGE_LINES;
        lines.any(|line| {
            let (at, place) = self.layout.line_sum(line);
            let words = self.get(self.layout.data(line));
            crate::line::sum_at(&self.get(at), place) != line_sum(&words)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_generated_is_protected() {
        let contents = Contents::new(Layout::new(4, 50), 7);
        for page in 0..contents.layout.data_pages {
            assert_eq!(contents.misfits(page), (false, false));
        }
    }

    #[test]
    fn a_page_has_two_sums_of_a_region_on_two_dimms() {
        for (dimms, pages) in [(4, 50), (4, 600), (2, 3), (16, 4096)] {
            let layout = Layout::new(dimms, pages);
            let mut contents = Contents::new(layout, 7);
            contents.use_region_sums();
            for page in 0..layout.data_pages {
                let [one, other] = layout.region_sums(page);
                assert!(one.0 < layout.lines() && other.0 < layout.lines());
                assert_ne!(layout.dimm(one.0), layout.dimm(other.0));
                assert!(!contents.region_sums_misfit(page));
            }
        }
    }

    #[test]
    fn a_line_that_is_written_fits_no_longer() {
        let mut contents = Contents::new(Layout::new(4, 50), 7);
        let at = contents.layout.data(5 * PAGE_LINES + 3);
        contents.set(at, &[1; 8]);
        assert_eq!(contents.misfits(5), (true, true));
        assert_eq!(contents.misfits(4), (false, true));
        assert_eq!(contents.misfits(7), (false, false));
    }
}
