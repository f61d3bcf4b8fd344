//! fio, as §4.5 has it: threads that read or write 64 bytes at a time of regions of their own, no line twice.
//!
//! Of fio's instructions those are simulated one by one that touch the file, the buffer, and the map of random
//! offsets. All others were counted in the real program, as were its accesses to state that stays next to the core.

use crate::controller::state::Loss;
use crate::design::Design;
use crate::line::{LINE_BYTES, PAGE_LINES, Words, dram_address};
use crate::machine::build::Sizes;
use crate::machine::state::Machine;
use crate::parameters::{self, Parameters};
use crate::workload::keeping::Keeping;
use crate::workload::program::Program;

/// How a thread accesses its region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads, one after the other.
    SequentialRead,
    /// Writes, one after the other.
    SequentialWrite,
    /// Reads anywhere.
    RandomRead,
    /// Writes anywhere.
    RandomWrite,
}

impl Access {
    /// All of them.
    pub const ALL: [Access; 4] = [
        Access::SequentialRead,
        Access::SequentialWrite,
        Access::RandomRead,
        Access::RandomWrite,
    ];

    /// The name of the workload.
    pub fn as_str(self) -> &'static str {
        match self {
            Access::SequentialRead => "fio-seq-read",
            Access::SequentialWrite => "fio-seq-write",
            Access::RandomRead => "fio-rand-read",
            Access::RandomWrite => "fio-rand-write",
        }
    }

    fn is_write(self) -> bool {
        matches!(self, Access::SequentialWrite | Access::RandomWrite)
    }

    fn is_random(self) -> bool {
        matches!(self, Access::RandomRead | Access::RandomWrite)
    }

    fn counted(self, fio: &parameters::Fio) -> (u64, u64) {
        let (instructions, own_accesses) = match self {
            Access::SequentialRead => (
                &fio.sequential_read_instructions,
                &fio.sequential_read_own_accesses,
            ),
            Access::SequentialWrite => (
                &fio.sequential_write_instructions,
                &fio.sequential_write_own_accesses,
            ),
            Access::RandomRead => (&fio.random_read_instructions, &fio.random_read_own_accesses),
            Access::RandomWrite => (
                &fio.random_write_instructions,
                &fio.random_write_own_accesses,
            ),
        };
        (instructions.value, own_accesses.value)
    }
}

/// Words that one instruction moves: 16 bytes.
const MOVE_WORDS: usize = 2;

/// One thread.
#[derive(Debug)]
pub struct FioThread {
    access: Access,
    /// The first line of its region.
    first_line: u64,
    /// Lines of its region, a power of two.
    region_lines: u64,
    accesses: u64,
    done: u64,
    /// Where its buffer is.
    buffer_address: u64,
    /// Where its map of used offsets is, a bit for each line.
    map_address: u64,
    instructions: u64,
    own_accesses: u64,
    salt: u64,
    keeping: Keeping,
}

/// The machine's sizes for these threads.
pub fn sizes(parameters: &Parameters, seed: u64) -> Sizes {
    let fio = &parameters.fio;
    let data_bytes = fio.threads.value * fio.region_bytes.value;
    Sizes {
        data_pages: (data_bytes / LINE_BYTES / u64::from(PAGE_LINES)) as u32,
        dram_lines: (fio.threads.value * dram_lines_of_thread(fio)) as u32,
        code_bytes: fio.code_bytes.value,
        seed,
    }
}

/// A buffer, and a bit for each line of the region.
fn dram_lines_of_thread(fio: &parameters::Fio) -> u64 {
    1 + fio.region_bytes.value / LINE_BYTES / 8 / LINE_BYTES
}

