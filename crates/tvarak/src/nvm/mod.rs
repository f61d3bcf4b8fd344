//! The DIMMs of NVM: bytes, the time and energy of each access, firmware that may err, a DIMM that may be dead.

pub mod contents;
pub mod fault;
pub mod layout;

use crate::device::{Device, DeviceTimes};
use crate::fuse::Fuse;
use crate::line::{PAGE_LINES, Words};
use crate::nvm::contents::Contents;
use crate::nvm::fault::{Fault, FaultKind, Shown};
use crate::nvm::layout::Layout;

/// Accesses to lines of NVM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NvmCounts {
    /// Reads, by what was read, in the order of [`layout::Class::ALL`].
    pub reads: [u64; 4],
    /// Writes, likewise.
    pub writes: [u64; 4],
    /// Reads and writes of the file system: recovery, scrubs, mapping and unmapping. In none of the others.
    pub file_system: u64,
}

impl NvmCounts {
    /// All reads.
    pub fn all_reads(&self) -> u64 {
        self.reads.iter().sum()
    }

    /// All writes.
    pub fn all_writes(&self) -> u64 {
        self.writes.iter().sum()
    }
}

/// All DIMMs.
#[derive(Debug)]
pub struct Nvm {
    /// What their media hold.
    pub contents: Contents,
    /// What was accessed.
    pub counts: NvmCounts,
    /// Where everything is.
    pub layout: Layout,
    /// When power fails, for those who try that.
    pub fuse: Fuse,
    dimms: Vec<Device>,
    fault: Option<Fault>,
    shown: Option<Shown>,
    dead: Option<u32>,
    /// A new DIMM is there for the dead one, and the file system fills it: to all others it is dead.
    is_rebuilt: bool,
}

impl Nvm {
    /// Idle ones that hold a file, protected and mapped.
    pub fn new(layout: Layout, seed: u64, times: DeviceTimes) -> Nvm {
        Nvm {
            contents: Contents::new(layout, seed),
            counts: NvmCounts::default(),
            layout,
            fuse: Fuse::default(),
            dimms: (0..layout.dimms).map(|_| Device::new(times)).collect(),
            fault: None,
            shown: None,
            dead: None,
            is_rebuilt: false,
        }
    }

    /// Reads a line at `now`: its bytes, none of a dead DIMM, and when they are there.
    #[inline]
    pub fn read(&mut self, line: u32, now: u64) -> (Option<Words>, u64) {
        let (class, dimm) = self.layout.class_and_dimm(line);
        self.counts.reads[class as usize] += 1;
        let done = self.dimms[dimm as usize].read(now);
        match self.is_dead(line) {
            true => (None, done),
            false => (Some(self.media_read(line)), done),
        }
    }

    /// Writes a line at `now`; to a dead DIMM, nothing. When it is done.
    #[inline]
    pub fn write(&mut self, line: u32, words: &Words, now: u64) -> u64 {
        let (class, dimm) = self.layout.class_and_dimm(line);
        self.counts.writes[class as usize] += 1;
        let done = self.dimms[dimm as usize].write(now);
        if !self.is_dead(line) {
            self.media_write(line, words);
        }
        done
    }

    /// A read by the file system, whose time no workload measures.
    pub fn file_system_read(&mut self, line: u32) -> Option<Words> {
        self.fuse.step();
        self.counts.file_system += 1;
        let is_there = !self.is_dead(line) || self.is_rebuilt;
        is_there.then(|| self.media_read(line))
    }

    /// A write by the file system.
    pub fn file_system_write(&mut self, line: u32, words: &Words) {
        self.fuse.step();
        self.counts.file_system += 1;
        if !self.is_dead(line) || self.is_rebuilt {
            self.media_write(line, words);
        }
    }

    fn media_read(&mut self, line: u32) -> Words {
        if self.fault.is_some() && self.errs(line, |kind| kind == FaultKind::MisdirectedRead) {
            let taken = self.other(line);
            let words = self.contents.get(taken);
            let had_effect = words != self.contents.get(line);
            self.show(line, taken, had_effect);
            return words;
        }
        self.contents.get(line)
    }

    fn media_write(&mut self, line: u32, words: &Words) {
        if self.fault.is_some() && self.errs(line, |kind| kind != FaultKind::MisdirectedRead) {
            let is_lost = self
                .fault
                .is_some_and(|fault| fault.kind == FaultKind::LostWrite);
            let taken = if is_lost { line } else { self.other(line) };
            let had_effect =
                *words != self.contents.get(line) || *words != self.contents.get(taken);
            if !is_lost {
                self.contents.set(taken, words);
            }
            self.show(line, taken, had_effect);
            return;
        }
        self.contents.set(line, words);
    }

