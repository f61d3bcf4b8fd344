//! Forebay's own regions (`docs/inside/dax.md`): pages that were stored to are covered behind the program, row by row.
//!
//! A pass takes which pages were written, copies their rows to DRAM, and looks again: a row that was stored to meanwhile comes with
//! the next pass, which then holds its writers. Mates that were not written must match their sums. A row's parity is made once, of
//! all its copies; a page's sum has eight bytes, in two places. `regions-sync` syncs what a transaction wrote at its end, as a pass
//! over its rows alone. Nothing is flushed, as in all designs here (§4).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::controller::state::Loss;
use crate::design::Design;
use crate::line::{LINE_BYTES, PAGE_LINES, PageWords, difference, raw_address, region_sum_check};
use crate::machine::build::BATCH_ROWS;
use crate::machine::state::Machine;
use crate::nvm::layout::Layout;
use crate::parameters::Parameters;

/// Passes that leave a row out before its writers are held.
const SKIPS_BEFORE_HOLD: u32 = 1;

/// What of a row was written: a bit for each of its pages, and how many passes left it out.
#[derive(Clone, Copy, Debug, Default)]
struct Written {
    pages: u16,
    skips: u32,
}

/// A row, and copies of its pages: at a place of the batch's memory.
#[derive(Debug)]
struct Copied {
    place: u32,
    stripe: u32,
    written: Written,
    pages: Vec<PageWords>,
}

/// What all threads share.
#[derive(Debug)]
struct State {
    is_dirty: Vec<bool>,
    dirty: Vec<u32>,
    /// Rows that a pass left out.
    left_out: BTreeMap<u32, Written>,
    /// Rows of the pass that is under way, the first one last.
    to_cover: Vec<(u32, Written)>,
    /// The batch: rows that were copied, and whether they were looked at again since.
    copied: Vec<Copied>,
    is_looked_at: bool,
    /// For each core, pages that the transaction under way has stored to.
    unsynced: Vec<Vec<u32>>,
    next_pass: u64,
    pass: u32,
}

/// What was counted: instructions, and own accesses.
#[derive(Clone, Copy, Debug)]
struct Costs {
    pass: [u64; 2],
    sync: [u64; 2],
    page: [u64; 2],
    line: [u64; 2],
    first_store_cycles: u64,
    scan_page_cycles: u64,
    period_cycles: u64,
}

/// A thread's part in it.
#[derive(Clone, Debug)]
pub struct Regions {
    state: Rc<RefCell<State>>,
    costs: Costs,
    is_synced: bool,
}

impl Regions {
    /// That of a design, for a file of so many pages.
    pub fn of(design: Design, parameters: &Parameters, pages: u32) -> Option<Regions> {
        if !design.has_region_sums() {
            return None;
        }
        let (own, passes) = (&parameters.regions, &parameters.passes);
        // Rows are whole.
        let pages = Layout::new(parameters.nvm.dimms.value as u32, pages).data_pages;
        let mhz = parameters.cores.frequency_mhz.value;
        let period_cycles = passes.period_us.value * mhz;
        let state = State {
            is_dirty: vec![false; pages as usize],
            dirty: Vec::new(),
            left_out: BTreeMap::new(),
            to_cover: Vec::new(),
            copied: Vec::new(),
            is_looked_at: false,
            unsynced: vec![Vec::new(); parameters.cores.count.value as usize],
            next_pass: period_cycles,
            pass: 0,
        };
        let costs = Costs {
            pass: [own.pass_instructions.value, own.pass_own_accesses.value],
            sync: [own.sync_instructions.value, own.sync_own_accesses.value],
            page: [own.page_instructions.value, own.page_own_accesses.value],
            line: [own.line_instructions.value, own.line_own_accesses.value],
            first_store_cycles: passes.first_store_ns.value * mhz / 1000,
            scan_page_cycles: passes.scan_page_ns.value * mhz / 1000,
            period_cycles,
        };
        Some(Regions {
            state: Rc::new(RefCell::new(state)),
            costs,
            is_synced: design == Design::RegionsSync,
        })
    }

    /// A line of the file is about to be stored to.
    pub fn before_store(&self, machine: &mut Machine, core: usize, line: u64) {
        let mut state = self.state.borrow_mut();
        let page = line as u32 / PAGE_LINES;
        if !state.is_dirty[page as usize] {
            state.note(page);
            machine.cores[core]
                .clock
                .stall(self.costs.first_store_cycles);
        }
        let unsynced = &mut state.unsynced[core];
        if self.is_synced && unsynced.last() != Some(&page) {
            unsynced.push(page);
        }
    }

