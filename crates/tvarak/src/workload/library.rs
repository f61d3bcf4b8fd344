//! The designs in software (§4): a library that a program tells of each write, at the end of which it makes checksums and
//! parity, through the caches like any other data.
//!
//! What a program writes at once is a line here: an access of fio, a line of stream's array. Neither has transactions, at whose end
//! the designs keep redundancy, so each of these writes is a transaction of its own: begun, its range added, committed. `TxB-Object-Csums` keeps a
//! checksum for each such object, where the controllers would have a DAX-CL-checksum, and computes it from what was
//! written. `TxB-Page-Csums` keeps the system checksums, and reads the whole page for one. Both change parity by the
//! difference, and neither verifies what a program reads, as in the paper.

use crate::controller::state::Loss;
use crate::design::Design;
use crate::line::{
    LINE_BYTES, PAGE_LINES, PageWords, Words, line_sum, page_sum, raw_address, set_sum,
};
use crate::machine::state::Machine;
use crate::parameters::Parameters;

/// Words that one instruction moves: 16 bytes.
const MOVE_WORDS: usize = 2;
/// Moves of a line.
const MOVES: u64 = 4;
/// Loads of the eight bytes that one instruction sums up, of a line: the first is simulated, the others hit behind it.
const SUM_LOADS: u64 = 8;

/// The library.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    is_by_page: bool,
    /// What a transaction takes in it, and each object of one; and what a write outside of a transaction takes
    /// to be one. Instructions, and own accesses.
    transaction: [u64; 2],
    object: [u64; 2],
    lone_write: [u64; 2],
    sum_instructions: u64,
    parity_instructions: u64,
    copy_instructions: u64,
}

impl Library {
    /// The one of a design that keeps redundancy at the end of each write.
    pub fn of(design: Design, parameters: &Parameters) -> Option<Library> {
        match design {
            Design::TxbPage => Some(Library::by_page(parameters)),
            Design::TxbObject => Some(Library {
                is_by_page: false,
                ..Library::by_page(parameters)
            }),
            _ => None,
        }
    }

    /// One that keeps system checksums.
    pub fn by_page(parameters: &Parameters) -> Library {
        let txb = &parameters.txb;
        Library {
            is_by_page: true,
            transaction: [
                txb.transaction_instructions.value,
                txb.transaction_own_accesses.value,
            ],
            object: [txb.object_instructions.value, txb.object_own_accesses.value],
            // Without the copy, which is simulated.
            lone_write: [
                (txb.lone_write_instructions.value)
                    .saturating_sub(txb.copy_line_instructions.value),
                txb.lone_write_own_accesses.value.saturating_sub(2 * MOVES),
            ],
            sum_instructions: txb.sum_line_instructions.value.saturating_sub(1),
            parity_instructions: txb.parity_line_instructions.value.saturating_sub(2 * MOVES),
            copy_instructions: txb.copy_line_instructions.value.saturating_sub(MOVES),
        }
    }

    /// Before a line of the file is written: copies it, and returns what it holds.
    ///
    /// # Errors
    /// It is lost.
    pub fn before(&self, machine: &mut Machine, core: usize, line: u64) -> Result<Words, Loss> {
        let mut old = [0; 8];
        for (at, part) in old.chunks_mut(MOVE_WORDS).enumerate() {
            machine.load(core, line * LINE_BYTES + 16 * at as u64, part)?;
        }
        machine.compute(core, self.copy_instructions, MOVES);
        Ok(old)
    }

    /// A line of the file that held `old` was written, outside of a transaction: the library makes it one.
    ///
    /// # Errors
    /// Data or redundancy that it reads is lost.
    pub fn after(
        &self,
        machine: &mut Machine,
        core: usize,
        line: u64,
        old: &Words,
    ) -> Result<(), Loss> {
        let [instructions, own_accesses] = self.lone_write;
        machine.compute(core, instructions, own_accesses);
        self.after_all(machine, core, 1, &[(line, *old)])
    }