    /// Whether the firmware errs at this access.
    fn errs(&mut self, line: u32, is_kind: impl Fn(FaultKind) -> bool) -> bool {
        let class = self.layout.class(line);
        let Some(fault) = &mut self.fault else {
            return false;
        };
        if !is_kind(fault.kind) || fault.class != class {
            return false;
        }
        let is_now = fault.after == 0;
        fault.after = fault.after.saturating_sub(1);
        is_now
    }

    /// The line of the same DIMM that the firmware takes instead.
    fn other(&self, line: u32) -> u32 {
        let fault = self.fault.expect("a bug shows");
        let row_lines = self.layout.dimms * PAGE_LINES;
        let rows = self.layout.lines() / row_lines;
        let (row, in_row) = (line / row_lines, line % row_lines);
        let in_page = (in_row + fault.lines_off) % PAGE_LINES;
        let dimm = in_row / PAGE_LINES;
        let row = (row + fault.pages_off) % rows;
        row * row_lines + dimm * PAGE_LINES + in_page
    }

    fn show(&mut self, meant: u32, taken: u32, had_effect: bool) {
        self.fault = None;
        self.shown = Some(Shown {
            meant,
            taken,
            had_effect,
        });
    }

    /// Has the firmware err once.
    pub fn plant(&mut self, fault: Fault) {
        self.fault = Some(fault);
        self.shown = None;
    }

    /// How the planted bug showed, if it did.
    pub fn shown(&self) -> Option<Shown> {
        self.shown
    }

    /// A DIMM dies, or there is none that is dead any more.
    pub fn set_dead(&mut self, dimm: Option<u32>) {
        self.dead = dimm;
        self.is_rebuilt = false;
    }

    /// A new DIMM comes for the dead one: the file system alone accesses it until [`set_dead`](Nvm::set_dead) says that none is dead.
    pub fn begin_rebuild(&mut self) {
        self.is_rebuilt = true;
    }

    /// The file system is no longer there to fill it: it is as dead as before.
    pub fn end_rebuild(&mut self) {
        self.is_rebuilt = false;
    }

    /// Whether a line is on a dead DIMM.
    pub fn is_dead(&self, line: u32) -> bool {
        self.dead.is_some_and(|dimm| dimm == self.layout.dimm(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvm::layout::Class;

    fn nvm() -> Nvm {
        let times = DeviceTimes {
            read_cycles: 136,
            write_cycles: 341,
            read_busy_cycles: 17,
            write_busy_cycles: 43,
        };
        Nvm::new(Layout::new(4, 60), 1, times)
    }

    #[test]
    fn each_bug_shows_once_and_stays_on_its_dimm() {
        for kind in FaultKind::ALL {
            let mut nvm = nvm();
            let line = nvm.layout.data(70);
            let before = nvm.contents.get(line);
            nvm.plant(Fault {
                kind,
                class: Class::Data,
                after: 1,
                pages_off: 3,
                lines_off: 9,
            });
            nvm.read(line, 0);
            nvm.write(line, &before, 0);
            assert!(nvm.shown().is_none());
            nvm.write(line, &[3; 8], 0);
            let (read, _) = nvm.read(line, 0);
            let shown = nvm.shown().expect("the second access errs");
            assert!(shown.had_effect);
            assert_eq!(nvm.layout.dimm(shown.taken), nvm.layout.dimm(line));
            assert_eq!(shown.taken == line, kind == FaultKind::LostWrite);
            match kind {
                FaultKind::MisdirectedRead => {
                    assert_eq!(read, Some(nvm.contents.get(shown.taken)));
                    assert_eq!(nvm.read(line, 0).0, Some([3; 8]));
                }
                FaultKind::LostWrite => assert_eq!(read, Some(before)),
                FaultKind::MisdirectedWrite => {
                    assert_eq!(read, Some(before));
                    assert_eq!(nvm.contents.get(shown.taken), [3; 8]);
                }
            }
        }
    }

    #[test]
    fn a_dead_dimm_returns_nothing() {
        let mut nvm = nvm();
        nvm.set_dead(Some(nvm.layout.dimm(nvm.layout.data(0))));
        assert_eq!(nvm.read(nvm.layout.data(0), 0).0, None);
        assert!(nvm.read(nvm.layout.data(64), 0).0.is_some());
    }
}
