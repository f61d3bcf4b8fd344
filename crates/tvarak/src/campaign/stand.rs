//! Programs at random on a machine with small caches, and what its memory has to hold.

use crate::controller::state::Loss;
use crate::design::Design;
use crate::line::{LINE_BYTES, PAGE_LINES, Words};
use crate::machine::build::Sizes;
use crate::machine::state::Machine;
use crate::parameters::Parameters;

/// Pages of the file: some times what the shared cache holds.
const PAGES: u32 = 24;
/// Of so many accesses one is to a line that nobody used lately.
const FRESH_EVERY: u32 = 3;
/// Lines that count as used lately.
const RECENT_LINES: usize = 24;

/// The machine and what it has to hold.
pub struct Stand {
    pub machine: Machine,
    pub random: fastrand::Rng,
    expected: Vec<Words>,
    recent: Vec<u32>,
    /// Bytes that a load returned and nobody stored.
    pub wrong_bytes: u64,
}

impl Stand {
    pub fn new(design: Design, seed: u64) -> Stand {
        let sizes = Sizes {
            data_pages: PAGES,
            dram_lines: 1,
            code_bytes: 64,
            seed,
        };
        let mut machine = Machine::new(&Parameters::crowded(), design, &sizes);
        machine.nvm.contents.write_generated();
        let contents = &machine.nvm.contents;
        let lines = 0..machine.nvm.layout.data_lines();
        Stand {
            expected: lines.map(|line| contents.generated_data(line)).collect(),
            machine,
            random: fastrand::Rng::with_seed(seed),
            recent: Vec::new(),
            wrong_bytes: 0,
        }
    }

    /// Programs access the file.
    ///
    /// # Errors
    /// A page that one of them accessed is lost.
    pub fn access(&mut self, accesses: u32) -> Result<(), Loss> {
        for _ in 0..accesses {
            let line = self.line();
            let core = self.core();
            let word = self.random.usize(0..8);
            let address = u64::from(line) * LINE_BYTES + word as u64 * 8;
            if self.random.bool() {
                let value = [self.random.u64(..)];
                self.machine.store(core, address, &value)?;
                self.expected[line as usize][word] = value[0];
            } else {
                let mut value = [0];
                self.machine.load(core, address, &mut value)?;
                self.compare(value[0], self.expected[line as usize][word]);
            }
        }
        Ok(())
    }

    /// The core with the least time.
    fn core(&self) -> usize {
        let cores = 0..self.machine.cores.len();
        let core = cores.min_by_key(|core| self.machine.cores[*core].clock.now());
        core.expect("there are cores")
    }

    fn line(&mut self) -> u32 {
        let is_fresh = self.recent.is_empty() || self.random.u32(..).is_multiple_of(FRESH_EVERY);
        let line = match is_fresh {
            true => self.random.u32(0..self.expected.len() as u32),
            false => {
                // Neighbours share lines of checksums, and pages of a stripe those of parity.
                let recent = self.recent[self.random.usize(0..self.recent.len())];
                let near = [
                    recent,
                    recent ^ 1,
                    recent + PAGE_LINES,
                    recent + 3 * PAGE_LINES,
                ];
                near[self.random.usize(0..near.len())] % self.expected.len() as u32
            }
        };
        if self.recent.len() == RECENT_LINES {
            self.recent.remove(0);
        }
        self.recent.push(line);
        line
    }

    fn compare(&mut self, found: u64, expected: u64) {
        let differing = (found ^ expected).to_le_bytes();
        self.wrong_bytes += differing.iter().filter(|byte| **byte != 0).count() as u64;
    }

    /// Every line is loaded, through the caches.
    ///
    /// # Errors
    /// A page is lost.
    pub fn load_all(&mut self) -> Result<(), Loss> {
        for line in 0..self.expected.len() {
            let mut words = [0; 8];
            let core = self.core();
            self.machine
                .load(core, line as u64 * LINE_BYTES, &mut words)?;
            for (found, expected) in words.into_iter().zip(self.expected[line]) {
                self.compare(found, expected);
            }
        }
        Ok(())
    }

    /// All caches are flushed.
    pub fn flush(&mut self) {
        let mut random = self.random.fork();
        self.machine.flush(&mut random);
    }

    /// Power fails, and is back with nothing mapped.
    pub fn cut_power(&mut self) {
        let mut random = self.random.fork();
        self.machine.cut_power(&mut random);
    }

    /// The file system maps all of the file.
    ///
    /// # Errors
    /// A page is lost.
    pub fn map(&mut self) -> Result<(), Loss> {
        let Machine {
            controllers, nvm, ..
        } = &mut self.machine;
        controllers.map(0..nvm.layout.data_pages, nvm)
    }

    /// Ends a trial: what is not as it has to be once all caches are flushed, in words.
    pub fn end(&mut self) -> Vec<String> {
        self.flush();
        let losses = self.machine.losses.iter();
        let mut violations: Vec<String> = losses.map(ToString::to_string).collect();
        let wrong = self.wrong_pages();
        if wrong > 0 {
            violations.push(format!("{wrong} pages are wrong in the end"));
        }
        violations.extend(self.bytes_nobody_wrote());
        violations
    }

    /// A complaint about bytes that programs were given wrong.
    pub fn bytes_nobody_wrote(&self) -> Option<String> {
        let wrong = self.wrong_bytes;
        (wrong > 0).then(|| format!("{wrong} bytes were read that nobody wrote"))
    }

    /// Pages of which the media have a wrong byte, a wrong checksum or a wrong parity, caches being empty. While a page is mapped, its
    /// DAX-CL-checksums count, too.
    pub fn wrong_pages(&self) -> u64 {
        let controllers = &self.machine.controllers;
        let is_wrong = |page: &u32| {
            let contents = &self.machine.nvm.contents;
            let first = page * PAGE_LINES;
            let expected = &self.expected[first as usize..][..PAGE_LINES as usize];
            let has_line_sums =
                controllers.design.has_line_sums() && controllers.mapped.contains(&first);
            contents.page(*page) != expected
                || contents.misfits(*page) != (false, false)
                || has_line_sums && contents.line_sums_misfit(*page)
        };
        (0..PAGES).filter(is_wrong).count() as u64
    }

    /// The file system looks at every page, and repairs what is wrong: how many had something wrong, how many are lost.
    pub fn scrub(&mut self) -> (u64, u64) {
        let (mut wrong, mut lost) = (0, 0);
        for page in 0..PAGES {
            let Machine {
                controllers, nvm, ..
            } = &mut self.machine;
            match controllers.scrub(page, nvm) {
                Ok(was_wrong) => wrong += u64::from(was_wrong),
                Err(_) => lost += 1,
            }
        }
        (wrong, lost)
    }
}