    /// A transaction, or a write outside of one, is complete: with sync, what it wrote is covered when this returns.
    ///
    /// # Errors
    /// Data that it reads is lost.
    pub fn after(&self, machine: &mut Machine, core: usize) -> Result<(), Loss> {
        let mut state = self.state.borrow_mut();
        let mut pages = std::mem::take(&mut state.unsynced[core]);
        pages.sort_unstable();
        pages.dedup();
        // A program syncs one range after the other.
        for range in pages.chunk_by(|one, next| one + 1 == *next) {
            execute(machine, core, self.costs.sync);
            let layout = machine.nvm.layout;
            let stripes = layout.stripe(range[0])..=layout.stripe(range[range.len() - 1]);
            for stripe in stripes {
                let written = state.take_row(machine, stripe);
                let scanned = u64::from(layout.dimms - 1) * self.costs.scan_page_cycles;
                machine.cores[core].clock.stall(scanned);
                if written.pages != 0 {
                    let copied = self.copy(machine, core, 0, (stripe, written), &state)?;
                    state.pass += 1;
                    self.cover(machine, core, &copied, state.pass)?;
                }
            }
        }
        Ok(())
    }

    /// A pass's turn, between two steps of the program: it begins, copies a row, looks at those copied again, or covers one.
    /// Whether the core was away for long, so that others go first.
    ///
    /// # Errors
    /// Data that it reads is lost.
    pub fn step(&self, machine: &mut Machine, core: usize) -> Result<bool, Loss> {
        if self.is_synced {
            return Ok(false);
        }
        let mut state = self.state.borrow_mut();
        let now = machine.cores[core].clock.now();
        if state.is_at_rest() && now >= state.next_pass {
            state.next_pass = now + self.costs.period_cycles;
            let scanned = state.begin(machine);
            machine.cores[core]
                .clock
                .stall(scanned * self.costs.scan_page_cycles);
            execute(machine, core, self.costs.pass);
            return Ok(true);
        }
        if state.is_looked_at {
            let copied = state.copied.pop().expect("the last row ends the batch");
            state.is_looked_at = !state.copied.is_empty();
            self.cover(machine, core, &copied, state.pass)?;
            return Ok(false);
        }
        let place = state.copied.len() as u32;
        let next = match place < BATCH_ROWS {
            true => state.to_cover.pop(),
            false => None,
        };
        match next {
            Some((stripe, written)) if written.skips >= SKIPS_BEFORE_HOLD => {
                // Held: nobody stores to it between the copy and the sums.
                let written = state.taken_again(machine, stripe, written);
                let copied = self.copy(machine, core, place, (stripe, written), &state)?;
                self.cover(machine, core, &copied, state.pass)?;
            }
            Some(row) => {
                let copied = self.copy(machine, core, place, row, &state)?;
                state.copied.push(copied);
            }
            None if place > 0 => {
                let pages = u64::from(place * (machine.nvm.layout.dimms - 1));
                machine.cores[core]
                    .clock
                    .stall(pages * self.costs.scan_page_cycles);
                state.look_again(machine);
            }
            None => {}
        }
        Ok(false)
    }

    /// Covers all that is left, once all threads are done.
    ///
    /// # Errors
    /// Data that it reads is lost.
    pub fn settle(&self, machine: &mut Machine) -> Result<(), Loss> {
        let mut state = self.state.borrow_mut();
        state.is_looked_at = false;
        for copied in std::mem::take(&mut state.copied) {
            state.leave_out(copied.stripe, copied.written);
        }
        for (stripe, written) in std::mem::take(&mut state.to_cover) {
            state.leave_out(stripe, written);
        }
        state.begin(machine);
        let pass = state.pass;
        while let Some(row) = state.to_cover.pop() {
            let copied = self.copy(machine, 0, 0, row, &state)?;
            self.cover(machine, 0, &copied, pass)?;
        }
        Ok(())
    }

