//! A DIMM that is replaced: all it held is made from the others.

use crate::controller::state::{Controllers, Loss};
use crate::line::{PAGE_LINES, difference};
use crate::nvm::Nvm;
use crate::nvm::layout::Place;

impl Controllers {
    /// An empty DIMM comes in the place of a dead one. Every page is rebuilt from what was verified on the others
    /// (§3.1), every parity and checksum of it is made anew. Controllers have it dead until all of that is there: if power fails before, it
    /// is done again.
    ///
    /// # Errors
    /// A page cannot be rebuilt, for another of its stripe is wrong as well; the others are.
    pub fn replace_dimm(&mut self, dimm: u32, nvm: &mut Nvm) -> Result<(), Loss> {
        let layout = nvm.layout;
        let mut lost = None;
        let mut pages = Vec::new();
        for stripe in 0..layout.stripes {
            let Some(page) = layout.page_at(stripe, dimm) else {
                continue;
            };
            match self.rebuild(page, nvm) {
                Some(words) => pages.push((page, words)),
                None => lost = Some(Loss { page }),
            }
        }
        self.forget_dimm(dimm, nvm);
        nvm.begin_rebuild();
        for (page, words) in &pages {
            for (line, words) in words.iter().enumerate() {
                nvm.file_system_write(layout.data(page * PAGE_LINES + line as u32), words);
            }
            self.make_sum(*page, words, nvm);
        }
        for page in 0..layout.data_pages {
            let parity_dimm = layout.dimm(layout.parity(layout.stripe(page), 0));
            if parity_dimm == dimm && layout.pages_of(layout.stripe(page)).start == page {
                self.make_stripe_parity(layout.stripe(page), nvm);
            }
            let is_mapped = self.mapped.contains(&(page * PAGE_LINES));
            let line_sums_dimm = layout.dimm(layout.line_sum(page * PAGE_LINES).0);
            if is_mapped && line_sums_dimm == dimm && self.design.has_line_sums() {
                // Its checksum vouches for it: a sum over wrong bytes would vouch for these.
                match self.examine(page, nvm).right {
                    Some(words) => self.make_line_sums(page, &words, nvm),
                    None => lost = Some(Loss { page }),
                }
            }
        }
        nvm.set_dead(None);
        self.findings.lost += u64::from(lost.is_some());
        lost.map_or(Ok(()), Err)
    }

    /// Nothing in the caches is of the dead DIMM any more, and the new one holds zeroes.
    fn forget_dimm(&mut self, dimm: u32, nvm: &mut Nvm) {
        for line in (0..nvm.layout.lines()).filter(|&line| nvm.layout.dimm(line) == dimm) {
            if let (Some(caches), false) = (
                &mut self.caches,
                matches!(nvm.layout.place(line), Place::Data(_)),
            ) {
                caches.forget(line);
            }
            nvm.contents.set(line, &[0; 8]);
        }
    }

    fn make_stripe_parity(&mut self, stripe: u32, nvm: &mut Nvm) {
        let layout = nvm.layout;
        for line in 0..PAGE_LINES {
            let mut parity = [0; 8];
            for page in layout.pages_of(stripe) {
                let data = nvm.file_system_read(layout.data(page * PAGE_LINES + line));
                parity = difference(&parity, &data.expect("the dead DIMM was replaced"));
            }
            self.replace(layout.parity(stripe, line), &parity, nvm);
        }
    }
}
