//! What the file system does around a mapping: DAX-CL-checksums are made when a file is mapped, and given up when it no
//! longer is (§3.3).

use std::ops::Range;

use crate::controller::examine::read_page;
use crate::controller::state::{Controllers, Loss};
use crate::line::PAGE_LINES;
use crate::nvm::Nvm;

impl Controllers {
    /// Maps pages: each is read, verified with its system checksum and repaired if need be, and its lines get
    /// checksums. No other pages are mapped then.
    ///
    /// # Errors
    /// One of the pages is lost; none is mapped.
    pub fn map(&mut self, pages: Range<u32>, nvm: &mut Nvm) -> Result<(), Loss> {
        self.mapped = 0..0;
        if self.design.has_line_sums() {
            for page in pages.clone() {
                self.scrub(page, nvm)?;
                let words = read_page(page, nvm).ok_or(Loss { page })?;
                self.make_line_sums(page, &words, nvm);
            }
        }
        self.mapped = pages.start * PAGE_LINES..pages.end * PAGE_LINES;
        Ok(())
    }

    /// Maps all pages of a file that nobody has written since it was made: its DAX-CL-checksums are as they should be,
    /// and what mapping it costs is only counted.
    ///
    /// # Panics
    /// If it was written.
    pub fn map_untouched(&mut self, nvm: &mut Nvm) {
        assert!(nvm.contents.is_untouched(), "the file was written");
        if self.design.has_line_sums() {
            // A page's lines and its checksum are read, and four lines of checksums written.
            nvm.counts.file_system += u64::from(nvm.layout.data_pages) * 69;
        }
        self.mapped = 0..nvm.layout.data_lines();
    }

    /// Unmaps all: each page is verified with its system checksum, and repaired if need be.
    /// How many pages had something wrong.
    ///
    /// # Errors
    /// A page is lost; the others were looked at.
    pub fn unmap(&mut self, nvm: &mut Nvm) -> Result<u64, Loss> {
        let mut wrong = 0;
        let mut lost = None;
        for page in self.mapped.start / PAGE_LINES..self.mapped.end / PAGE_LINES {
            match self.scrub(page, nvm) {
                Ok(was_wrong) => wrong += u64::from(was_wrong),
                Err(loss) => lost = Some(loss),
            }
        }
        self.mapped = 0..0;
        lost.map_or(Ok(wrong), Err)
    }
}