    /// Copies the pages of a row to DRAM, to a place of the batch, and sums them up; those that were not written must match.
    fn copy(
        &self,
        machine: &mut Machine,
        core: usize,
        place: u32,
        (stripe, written): (u32, Written),
        state: &State,
    ) -> Result<Copied, Loss> {
        let layout = machine.nvm.layout;
        let mut pages = Vec::with_capacity(layout.dimms as usize - 1);
        for (mate, page) in layout.pages_of(stripe).enumerate() {
            let mut words = [[0; 8]; PAGE_LINES as usize];
            for (line, words) in words.iter_mut().enumerate() {
                let address = (u64::from(page * PAGE_LINES) + line as u64) * LINE_BYTES;
                machine.load(core, address, words)?;
                let to = machine.scratch_address(copy_line(place, mate, line));
                machine.store(core, to, words)?;
                execute(machine, core, self.costs.line);
            }
            let check = region_sum_check(page, &words);
            let mut matches = false;
            for (line, word) in layout.region_sums(page) {
                let mut sum = [0];
                machine.load(core, raw_address(line) + u64::from(word) * 8, &mut sum)?;
                matches |= sum[0] as u32 == check;
            }
            let is_written = written.pages & 1 << mate != 0 || state.is_dirty[page as usize];
            if !matches && !is_written {
                return Err(Loss { page });
            }
            pages.push(words);
        }
        Ok(Copied {
            place,
            stripe,
            written,
            pages,
        })
    }

    /// Makes parity and sums of a row's copies.
    fn cover(
        &self,
        machine: &mut Machine,
        core: usize,
        copied: &Copied,
        pass: u32,
    ) -> Result<(), Loss> {
        let layout = machine.nvm.layout;
        let mates = copied.pages.len();
        for line in 0..PAGE_LINES as usize {
            let mut parity = [0; 8];
            for (mate, words) in copied.pages.iter().enumerate() {
                let mut copy = [0; 8];
                let from = machine.scratch_address(copy_line(copied.place, mate, line));
                machine.load(core, from, &mut copy)?;
                debug_assert_eq!(copy, words[line]);
                parity = difference(&parity, &copy);
            }
            let address = raw_address(layout.parity(copied.stripe, line as u32));
            machine.store(core, address, &parity)?;
        }
        let first = layout.pages_of(copied.stripe).start;
        for mate in (0..mates).filter(|mate| copied.written.pages & 1 << mate != 0) {
            let page = first + mate as u32;
            execute(machine, core, self.costs.page);
            let check = region_sum_check(page, &copied.pages[mate]);
            let sum = u64::from(check) | u64::from(pass) << 32;
            for (line, word) in layout.region_sums(page) {
                machine.store(core, raw_address(line) + u64::from(word) * 8, &[sum])?;
            }
        }
        Ok(())
    }
}

impl State {
    fn note(&mut self, page: u32) {
        self.is_dirty[page as usize] = true;
        // Those that a sync took are still there.
        if self.dirty.len() > self.is_dirty.len() {
            let is_dirty = &self.is_dirty;
            self.dirty.retain(|page| is_dirty[*page as usize]);
        }
        self.dirty.push(page);
    }

    fn is_at_rest(&self) -> bool {
        self.copied.is_empty() && self.to_cover.is_empty()
    }

    /// A pass begins: how many pages it is to cover. From now on a store to one of them traps again.
    fn begin(&mut self, machine: &Machine) -> u64 {
        let layout = machine.nvm.layout;
        let mut rows = std::mem::take(&mut self.left_out);
        let taken = std::mem::take(&mut self.dirty);
        for page in &taken {
            // A sync may have taken it.
            if std::mem::replace(&mut self.is_dirty[*page as usize], false) {
                let stripe = layout.stripe(*page);
                let mate = page - layout.pages_of(stripe).start;
                rows.entry(stripe).or_default().pages |= 1 << mate;
            }
        }
        self.pass += 1;
        self.to_cover = rows.into_iter().rev().collect();
        taken.len() as u64
    }

    /// Takes which pages of a row were written.
    fn take_row(&mut self, machine: &Machine, stripe: u32) -> Written {
        let written = self.left_out.remove(&stripe).unwrap_or_default();
        self.taken_again(machine, stripe, written)
    }

    /// The same of a row of which some were taken.
    fn taken_again(&mut self, machine: &Machine, stripe: u32, mut written: Written) -> Written {
        for (mate, page) in machine.nvm.layout.pages_of(stripe).enumerate() {
            let is_written = std::mem::replace(&mut self.is_dirty[page as usize], false);
            written.pages |= u16::from(is_written) << mate;
        }
        written
    }

