//! What a machine's NVM holds, apart from its time: regions are put there before a run, and looked at after it.

use crate::line::{
    LINE_BYTES, PAGE_LINES, SUMS_PER_LINE, Words, difference, line_sum, page_sum, region_sum_check,
    set_sum,
};
use crate::machine::state::Machine;
use crate::nvm::contents::Contents;
use crate::nvm::layout::Layout;
use crate::programs::memory::{Change, Halt, Memory, Work};

/// The media of a machine whose caches are empty: loads see what NVM holds, stores are kept beside it.
#[derive(Debug)]
pub struct MediaMemory<'a> {
    machine: &'a Machine,
    region: u64,
    stored: std::collections::HashMap<u64, u64>,
}

impl MediaMemory<'_> {
    /// Those of a machine, for the program whose region begins there.
    pub fn new(machine: &Machine, region: u64) -> MediaMemory<'_> {
        MediaMemory {
            machine,
            region,
            stored: std::collections::HashMap::new(),
        }
    }
}

impl Memory for MediaMemory<'_> {
    fn load(&mut self, address: u64, words: &mut [u64]) -> Result<(), Halt> {
        let at = self.region + address;
        let nvm = &self.machine.nvm;
        let line = nvm.contents.get(nvm.layout.data((at / LINE_BYTES) as u32));
        for (place, word) in words.iter_mut().enumerate() {
            let kept = self.stored.get(&(address + 8 * place as u64));
            *word = kept
                .copied()
                .unwrap_or(line[(at % LINE_BYTES) as usize / 8 + place]);
        }
        Ok(())
    }

    fn store(&mut self, address: u64, words: &[u64]) -> Result<(), Halt> {
        for (place, word) in words.iter().enumerate() {
            self.stored.insert(address + 8 * place as u64, *word);
        }
        Ok(())
    }

    fn wait_for_last_load(&mut self) {}

    fn work(&mut self, _: Work) {}

    fn end_transaction(&mut self, _: &[Change]) -> Result<(), Halt> {
        Ok(())
    }
}

/// Puts a region's words onto the media of a blank file, from a line's first byte on. Zeroes are there already. What
/// protects them comes with [`protect`].
pub fn put(machine: &mut Machine, region: u64, words: &[u64]) {
    let nvm = &mut machine.nvm;
    let first_line = (region / LINE_BYTES) as u32;
    for (line, words) in words.chunks_exact(8).enumerate() {
        let words: Words = words.try_into().expect("a line has eight words");
        if words != [0; 8] {
            nvm.contents
                .set(nvm.layout.data(first_line + line as u32), &words);
        }
    }
}

/// Makes checksums and parity what they are of the data, for all pages of the file: as after the file system has written,
/// protected and mapped it.
pub fn protect(machine: &mut Machine) {
    let layout = machine.nvm.layout;
    let contents = &mut machine.nvm.contents;
    for stripe in 0..layout.stripes {
        protect_stripe(contents, &layout, stripe);
    }
}

fn protect_stripe(contents: &mut Contents, layout: &Layout, stripe: u32) {
    let mut parity = [[0; 8]; PAGE_LINES as usize];
    for page in layout.pages_of(stripe) {
        let words = contents.page(page);
        for (parity, line) in parity.iter_mut().zip(&words) {
            *parity = difference(parity, line);
        }
        let (sums, place) = layout.sum(page);
        let mut changed = contents.get(sums);
        set_sum(&mut changed, place, page_sum(&words));
        contents.set(sums, &changed);
        if contents.has_region_sums() {
            for (at, word) in layout.region_sums(page) {
                let mut sums = contents.get(at);
                sums[word as usize] = region_sum_check(page, &words).into();
                contents.set(at, &sums);
            }
            continue;
        }
        for first in (0..PAGE_LINES).step_by(SUMS_PER_LINE as usize) {
            let (at, _) = layout.line_sum(page * PAGE_LINES + first);
            let mut sums = [0; 8];
            for place in 0..SUMS_PER_LINE {
                set_sum(&mut sums, place, line_sum(&words[(first + place) as usize]));
            }
            contents.set(at, &sums);
        }
    }
    for (line, words) in parity.iter().enumerate() {
        contents.set(layout.parity(stripe, line as u32), words);
    }
}
