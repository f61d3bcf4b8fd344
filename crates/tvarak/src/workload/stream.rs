//! stream, as §4.6 has it: four kernels over arrays in NVM, each thread with its part of them.

use crate::controller::state::Loss;
use crate::design::Design;
use crate::line::{LINE_BYTES, PAGE_LINES, Words};
use crate::machine::build::Sizes;
use crate::machine::state::Machine;
use crate::parameters::Parameters;
use crate::workload::keeping::Keeping;
use crate::workload::program::Program;

/// What is computed of each element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// c = a.
    Copy,
    /// b = s · c.
    Scale,
    /// c = a + b.
    Add,
    /// a = b + s · c.
    Triad,
}

/// The factor of scale and triad.
const FACTOR: f64 = 3.0;
/// Words that one instruction moves: 16 bytes.
const MOVE_WORDS: usize = 2;
/// Bytes of the loop.
const CODE_BYTES: u64 = 64;

impl Kernel {
    /// All of them.
    pub const ALL: [Kernel; 4] = [Kernel::Copy, Kernel::Scale, Kernel::Add, Kernel::Triad];

    /// The name of the workload.
    pub fn as_str(self) -> &'static str {
        match self {
            Kernel::Copy => "stream-copy",
            Kernel::Scale => "stream-scale",
            Kernel::Add => "stream-add",
            Kernel::Triad => "stream-triad",
        }
    }

    /// The arrays that are read, and the one that is written: 0 is a, 1 is b, 2 is c.
    fn arrays(self) -> (&'static [u64], u64) {
        match self {
            Kernel::Copy => (&[0], 2),
            Kernel::Scale => (&[2], 1),
            Kernel::Add => (&[0, 1], 2),
            Kernel::Triad => (&[1, 2], 0),
        }
    }

    fn line_instructions(self, parameters: &Parameters) -> u64 {
        let stream = &parameters.stream;
        let counted = match self {
            Kernel::Copy => &stream.copy_line_instructions,
            Kernel::Scale => &stream.scale_line_instructions,
            Kernel::Add => &stream.add_line_instructions,
            Kernel::Triad => &stream.triad_line_instructions,
        };
        counted.value
    }

    fn compute(self, first: u64, second: u64) -> u64 {
        let (first, second) = (f64::from_bits(first), f64::from_bits(second));
        let result = match self {
            Kernel::Copy => first,
            Kernel::Scale => FACTOR * first,
            Kernel::Add => first + second,
            Kernel::Triad => first + FACTOR * second,
        };
        result.to_bits()
    }
}

/// One thread.
#[derive(Debug)]
pub struct StreamThread {
    kernel: Kernel,
    array_bytes: u64,
    /// The lines of the arrays that are its part.
    first_line: u64,
    end_line: u64,
    next_line: u64,
    /// Of a round of 16 bytes, without those that load and store.
    round_instructions: u64,
    keeping: Keeping,
}

/// The machine's sizes for these threads.
pub fn sizes(parameters: &Parameters, seed: u64) -> Sizes {
    let data_bytes = 3 * parameters.stream.array_bytes.value;
    Sizes {
        data_pages: (data_bytes / LINE_BYTES / u64::from(PAGE_LINES)) as u32,
        dram_lines: 1,
        code_bytes: CODE_BYTES,
        seed,
    }
}

/// The threads, under a design.
pub fn threads(parameters: &Parameters, design: Design, kernel: Kernel) -> Vec<StreamThread> {
    let stream = &parameters.stream;
    let lines = stream.array_bytes.value / LINE_BYTES;
    let threads = stream.threads.value;
    let rounds = LINE_BYTES / 16;
    let moves = kernel.arrays().0.len() as u64 + 1;
    let of_round = kernel.line_instructions(parameters) / rounds;
    let keeping = Keeping::of(design, parameters, sizes(parameters, 0).data_pages);
    let thread = |thread: u64| StreamThread {
        kernel,
        array_bytes: stream.array_bytes.value,
        first_line: lines * thread / threads,
        end_line: lines * (thread + 1) / threads,
        next_line: lines * thread / threads,
        keeping: keeping.clone(),
        round_instructions: of_round.saturating_sub(moves),
    };
    (0..threads).map(thread).collect()
}

impl StreamThread {
    fn address(&self, array: u64, line: u64) -> u64 {
        array * self.array_bytes + line * LINE_BYTES
    }

    /// A line of an array before the kernel ran.
    fn before(&self, machine: &Machine, array: u64, line: u64) -> Words {
        let line = (self.address(array, line) / LINE_BYTES) as u32;
        machine.nvm.contents.generated_data(line)
    }
}

impl Program for StreamThread {
    fn step(&mut self, machine: &mut Machine, core: usize) -> Result<bool, Loss> {
        if self.next_line == self.end_line {
            return Ok(false);
        }
        let (read, written) = self.kernel.arrays();
        let line = self.address(written, self.next_line) / LINE_BYTES;
        if self.keeping.turn(machine, core)? {
            return Ok(true);
        }
        let old = self.keeping.before(machine, core, line)?;
        for offset in (0..LINE_BYTES).step_by(MOVE_WORDS * 8) {
            let mut operands = [[0; MOVE_WORDS]; 2];
            for (array, operand) in read.iter().zip(&mut operands) {
                machine.load(core, self.address(*array, self.next_line) + offset, operand)?;
            }
            machine.compute(core, self.round_instructions, 0);
            let results = std::array::from_fn::<u64, MOVE_WORDS, _>(|word| {
                self.kernel.compute(operands[0][word], operands[1][word])
            });
            machine.store(
                core,
                self.address(written, self.next_line) + offset,
                &results,
            )?;
        }
        self.keeping.after(machine, core, line, old)?;
        self.next_line += 1;
        Ok(true)
    }

    fn settle(&mut self, machine: &mut Machine) -> Result<(), Loss> {
        self.keeping.settle(machine)
    }

    fn wrong_bytes(&self, machine: &mut Machine) -> Result<u64, Loss> {
        let (read, written) = self.kernel.arrays();
        let mut wrong = 0;
        for line in self.first_line..self.next_line {
            let first = self.before(machine, read[0], line);
            let second = self.before(machine, *read.last().unwrap_or(&read[0]), line);
            let at = machine
                .nvm
                .layout
                .data((self.address(written, line) / LINE_BYTES) as u32);
            let found = machine.nvm.contents.get(at);
            let is_wrong =
                |word: &usize| self.kernel.compute(first[*word], second[*word]) != found[*word];
            wrong += 8 * (0..8).filter(is_wrong).count() as u64;
        }
        Ok(wrong)
    }
}