    /// Looks at the rows that were copied: those that were stored to since come with the next pass.
    fn look_again(&mut self, machine: &Machine) {
        let copied = std::mem::take(&mut self.copied);
        let layout = machine.nvm.layout;
        let (moved, rest): (Vec<Copied>, Vec<Copied>) = copied.into_iter().partition(|row| {
            let mut pages = layout.pages_of(row.stripe);
            pages.any(|page| self.is_dirty[page as usize])
        });
        for row in moved {
            self.leave_out(row.stripe, row.written);
        }
        self.is_looked_at = !rest.is_empty();
        self.copied = rest;
    }

    fn leave_out(&mut self, stripe: u32, written: Written) {
        let left = self.left_out.entry(stripe).or_default();
        left.pages |= written.pages;
        left.skips = left.skips.max(written.skips) + 1;
    }
}

fn execute(machine: &mut Machine, core: usize, [instructions, own_accesses]: [u64; 2]) {
    machine.compute(core, instructions, own_accesses);
}

/// The line of a batch's copies that has a line of a row's page.
fn copy_line(place: u32, mate: usize, line: usize) -> u32 {
    (place * 16 + mate as u32) * PAGE_LINES + line as u32
}

#[cfg(all(test, not(feature = "mutants")))]
mod tests {
    use super::*;
    use crate::machine::build::Sizes;

    const FIRST_LINE: u64 = 0;

    fn stand() -> (Machine, Regions) {
        let parameters = Parameters::crowded();
        let sizes = Sizes {
            data_pages: 30,
            dram_lines: 1,
            code_bytes: 64,
            seed: 5,
        };
        let machine = Machine::new(&parameters, Design::Regions, &sizes);
        let pages = machine.nvm.layout.data_pages;
        let regions = Regions::of(Design::Regions, &parameters, pages).expect("it is one");
        (machine, regions)
    }

    fn store(machine: &mut Machine, regions: &Regions, line: u64, value: u64) {
        regions.before_store(machine, 0, line);
        let stored = machine.store(0, line * LINE_BYTES, &[value]);
        stored.expect("nothing is lost");
    }

    /// A pass begins, and a step more for each of these.
    fn pass(machine: &mut Machine, regions: &Regions, steps: u32) {
        machine.cores[0].clock.stall(regions.costs.period_cycles);
        for _ in 0..1 + steps {
            regions.step(machine, 0).expect("nothing is lost");
        }
    }

    fn misfits(machine: &Machine) -> (bool, bool) {
        let contents = &machine.nvm.contents;
        (contents.region_sums_misfit(0), contents.misfits(0).1)
    }

    #[test]
    fn a_row_that_is_stored_to_while_it_is_copied_comes_with_the_next_pass_and_is_held_then() {
        let (mut machine, regions) = stand();
        store(&mut machine, &regions, FIRST_LINE, 1);
        pass(&mut machine, &regions, 1);
        store(&mut machine, &regions, FIRST_LINE, 2);
        regions
            .step(&mut machine, 0)
            .expect("it is looked at again");
        assert_eq!(regions.state.borrow().left_out.len(), 1);
        assert!(regions.state.borrow().is_at_rest());
        // One step copies and covers it: nobody comes between.
        pass(&mut machine, &regions, 1);
        assert!(regions.state.borrow().left_out.is_empty());
        assert!(regions.state.borrow().is_at_rest());
        machine.flush(&mut fastrand::Rng::with_seed(1));
        assert_eq!(misfits(&machine), (false, false));
    }

    #[test]
    fn a_row_that_rests_is_copied_looked_at_and_covered() {
        let (mut machine, regions) = stand();
        store(&mut machine, &regions, FIRST_LINE, 1);
        pass(&mut machine, &regions, 3);
        assert!(regions.state.borrow().is_at_rest());
        machine.flush(&mut fastrand::Rng::with_seed(1));
        assert_eq!(misfits(&machine), (false, false));
    }

    #[test]
    fn a_mate_that_matches_no_sum_is_named() {
        let (mut machine, regions) = stand();
        let at = machine.nvm.layout.data(PAGE_LINES);
        machine.nvm.contents.set(at, &[9; 8]);
        store(&mut machine, &regions, FIRST_LINE, 1);
        machine.cores[0].clock.stall(regions.costs.period_cycles);
        regions.step(&mut machine, 0).expect("a pass begins");
        assert_eq!(regions.step(&mut machine, 0), Err(Loss { page: 1 }));
    }
}
