//! Between the shared cache and memory: DRAM, NVM through the controllers, and NVM as software reaches redundancy itself.

use crate::controller::state::Loss;
use crate::line::{Home, Words, dram_address, home};
use crate::machine::state::Machine;

impl Machine {
    /// The address of a line of DRAM beyond what programs have, for a design that keeps copies there.
    pub fn scratch_address(&self, line: u32) -> u64 {
        dram_address(self.scratch_line + line)
    }

    /// Reads a line for the shared cache: its bytes, and when they are there.
    pub(in crate::machine) fn read_memory(
        &mut self,
        line: u32,
        now: u64,
    ) -> Result<(Words, u64), Loss> {
        match home(line) {
            Home::Data(line) => {
                let bank = self.bank(line);
                let filled = self.controllers.fill(bank, line, &mut self.nvm, now);
                self.nvm.fuse.step();
                filled
            }
            Home::Raw(line) => {
                let (words, done) = self.nvm.read(line, now);
                let words = words.expect("DIMMs die under designs with a controller alone");
                Ok((words, done))
            }
            Home::Dram(line) => Ok(self.dram.read(line, now)),
        }
    }

    /// Writes a line of the shared cache. No core waits for it.
    pub(in crate::machine) fn write_memory(
        &mut self,
        line: u32,
        words: &Words,
        diff: Option<Words>,
        now: u64,
    ) {
        match home(line) {
            Home::Data(line) => {
                let bank = self.bank(line);
                if self.controllers.covers(line)
                    && let Some(duel) = self.controllers.duel_mut()
                {
                    duel.written_back(diff.is_some());
                }
                let nvm = &mut self.nvm;
                let written = self
                    .controllers
                    .write_back(bank, line, words, diff, nvm, now);
                if let Err(loss) = written {
                    self.losses.push(loss);
                }
            }
            Home::Raw(line) => {
                self.nvm.write(line, words, now);
            }
            Home::Dram(line) => self.dram.write(line, words, now),
        }
    }
}
