//! The asynchronous design, after Vilamb ("Lazy redundancy for NVM storage", CMU-PDL-19-101): pages that were stored to are
//! covered later, in passes.
//!
//! A page's first store since it was covered traps into the kernel; those after it cost nothing. Each period one of
//! the threads asks the kernel which pages those are. All of them make their checksums, and their stripes' parity from all pages of
//! the stripe, a page at a time between two of their own steps. Until then a page is not protected.

use std::cell::RefCell;
use std::rc::Rc;

use crate::controller::state::Loss;
use crate::design::Design;
use crate::line::{LINE_BYTES, PAGE_LINES, difference, page_sum, raw_address};
use crate::machine::state::Machine;
use crate::parameters::Parameters;
use crate::workload::library::{Library, store_sum};

/// What all threads share.
#[derive(Debug)]
struct Pages {
    /// Which pages were stored to since the last pass took them.
    is_dirty: Vec<bool>,
    dirty: Vec<u32>,
    /// Those that the pass under way has still to cover.
    to_cover: Vec<u32>,
    next_pass: u64,
}

/// A thread's part in it.
#[derive(Clone, Debug)]
pub struct Passes {
    pages: Rc<RefCell<Pages>>,
    library: Library,
    period_cycles: u64,
    first_store_cycles: u64,
    scan_page_cycles: u64,
}

impl Passes {
    /// That of the asynchronous design, for a file of so many pages.
    pub fn of(design: Design, parameters: &Parameters, pages: u32) -> Option<Passes> {
        let (own, mhz) = (&parameters.passes, parameters.cores.frequency_mhz.value);
        let period_cycles = own.period_us.value * mhz;
        (design == Design::Passes).then(|| Passes {
            pages: Rc::new(RefCell::new(Pages {
                is_dirty: vec![false; pages as usize],
                dirty: Vec::new(),
                to_cover: Vec::new(),
                next_pass: period_cycles,
            })),
            library: Library::by_page(parameters),
            period_cycles,
            first_store_cycles: own.first_store_ns.value * mhz / 1000,
            scan_page_cycles: own.scan_page_ns.value * mhz / 1000,
        })
    }

    /// A line of the file is about to be stored to.
    pub fn before_store(&self, machine: &mut Machine, core: usize, line: u64) {
        let mut pages = self.pages.borrow_mut();
        let page = line as u32 / PAGE_LINES;
        if !pages.is_dirty[page as usize] {
            pages.is_dirty[page as usize] = true;
            pages.dirty.push(page);
            machine.cores[core].clock.stall(self.first_store_cycles);
        }
    }

    /// Covers a page, if a pass is under way, or begins one. Whether it began one: the
    /// core then has been away for long, and others go first.
    ///
    /// # Errors
    /// Data that it reads is lost.
    pub fn step(&self, machine: &mut Machine, core: usize) -> Result<bool, Loss> {
        let now = machine.cores[core].clock.now();
        let mut pages = self.pages.borrow_mut();
        if pages.to_cover.is_empty() && now >= pages.next_pass {
            pages.next_pass = now + self.period_cycles;
            let scanned = self.begin(&mut pages);
            let scan_cycles = scanned * self.scan_page_cycles;
            machine.cores[core].clock.stall(scan_cycles);
            return Ok(true);
        }
        if let Some(page) = pages.to_cover.pop() {
            self.cover(machine, core, page)?;
        }
        Ok(false)
    }

    /// Covers all that is left, once all threads are done.
    ///
    /// # Errors
    /// Data that it reads is lost.
    pub fn settle(&self, machine: &mut Machine) -> Result<(), Loss> {
        let mut pages = self.pages.borrow_mut();
        let before = std::mem::take(&mut pages.to_cover);
        self.begin(&mut pages);
        pages.to_cover.extend(before);
        while let Some(page) = pages.to_cover.pop() {
            self.cover(machine, 0, page)?;
        }
        Ok(())
    }

    /// A pass begins: how many pages it is to cover. From now on a store to one of them traps again.
    fn begin(&self, pages: &mut Pages) -> u64 {
        pages.to_cover = std::mem::take(&mut pages.dirty);
        for page in &pages.to_cover {
            pages.is_dirty[*page as usize] = false;
        }
        // The page that was stored to first is covered first.
        pages.to_cover.reverse();
        pages.to_cover.len() as u64
    }

    fn cover(&self, machine: &mut Machine, core: usize, page: u32) -> Result<(), Loss> {
        let layout = machine.nvm.layout;
        let words = self.library.read_page(machine, core, page)?;
        store_sum(machine, core, layout.sum(page), page_sum(&words))?;
        let stripe = layout.stripe(page);
        for (line, words) in words.iter().enumerate() {
            let mut parity = *words;
            for mate in layout.pages_of(stripe).filter(|mate| *mate != page) {
                let mut other = [0; 8];
                let address = (u64::from(mate * PAGE_LINES) + line as u64) * LINE_BYTES;
                machine.load(core, address, &mut other)?;
                parity = difference(&parity, &other);
            }
            let address = raw_address(layout.parity(stripe, line as u32));
            machine.store(core, address, &parity)?;
            self.library.compute_parity(machine, core);
        }
        Ok(())
    }
}
