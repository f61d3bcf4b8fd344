//! What a program on a core does: it loads, stores, and executes instructions.

use crate::controller::state::Loss;
use crate::line::{LINE_BYTES, NO_LINE, dram_address};
use crate::machine::state::{Held, Machine};

/// The word of a line at which an address is.
#[inline]
fn first_word(address: u64) -> usize {
    (address % LINE_BYTES / 8) as usize
}

/// Copies the first words of `from`: without a call where their number is known, as it nearly always is.
#[inline]
fn copy(to: &mut [u64], from: &[u64]) {
    match to.len() {
        1 => to[..1].copy_from_slice(&from[..1]),
        2 => to[..2].copy_from_slice(&from[..2]),
        8 => to[..8].copy_from_slice(&from[..8]),
        words => to.copy_from_slice(&from[..words]),
    }
}

impl Machine {
    /// Loads aligned words of one line.
    ///
    /// # Errors
    /// The line had to come from NVM, and is lost there.
    #[inline]
    pub fn load(&mut self, core: usize, address: u64, words: &mut [u64]) -> Result<(), Loss> {
        let (slot, is_modified) = self.data(core, (address / LINE_BYTES) as u32, false)?;
        let own = &self.cores[core];
        let line = match is_modified {
            true => &own.l2_data[slot],
            false => &self.llc.data[own.l2_below[slot] as usize],
        };
        copy(words, &line[first_word(address)..]);
        Ok(())
    }

    /// Stores aligned words of one line.
    ///
    /// # Errors
    /// The line had to come from NVM, and is lost there. Nothing was stored.
    #[inline]
    pub fn store(&mut self, core: usize, address: u64, words: &[u64]) -> Result<(), Loss> {
        let (slot, was_modified) = self.data(core, (address / LINE_BYTES) as u32, true)?;
        let own = &mut self.cores[core];
        let line = &mut own.l2_data[slot];
        if !was_modified && words.len() < line.len() {
            *line = self.llc.data[own.l2_below[slot] as usize];
        }
        copy(&mut line[first_word(address)..][..words.len()], words);
        Ok(())
    }

    /// The slot of the core's second cache with a line, brought there if need be, and time gone by; and whether the core had it
    /// modified before.
    #[inline]
    fn data(&mut self, core: usize, line: u32, is_store: bool) -> Result<(usize, bool), Loss> {
        let own = &mut self.cores[core];
        own.clock.execute(1);
        let set = (line & (own.l1d_sets - 1)) as usize;
        let found = own.l1d.find(set, line);
        self.counts.l1d.note(found.is_some());
        let Some(slot) = found else {
            return self.data_missed(core, line, is_store);
        };
        own.l1d.touch(slot);
        let below = own.l1d_below[slot] as usize;
        let held = own.l2_held[below];
        if !is_store {
            own.clock.load_hit(own.clock.now() + self.times.l1d_cycles);
            return Ok((below, held == Held::Modified));
        }
        own.l1d_dirty[slot] = true;
        match held {
            Held::Shared => {
                let shared = own.l2_below[below];
                let now = own.clock.begin_miss() + self.times.l1d_cycles + self.times.l2_cycles;
                self.counts.l2.note(true);
                let done = self.upgrade(core, shared, now);
                self.cores[core].clock.store_missed(done);
            }
            Held::Exclusive | Held::Modified => own.clock.store_hit(),
        }
        self.cores[core].l2_held[below] = Held::Modified;
        Ok((below, held == Held::Modified))
    }

    fn data_missed(
        &mut self,
        core: usize,
        line: u32,
        is_store: bool,
    ) -> Result<(usize, bool), Loss> {
        let now = self.cores[core].clock.begin_miss() + self.times.l1d_cycles;
        let (below, done) = self.reach_second(core, line, is_store, now)?;
        let own = &mut self.cores[core];
        let slot = own.l1d.victim((line & (own.l1d_sets - 1)) as usize);
        if own.l1d.line(slot) != NO_LINE && own.l1d_dirty[slot] {
            // Its bytes are in the second cache already; that it takes them is counted.
            self.counts.l2.note(true);
        }
        own.l1d.put(slot, line);
        own.l1d_below[slot] = below as u32;
        own.l2_above[below] = slot as u32;
        let was_modified = own.l2_held[below] == Held::Modified;
        own.l1d_dirty[slot] = is_store;
        match is_store {
            true => {
                own.l2_held[below] = Held::Modified;
                own.clock.store_missed(done);
            }
            false => own.clock.load_missed(done),
        }
        Ok((below, was_modified))
    }

    /// The next access needs the value of the last load.
    #[inline]
    pub fn wait_for_last_load(&mut self, core: usize) {
        self.cores[core].clock.wait_for_last_load();
    }

    /// Executes instructions of the program's loop, which make `own_accesses` to state of the program's that stays in
    /// the first cache.
    ///
    /// # Panics
    /// Never: instructions are in DRAM, of which nothing is lost.
    pub fn compute(&mut self, core: usize, instructions: u64, own_accesses: u64) {
        self.counts.l1d_own_hits += own_accesses;
        let own = &mut self.cores[core];
        own.clock.execute(instructions);
        let first = own.fetched_bytes / LINE_BYTES;
        own.fetched_bytes += instructions * self.times.bytes_per_instruction;
        let end = own.fetched_bytes.div_ceil(LINE_BYTES);
        if own.code_lines_held == own.code_lines {
            // All of the loop is there, so every fetch hits, and none makes another one miss later: a line that is
            // taken away leaves an empty way of its set.
            self.counts.l1i.hits += end - first;
            return;
        }
        let code_lines = u64::from(own.code_lines);
        for fetched in first..end {
            let line = (fetched % code_lines) as u32;
            let fetched = self.fetch(core, (dram_address(line) / LINE_BYTES) as u32);
            fetched.expect("nothing of DRAM is lost");
        }
    }

    /// Fetches a line of instructions, wherever it is: of a program that is more than a loop.
    ///
    /// # Errors
    /// It is in NVM, and lost there.
    pub fn fetch_from(&mut self, core: usize, address: u64) -> Result<(), Loss> {
        let line = (address / LINE_BYTES) as u32;
        self.cores[core].is_traced = true;
        self.fetch(core, line)
    }

    fn fetch(&mut self, core: usize, line: u32) -> Result<(), Loss> {
        let own = &mut self.cores[core];
        let set = (line & (own.l1i_sets - 1)) as usize;
        let found = own.l1i.find(set, line);
        self.counts.l1i.note(found.is_some());
        if let Some(slot) = found {
            own.l1i.touch(slot);
            return Ok(());
        }
        let now = own.clock.begin_miss() + self.times.l1i_cycles;
        let (_, done) = self.reach_second(core, line, false, now)?;
        let own = &mut self.cores[core];
        let slot = own.l1i.victim(set);
        own.code_lines_held += u32::from(own.l1i.line(slot) == NO_LINE);
        own.l1i.put(slot, line);
        // No instruction issues before it is there.
        own.clock.load_missed(done);
        own.clock.wait_for_last_load();
        Ok(())
    }
}
