//! Where data, parity and checksums lie on the DIMMs of NVM: RAID-5 by page stripes (Figure 3).
//!
//! A row is one page of each DIMM. The first rows are stripes: a parity page, whose DIMM changes from row to row, and
//! data pages. Then come the rows of system checksums, each beside the pages of its own DIMM (§3.1), and those of the
//! DAX-CL-checksums, page by page over all DIMMs (§3.3: they need not lie with their data).

use crate::line::{PAGE_LINES, SUMS_PER_LINE};

/// Checksums of four bytes in a page.
const SUMS_PER_PAGE: u32 = SUMS_PER_LINE * PAGE_LINES;

/// What a line of a DIMM holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Of a data page: its line in the file.
    Data(u32),
    /// Of the parity page of a stripe.
    Parity {
        /// The stripe.
        stripe: u32,
        /// The line within its pages.
        line: u32,
    },
    /// System checksums of the DIMM's pages.
    Sums {
        /// The DIMM.
        dimm: u32,
        /// The first of their sixteen rows.
        row: u32,
    },
    /// DAX-CL-checksums of sixteen lines of the file, from this one on.
    LineSums(u32),
}

/// A kind of content, as accesses are counted and bugs are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Data.
    Data,
    /// System checksums.
    Sums,
    /// DAX-CL-checksums.
    LineSums,
    /// Parity.
    Parity,
}

impl Class {
    /// All of them.
    pub const ALL: [Class; 4] = [Class::Data, Class::Sums, Class::LineSums, Class::Parity];
}

/// The place of everything.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// DIMMs.
    pub dimms: u32,
    /// Pages of data, a multiple of those of a stripe.
    pub data_pages: u32,
    /// Stripes, each a row.
    pub stripes: u32,
    line_sums_row: u32,
    rows: u32,
}

impl Layout {
    /// For so many pages of data at least.
    ///
    /// # Panics
    /// If they are too many for the numbers of lines, or none.
    pub fn new(dimms: u32, data_pages: u32) -> Layout {
        let mates = dimms - 1;
        let stripes = data_pages.div_ceil(mates);
        let data_pages = stripes * mates;
        let sums_rows = stripes.div_ceil(SUMS_PER_PAGE);
        let line_sums_pages = (data_pages * PAGE_LINES).div_ceil(SUMS_PER_PAGE);
        let line_sums_row = stripes + sums_rows;
        let layout = Layout {
            dimms,
            data_pages,
            stripes,
            line_sums_row,
            rows: line_sums_row + line_sums_pages.div_ceil(dimms),
        };
        assert!(data_pages > 0 && layout.lines() < 1 << 30, "no such NVM");
        layout
    }

    /// Lines of all DIMMs.
    pub fn lines(&self) -> u32 {
        self.rows * self.dimms * PAGE_LINES
    }

    /// Lines of the file.
    pub fn data_lines(&self) -> u32 {
        self.data_pages * PAGE_LINES
    }

    fn at(&self, row: u32, dimm: u32, line: u32) -> u32 {
        (row * self.dimms + dimm) * PAGE_LINES + line
    }

    /// Where a line of the file is.
    #[inline]
    pub fn data(&self, line: u32) -> u32 {
        let (page, line) = (line / PAGE_LINES, line % PAGE_LINES);
        let (stripe, mate) = (page / (self.dimms - 1), page % (self.dimms - 1));
        let dimm = mate + u32::from(mate >= stripe % self.dimms);
        self.at(stripe, dimm, line)
    }

    /// The stripe of a page of the file.
    pub fn stripe(&self, page: u32) -> u32 {
        page / (self.dimms - 1)
    }

    /// The pages of the file in a stripe.
    pub fn pages_of(&self, stripe: u32) -> std::ops::Range<u32> {
        let first = stripe * (self.dimms - 1);
        first..first + self.dimms - 1
    }

    /// Where a line of a stripe's parity is.
    #[inline]
    pub fn parity(&self, stripe: u32, line: u32) -> u32 {
        self.at(stripe, stripe % self.dimms, line)
    }

    /// Where the system checksum of a page of the file is: the line, and the place in it.
    #[inline]
    pub fn sum(&self, page: u32) -> (u32, u32) {
        let (row, dimm) = (self.stripe(page), self.dimm(self.data(page * PAGE_LINES)));
        let in_page = row % SUMS_PER_PAGE;
        let line = self.at(
            self.stripes + row / SUMS_PER_PAGE,
            dimm,
            in_page / SUMS_PER_LINE,
        );
        (line, row % SUMS_PER_LINE)
    }

    /// Where the DAX-CL-checksum of a line of the file is: the line, and the place in it.
    #[inline]
    pub fn line_sum(&self, line: u32) -> (u32, u32) {
        let page = line / SUMS_PER_PAGE;
        let (row, dimm) = (self.line_sums_row + page / self.dimms, page % self.dimms);
        let in_page = line % SUMS_PER_PAGE / SUMS_PER_LINE;
        (self.at(row, dimm, in_page), line % SUMS_PER_LINE)
    }

