//! DRAM: bytes and time.

use crate::device::{Device, DeviceTimes};
use crate::line::Words;
use crate::sparse::Sparse;

/// All DIMMs, lines in turn.
#[derive(Debug)]
pub struct Dram {
    lines: Sparse,
    dimms: Vec<Device>,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
}

impl Dram {
    /// Zeroed, of so many lines.
    pub fn new(lines: u32, dimms: u32, times: DeviceTimes) -> Dram {
        Dram {
            lines: Sparse::new(lines),
            dimms: (0..dimms).map(|_| Device::new(times)).collect(),
            reads: 0,
            writes: 0,
        }
    }

    fn dimm(&mut self, line: u32) -> &mut Device {
        let dimm = line as usize % self.dimms.len();
        &mut self.dimms[dimm]
    }

    /// Reads a line at `now`: its bytes, and when they are there.
    pub fn read(&mut self, line: u32, now: u64) -> (Words, u64) {
        self.reads += 1;
        let done = self.dimm(line).read(now);
        (self.lines.get(line).copied().unwrap_or_default(), done)
    }

    /// Writes a line at `now`.
    pub fn write(&mut self, line: u32, words: &Words, now: u64) {
        self.writes += 1;
        self.dimm(line).write(now);
        self.lines.set(line, words);
    }
}