/// The threads, under a design.
pub fn threads(
    parameters: &Parameters,
    design: Design,
    access: Access,
    seed: u64,
) -> Vec<FioThread> {
    let fio = &parameters.fio;
    let (instructions, own_accesses) = access.counted(fio);
    let moves = 2 * fio.access_bytes.value / 16 + 2 * u64::from(access.is_random());
    let pages = sizes(parameters, seed).data_pages;
    let keeping = match access.is_write() {
        true => Keeping::of(design, parameters, pages),
        false => Keeping::default(),
    };
    let thread = |thread: u64| {
        let own = fio.code_bytes.value.div_ceil(LINE_BYTES) + thread * dram_lines_of_thread(fio);
        let region_lines = fio.region_bytes.value / LINE_BYTES;
        FioThread {
            access,
            first_line: thread * region_lines,
            region_lines,
            accesses: fio.work_bytes.value / fio.access_bytes.value,
            done: 0,
            buffer_address: dram_address(own as u32),
            map_address: dram_address(own as u32 + 1),
            instructions: instructions.saturating_sub(moves),
            own_accesses: own_accesses.saturating_sub(moves),
            keeping: keeping.clone(),
            salt: (seed << 8 | thread).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
        }
    };
    (0..fio.threads.value).map(thread).collect()
}

impl FioThread {
    /// The line of an access: in order, or a bijection of it within the region.
    fn line(&self, access: u64) -> u64 {
        if !self.access.is_random() {
            return access;
        }
        let mask = self.region_lines - 1;
        let half = self.region_lines.trailing_zeros() / 2 + 1;
        let mut line = access;
        for _ in 0..3 {
            line = line.wrapping_mul(self.salt).wrapping_add(self.salt >> 32) & mask;
            line ^= line >> half;
        }
        line
    }

    /// What an access writes.
    fn written(&self, access: u64) -> Words {
        std::array::from_fn(|word| (access << 3 | word as u64).wrapping_mul(self.salt))
    }

    fn address(&self, access: u64) -> u64 {
        (self.first_line + self.line(access)) * LINE_BYTES
    }
}

impl Program for FioThread {
    fn step(&mut self, machine: &mut Machine, core: usize) -> Result<bool, Loss> {
        if self.done == self.accesses {
            return Ok(false);
        }
        if self.keeping.turn(machine, core)? {
            return Ok(true);
        }
        let address = self.address(self.done);
        machine.compute(core, self.instructions, self.own_accesses);
        if self.access.is_random() {
            let bit = self.line(self.done);
            let word = self.map_address + bit / 64 * 8;
            let mut used = [0];
            machine.load(core, word, &mut used)?;
            machine.store(core, word, &[used[0] | 1 << (bit % 64)])?;
        }
        let line = address / LINE_BYTES;
        let old = self.keeping.before(machine, core, line)?;
        let words = self.written(self.done);
        for (at, part) in words.chunks(MOVE_WORDS).enumerate() {
            let offset = (at * MOVE_WORDS * 8) as u64;
            let mut moved = [0; MOVE_WORDS];
            if self.access.is_write() {
                machine.load(core, self.buffer_address + offset, &mut moved)?;
                machine.store(core, address + offset, part)?;
            } else {
                machine.load(core, address + offset, &mut moved)?;
                machine.store(core, self.buffer_address + offset, &moved)?;
            }
        }
        self.keeping.after(machine, core, line, old)?;
        self.done += 1;
        Ok(true)
    }

    fn settle(&mut self, machine: &mut Machine) -> Result<(), Loss> {
        self.keeping.settle(machine)
    }

    fn wrong_bytes(&self, machine: &mut Machine) -> Result<u64, Loss> {
        let mut wrong = 0;
        for access in 0..self.done {
            let address = self.address(access);
            let expected = match self.access.is_write() {
                true => self.written(access),
                false => machine
                    .nvm
                    .contents
                    .generated_data((address / LINE_BYTES) as u32),
            };
            let at = machine.nvm.layout.data((address / LINE_BYTES) as u32);
            let found = machine.nvm.contents.get(at);
            wrong += 8 * expected.iter().zip(&found).filter(|(a, b)| a != b).count() as u64;
        }
        Ok(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_line_of_a_region_is_accessed_twice() {
        let parameters = Parameters::paper()
            .scaled_down(64)
            .expect("Table 3 can be scaled");
        for access in Access::ALL {
            for thread in &threads(&parameters, Design::Baseline, access, 5)[..2] {
                let lines: HashSet<u64> = (0..thread.accesses).map(|i| thread.line(i)).collect();
                assert_eq!(lines.len() as u64, thread.accesses);
                assert!(lines.iter().all(|line| *line < thread.region_lines));
            }
        }
    }
}