    /// Lines of the file that held other words were written by a transaction, of so many objects: in the order of their numbers.
    ///
    /// # Errors
    /// Data or redundancy that it reads is lost.
    pub fn after_all(
        &self,
        machine: &mut Machine,
        core: usize,
        objects: u64,
        lines: &[(u64, Words)],
    ) -> Result<(), Loss> {
        let [instructions, own_accesses] =
            [0, 1].map(|of| self.transaction[of] + self.object[of] * objects);
        machine.compute(core, instructions, own_accesses);
        let layout = machine.nvm.layout;
        let page_of = |line: u64| line as u32 / PAGE_LINES;
        for written in lines.chunk_by(|one, next| page_of(one.0) == page_of(next.0)) {
            let page = page_of(written[0].0);
            let words = match self.is_by_page {
                true => Some(self.read_page(machine, core, page)?),
                false => None,
            };
            if let Some(words) = &words {
                store_sum(machine, core, layout.sum(page), page_sum(words))?;
            }
            for (line, old) in written {
                let new = match &words {
                    Some(words) => words[*line as usize % PAGE_LINES as usize],
                    None => self.sum_line(machine, core, *line)?,
                };
                self.change_parity(machine, core, *line, (old, &new))?;
            }
        }
        Ok(())
    }

    /// Makes the checksum of a line: its words.
    fn sum_line(&self, machine: &mut Machine, core: usize, line: u64) -> Result<Words, Loss> {
        let words = self.read_line(machine, core, line)?;
        let at = machine.nvm.layout.line_sum(line as u32);
        store_sum(machine, core, at, line_sum(&words))?;
        Ok(words)
    }

    /// Changes the parity by what a line differs from what it held.
    fn change_parity(
        &self,
        machine: &mut Machine,
        core: usize,
        line: u64,
        (old, new): (&Words, &Words),
    ) -> Result<(), Loss> {
        let layout = machine.nvm.layout;
        let page = line as u32 / PAGE_LINES;
        let parity = layout.parity(layout.stripe(page), line as u32 % PAGE_LINES);
        for (at, (old, new)) in old
            .chunks(MOVE_WORDS)
            .zip(new.chunks(MOVE_WORDS))
            .enumerate()
        {
            let address = raw_address(parity) + 16 * at as u64;
            let mut words = [0; MOVE_WORDS];
            machine.load(core, address, &mut words)?;
            let words = std::array::from_fn::<u64, MOVE_WORDS, _>(|word| {
                words[word] ^ old[word] ^ new[word]
            });
            machine.store(core, address, &words)?;
        }
        self.compute_parity(machine, core);
        Ok(())
    }

    /// What the parity of a line takes beside the accesses that are simulated.
    pub fn compute_parity(&self, machine: &mut Machine, core: usize) {
        machine.compute(core, self.parity_instructions, 2 * MOVES);
    }

    fn read_line(&self, machine: &mut Machine, core: usize, line: u64) -> Result<Words, Loss> {
        let mut words = [0; 8];
        machine.load(core, line * LINE_BYTES, &mut words)?;
        machine.compute(core, self.sum_instructions, SUM_LOADS - 1);
        Ok(words)
    }

    /// Reads a page of the file, line by line, and sums it up.
    ///
    /// # Errors
    /// It is lost.
    pub fn read_page(
        &self,
        machine: &mut Machine,
        core: usize,
        page: u32,
    ) -> Result<PageWords, Loss> {
        let mut words = [[0; 8]; PAGE_LINES as usize];
        for (at, words) in words.iter_mut().enumerate() {
            let line = u64::from(page * PAGE_LINES) + at as u64;
            *words = self.read_line(machine, core, line)?;
        }
        Ok(words)
    }
}

/// Stores a checksum at its place on the DIMMs.
///
/// # Errors
/// Never so far: what holds checksums is not verified.
pub fn store_sum(
    machine: &mut Machine,
    core: usize,
    (line, place): (u32, u32),
    sum: u32,
) -> Result<(), Loss> {
    let address = raw_address(line) + u64::from(place / 2) * 8;
    let mut word = [0];
    machine.load(core, address, &mut word)?;
    let mut words = [word[0]; 8];
    set_sum(&mut words, place % 2, sum);
    machine.store(core, address, &words[..1])
}
