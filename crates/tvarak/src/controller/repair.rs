//! What the file system does about a page that does not match: it makes right what is wrong.

use crate::controller::examine::Examined;
use crate::controller::state::{Controllers, Loss};
use crate::line::{
    PAGE_LINES, PageWords, SUMS_PER_LINE, Words, difference, line_sum, page_sum, set_sum,
};
use crate::mutants::{Mutant, mutated};
use crate::nvm::Nvm;

impl Controllers {
    /// A line that did not match, or whose DIMM is dead, as it should be. What is wrong on living DIMMs is right
    /// afterwards.
    ///
    /// # Errors
    /// Neither the page nor what its stripe gives is vouched for by a checksum.
    pub fn recover(&mut self, line: u32, nvm: &mut Nvm) -> Result<Words, Loss> {
        let page = line / PAGE_LINES;
        let examined = self.examine(page, nvm);
        if examined.stored.is_none() {
            self.findings.degraded_reads += 1;
        }
        let right = self.repair(&examined, nvm)?;
        Ok(right[(line % PAGE_LINES) as usize])
    }

    /// Looks at a page without being asked to by a read, and makes right what is wrong. Whether anything was.
    ///
    /// # Errors
    /// The page is lost.
    pub fn scrub(&mut self, page: u32, nvm: &mut Nvm) -> Result<bool, Loss> {
        let examined = self.examine(page, nvm);
        let is_wrong = examined.is_data_wrong()
            || examined.is_sum_wrong
            || examined.is_line_sum_wrong && !mutated(Mutant::LineSumsNotScrubbed)
            || examined.is_parity_wrong;
        if is_wrong {
            self.findings.detected += 1;
            self.repair(&examined, nvm)?;
        }
        Ok(is_wrong)
    }

    fn repair(&mut self, examined: &Examined, nvm: &mut Nvm) -> Result<Box<PageWords>, Loss> {
        let page = examined.page;
        let Some(right) = examined.right.clone() else {
            self.findings.lost += 1;
            return Err(Loss { page });
        };
        let mut is_right_again = examined.stored.is_some();
        if examined.is_data_wrong() {
            self.findings.data_repaired += 1;
            is_right_again = false;
            if !mutated(Mutant::RepairNotWritten) {
                write_page(page, &right, examined.stored.as_deref(), nvm);
            }
        }
        for (is_wrong, make_anew) in [
            (examined.is_sum_wrong, Controllers::make_sum as Make),
            (examined.is_line_sum_wrong, Controllers::make_line_sums),
            (examined.is_parity_wrong, Controllers::make_parity),
        ] {
            if is_wrong {
                self.findings.redundancy_repaired += 1;
                is_right_again = false;
                make_anew(self, page, &right, nvm);
            }
        }
        self.findings.right_again += u64::from(is_right_again);
        Ok(right)
    }

    /// The system checksum of a page, from its right bytes.
    pub fn make_sum(&mut self, page: u32, right: &PageWords, nvm: &mut Nvm) {
        let (line, place) = nvm.layout.sum(page);
        if let Some(mut words) = self.current(line, nvm) {
            set_sum(&mut words, place, page_sum(right));
            self.replace(line, &words, nvm);
        }
    }

    /// The DAX-CL-checksums of a page's lines.
    pub fn make_line_sums(&mut self, page: u32, right: &PageWords, nvm: &mut Nvm) {
        let first = page * PAGE_LINES;
        for (at, lines) in right.chunks(SUMS_PER_LINE as usize).enumerate() {
            let (line, _) = nvm.layout.line_sum(first + at as u32 * SUMS_PER_LINE);
            let mut words = [0; 8];
            for (place, data) in lines.iter().enumerate() {
                set_sum(&mut words, place as u32, line_sum(data));
            }
            self.replace(line, &words, nvm);
        }
    }

    /// The parity of a page's stripe, from its right bytes and the others' as they are.
    fn make_parity(&mut self, page: u32, right: &PageWords, nvm: &mut Nvm) {
        let layout = nvm.layout;
        let stripe = layout.stripe(page);
        for (line, right) in right.iter().enumerate() {
            let line = line as u32;
            let mut parity = *right;
            for mate in layout.pages_of(stripe).filter(|mate| *mate != page) {
                let data = nvm.file_system_read(layout.data(mate * PAGE_LINES + line));
                let data = data.expect("a parity was judged, so its stripe's DIMMs live");
                parity = difference(&parity, &data);
            }
            self.replace(layout.parity(stripe, line), &parity, nvm);
        }
    }
}

/// Makes one kind of redundancy of a page anew.
type Make = fn(&mut Controllers, u32, &PageWords, &mut Nvm);

fn write_page(page: u32, right: &PageWords, stored: Option<&PageWords>, nvm: &mut Nvm) {
    for (line, words) in right.iter().enumerate() {
        if stored.is_none_or(|stored| stored[line] != *words) {
            let physical = nvm.layout.data(page * PAGE_LINES + line as u32);
            nvm.file_system_write(physical, words);
        }
    }
}