    /// Where the sums of a page are in the designs of Forebay's regions, eight bytes each on two DIMMs: the lines, and the word
    /// in each. They lie where other designs have DAX-CL-checksums.
    pub fn region_sums(&self, page: u32) -> [(u32, u32); 2] {
        [0, self.second_sums()].map(|first| {
            let (line, _) = self.line_sum((first + page / 8) * SUMS_PER_LINE);
            (line, page % 8)
        })
    }

    /// The page whose sum is in a word of a line of DAX-CL-checksums, which is known by the first line of the file that it is of.
    pub fn region_sum_page(&self, first: u32, word: u32) -> Option<u32> {
        let line = first / SUMS_PER_LINE;
        let of_copy = match line.checked_sub(self.second_sums()) {
            Some(of_second) => of_second,
            None => line,
        };
        Some(of_copy * 8 + word).filter(|page| *page < self.data_pages)
    }

    /// The line, of those of DAX-CL-checksums, from which on the second copies of sums lie: whole pages away, on another DIMM.
    fn second_sums(&self) -> u32 {
        let pages = (2 * self.data_pages).div_ceil(PAGE_LINES);
        (pages + u32::from(pages.is_multiple_of(self.dimms))) * PAGE_LINES
    }

    /// The DIMM of a line.
    #[inline]
    pub fn dimm(&self, line: u32) -> u32 {
        line / PAGE_LINES % self.dimms
    }

    /// What a line is for.
    pub fn place(&self, physical: u32) -> Place {
        let (page, line) = (physical / PAGE_LINES, physical % PAGE_LINES);
        let (row, dimm) = (page / self.dimms, page % self.dimms);
        let parity_dimm = row % self.dimms;
        if row >= self.line_sums_row {
            let page = (row - self.line_sums_row) * self.dimms + dimm;
            Place::LineSums(page * SUMS_PER_PAGE + line * SUMS_PER_LINE)
        } else if row >= self.stripes {
            let row = (row - self.stripes) * SUMS_PER_PAGE + line * SUMS_PER_LINE;
            Place::Sums { dimm, row }
        } else if dimm == parity_dimm {
            Place::Parity { stripe: row, line }
        } else {
            let mate = dimm - u32::from(dimm > parity_dimm);
            Place::Data((row * (self.dimms - 1) + mate) * PAGE_LINES + line)
        }
    }

    /// The page of the file that a DIMM has in a row; none where it has the parity, or the row is beyond the last.
    pub fn page_at(&self, row: u32, dimm: u32) -> Option<u32> {
        if row >= self.stripes {
            return None;
        }
        match self.place(self.at(row, dimm, 0)) {
            Place::Data(line) => Some(line / PAGE_LINES),
            _ => None,
        }
    }

    /// The kind of what a line holds.
    #[inline]
    pub fn class(&self, physical: u32) -> Class {
        self.class_and_dimm(physical).0
    }

    /// The kind of what a line holds, and the line's DIMM.
    #[inline]
    pub fn class_and_dimm(&self, physical: u32) -> (Class, u32) {
        let page = physical / PAGE_LINES;
        let (row, dimm) = (page / self.dimms, page % self.dimms);
        let class = match () {
            () if row >= self.line_sums_row => Class::LineSums,
            () if row >= self.stripes => Class::Sums,
            () if dimm == row % self.dimms => Class::Parity,
            () => Class::Data,
        };
        (class, dimm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_one_place_and_one_kind() {
        for dimms in [2, 4, 7] {
            let layout = Layout::new(dimms, 40);
            let mut data = 0;
            for physical in 0..layout.lines() {
                let place = layout.place(physical);
                let expected = match place {
                    Place::Data(line) => {
                        data += 1;
                        assert_eq!(layout.data(line), physical);
                        Class::Data
                    }
                    Place::Parity { stripe, line } => {
                        assert_eq!(layout.parity(stripe, line), physical);
                        Class::Parity
                    }
                    Place::Sums { .. } => Class::Sums,
                    Place::LineSums(_) => Class::LineSums,
                };
                assert_eq!(layout.class(physical), expected);
            }
            assert_eq!(data, layout.data_lines());
        }
    }

    #[test]
    fn a_page_its_sum_and_its_parity_lie_as_section_3_says() {
        let layout = Layout::new(4, 5000);
        for page in 0..layout.data_pages {
            let data = layout.data(page * PAGE_LINES);
            let (sum, place) = layout.sum(page);
            // The checksum is on the page's own DIMM, the parity on another.
            assert_eq!(layout.dimm(sum), layout.dimm(data));
            let stripe = layout.stripe(page);
            assert_ne!(layout.dimm(layout.parity(stripe, 0)), layout.dimm(data));
            let Place::Sums { dimm, row } = layout.place(sum) else {
                panic!("no place of checksums");
            };
            assert_eq!(layout.page_at(row + place, dimm), Some(page));
        }
        for line in [0, 1, 1023, 1024, 4096, 70_000] {
            let (at, place) = layout.line_sum(line);
            assert_eq!(layout.place(at), Place::LineSums(line - place));
        }
    }
}
