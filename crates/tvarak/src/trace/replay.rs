//! A trace on a machine: accesses to the ranges that are the mapped file go to NVM, all others to DRAM.

use std::collections::HashMap;
use std::ops::Range;

use crate::controller::state::Loss;
use crate::design::Design;
use crate::line::{LINE_BYTES, PAGE_LINES, dram_address};
use crate::machine::build::Sizes;
use crate::machine::state::Machine;
use crate::measure::Outcome;
use crate::mix::mix;
use crate::parameters::Parameters;
use crate::trace::line::{Access, Kind};
use crate::workload::keeping::Keeping;

const PAGE_BYTES: u64 = LINE_BYTES * PAGE_LINES as u64;
/// Pages of DRAM that a trace may touch: 2 GiB.
const DRAM_PAGES_MOST: u32 = 1 << 19;
/// Bytes of all ranges together, at most.
const NVM_BYTES_MOST: u64 = 1 << 34;
const CORE: usize = 0;

/// Why a trace cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// There is no such file.
    #[error("ranges of NVM: {0}")]
    Ranges(&'static str),
    /// A design of transactions.
    #[error(
        "{} keeps redundancy at the end of transactions, and a trace does not tell where these end; name other designs",
        .0.as_str()
    )]
    NeedsTransactions(Design),
    /// More memory than is simulated.
    #[error("the trace touches more than 2 GiB outside of the ranges of NVM; is a range missing?")]
    TooMuchDram,
    /// A page was lost.
    #[error(transparent)]
    Lost(#[from] Loss),
}

/// What the program did, whatever the design.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Traffic {
    /// Instructions.
    pub instructions: u64,
    /// Loads, those of modifications among them.
    pub loads: u64,
    /// Stores, likewise.
    pub stores: u64,
    /// Loads of the mapped file.
    pub nvm_loads: u64,
    /// Stores to it.
    pub nvm_stores: u64,
    /// Lines of the mapped file that were accessed at all.
    pub nvm_lines: u64,
    /// Pages of 4 KiB that were accessed outside of it.
    pub dram_pages: u64,
}

/// Where the traced program's addresses are.
#[derive(Debug)]
struct Places {
    /// Ranges of the mapped file, each with the first byte of it in NVM.
    nvm: Vec<(Range<u64>, u64)>,
    dram: HashMap<u64, u32>,
}

/// A part of an access that lies in one line.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// As the machine has it: of a word.
    address: u64,
    words: usize,
    is_nvm: bool,
}

impl Places {
    fn new(ranges: &[Range<u64>]) -> Result<Places, ReplayError> {
        let mut sorted = ranges.to_vec();
        sorted.sort_by_key(|range| range.start);
        let (mut nvm, mut first) = (Vec::new(), 0_u64);
        let mut end = 0;
        for range in sorted {
            let refused = match () {
                () if range.is_empty() => Some("an empty one"),
                () if range.start < end => Some("two overlap"),
                () if [range.start, range.end]
                    .iter()
                    .any(|at| at % PAGE_BYTES != 0) =>
                {
                    Some("they begin and end at pages of 4096 bytes")
                }
                () if range.end - range.start > NVM_BYTES_MOST - first => {
                    Some("more than 16 GiB in all")
                }
                () => None,
            };
            if let Some(refused) = refused {
                return Err(ReplayError::Ranges(refused));
            }
            end = range.end;
            let bytes = range.end - range.start;
            nvm.push((range, first));
            first += bytes;
        }
        Ok(Places {
            nvm,
            dram: HashMap::new(),
        })
    }

    fn nvm_bytes(&self) -> u64 {
        let bytes = self.nvm.iter().map(|(range, _)| range.end - range.start);
        bytes.sum()
    }

    /// The machine's address of one of the program's, and whether that is of NVM.
    fn of(&mut self, address: u64) -> Result<(u64, bool), ReplayError> {
        if let Some((range, first)) = self.nvm.iter().find(|(range, _)| range.contains(&address)) {
            return Ok((first + address - range.start, true));
        }
        let next = self.dram.len() as u32;
        let page = *self.dram.entry(address / PAGE_BYTES).or_insert(next);
        if page >= DRAM_PAGES_MOST {
            return Err(ReplayError::TooMuchDram);
        }
        Ok((
            dram_address(page * PAGE_LINES) + address % PAGE_BYTES,
            false,
        ))
    }
}

/// A machine that a trace runs on.
#[derive(Debug)]
struct Stand {
    design: Design,
    machine: Machine,
    keeping: Keeping,
}

/// A trace on several designs at once: it is read once.
#[derive(Debug)]
pub struct Replay {
    parameters: Parameters,
    places: Places,
    stands: Vec<Stand>,
    traffic: Traffic,
    is_touched: Vec<bool>,
    /// The instruction under way has made no access of its own yet, which would take its place in the core's time.
    is_bare: bool,
    fetched_line: u64,
    stored: u64,
}

impl Replay {
    /// Idle machines, whose NVM is the bytes at these addresses.
    ///
    /// # Errors
    /// The ranges are no file, or a design needs to know of transactions.
    pub fn new(
        parameters: &Parameters,
        designs: &[Design],
        ranges: &[Range<u64>],
    ) -> Result<Replay, ReplayError> {
        let places = Places::new(ranges)?;
        let pages = (places.nvm_bytes() / PAGE_BYTES).max(1) as u32;
        let sizes = Sizes {
            data_pages: pages,
            dram_lines: DRAM_PAGES_MOST * PAGE_LINES,
            code_bytes: LINE_BYTES,
            seed: 1,
        };
        let stand = |design: &Design| {
            if matches!(
                design,
                Design::TxbObject | Design::TxbPage | Design::RegionsSync
            ) {
                return Err(ReplayError::NeedsTransactions(*design));
            }
            let machine = Machine::new(parameters, *design, &sizes);
            let pages = machine.nvm.layout.data_pages;
            Ok(Stand {
                design: *design,
                machine,
                keeping: Keeping::of(*design, parameters, pages),
            })
        };
        Ok(Replay {
            parameters: parameters.clone(),
            is_touched: vec![false; (pages * PAGE_LINES) as usize],
            stands: designs.iter().map(stand).collect::<Result<_, _>>()?,
            places,
            traffic: Traffic::default(),
            is_bare: false,
            fetched_line: u64::MAX,
            stored: 0,
        })
    }

    /// Runs an access on all machines.
    ///
    /// # Errors
    /// The program has more memory than is simulated.
    pub fn access(&mut self, access: &Access) -> Result<(), ReplayError> {
        match access.kind {
            Kind::Fetch => return self.fetch(access),
            Kind::Load => self.data(access, false)?,
            Kind::Store => self.data(access, true)?,
            Kind::Modify => {
                self.data(access, false)?;
                self.data(access, true)?;
            }
        }
        self.is_bare = false;
        Ok(())
    }

    /// An instruction: the line that it ends in is looked up if it is another one than the last instruction's.
    fn fetch(&mut self, access: &Access) -> Result<(), ReplayError> {
        let is_bare = std::mem::replace(&mut self.is_bare, true);
        self.traffic.instructions += 1;
        let lines = access.address / LINE_BYTES..=(access.address + access.bytes - 1) / LINE_BYTES;
        for line in lines {
            if std::mem::replace(&mut self.fetched_line, line) == line {
                continue;
            }
            let (address, _) = self.places.of(line * LINE_BYTES)?;
            for stand in &mut self.stands {
                stand.machine.fetch_from(CORE, address)?;
            }
        }
        for stand in &mut self.stands {
            stand.keeping.turn(&mut stand.machine, CORE)?;
            if is_bare {
                stand.machine.cores[CORE].clock.execute(1);
            }
        }
        Ok(())
    }

    fn data(&mut self, access: &Access, is_store: bool) -> Result<(), ReplayError> {
        let (mut address, end) = (access.address, access.address + access.bytes);
        let mut is_nvm = false;
        while address < end {
            let line_end = (address / LINE_BYTES + 1) * LINE_BYTES;
            let (at, of_nvm) = self.places.of(address)?;
            let bytes = line_end.min(end) - address;
            let part = Part {
                address: at & !7,
                words: (at % 8 + bytes).div_ceil(8) as usize,
                is_nvm: of_nvm,
            };
            is_nvm |= of_nvm;
            self.part(&part, is_store)?;
            address += bytes;
        }
        let (all, of_nvm) = match is_store {
            true => (&mut self.traffic.stores, &mut self.traffic.nvm_stores),
            false => (&mut self.traffic.loads, &mut self.traffic.nvm_loads),
        };
        *all += 1;
        *of_nvm += u64::from(is_nvm);
        Ok(())
    }

    fn part(&mut self, part: &Part, is_store: bool) -> Result<(), ReplayError> {
        let line = part.address / LINE_BYTES;
        if part.is_nvm {
            let is_touched = &mut self.is_touched[line as usize];
            self.traffic.nvm_lines += u64::from(!std::mem::replace(is_touched, true));
        }
        self.stored += u64::from(is_store);
        // No trace has values: each store has one of its own, so that what it changes, differs.
        let mut words = [mix(self.stored); 8];
        let words = &mut words[..part.words];
        for stand in &mut self.stands {
            let machine = &mut stand.machine;
            match is_store {
                false => machine.load(CORE, part.address, words)?,
                true => {
                    if part.is_nvm {
                        stand.keeping.before(machine, CORE, line)?;
                    }
                    machine.store(CORE, part.address, words)?;
                }
            }
        }
        Ok(())
    }

    /// What the program did so far.
    pub fn traffic(&self) -> Traffic {
        let dram_pages = self.places.dram.len() as u64;
        Traffic {
            dram_pages,
            ..self.traffic
        }
    }

    /// What each design took so far, with its parameters.
    pub fn outcomes(&self) -> (&Parameters, Vec<(Design, Outcome)>) {
        let of = |stand: &Stand| (stand.design, Outcome::of(&stand.machine));
        (&self.parameters, self.stands.iter().map(of).collect())
    }
}

#[cfg(all(test, not(feature = "mutants")))]
mod tests {
    use super::*;

    const FILE: Range<u64> = 0x10_0000..0x14_0000;

    fn access(kind: Kind, address: u64, bytes: u64) -> Access {
        Access {
            kind,
            address,
            bytes,
        }
    }

    fn replay(designs: &[Design]) -> Replay {
        let parameters = Parameters::crowded();
        Replay::new(&parameters, designs, &[FILE]).expect("a file")
    }

    #[test]
    fn what_lies_in_the_file_goes_to_nvm_and_all_else_to_dram() {
        let mut replay = replay(&[Design::Baseline, Design::Tvarak]);
        for (kind, address, bytes) in [
            (Kind::Fetch, 0x40_0000, 4),
            (Kind::Load, 0x10_0038, 16),
            (Kind::Fetch, 0x40_0004, 4),
            (Kind::Fetch, 0x40_003e, 4),
            (Kind::Modify, 0x7f_0000, 8),
            (Kind::Store, 0x13_fffc, 8),
        ] {
            let done = replay.access(&access(kind, address, bytes));
            done.expect("nothing is lost");
        }
        let expected = Traffic {
            instructions: 3,
            loads: 2,
            stores: 2,
            nvm_loads: 1,
            nvm_stores: 1,
            nvm_lines: 3,
            dram_pages: 3,
        };
        assert_eq!(replay.traffic(), expected);
        let (_, outcomes) = replay.outcomes();
        for (design, outcome) in outcomes {
            // Of two lines the first load, then those of the modification; and the stores, one of which goes on beyond the file.
            assert_eq!(outcome.counts.l1d.all(), 6, "{design:?}");
            // Two lines, each looked up once.
            assert_eq!(outcome.counts.l1i.all(), 2, "{design:?}");
            assert_eq!(outcome.nvm.reads[0], 3, "{design:?}");
            let redundancy: u64 = outcome.nvm.reads[1..].iter().sum();
            assert_eq!(redundancy > 0, design == Design::Tvarak);
        }
    }

    #[test]
    fn hostile_accesses_do_no_harm() {
        let designs = [Design::Baseline, Design::Adaptive, Design::Regions];
        let mut replay = replay(&designs);
        let mut random = fastrand::Rng::with_seed(3);
        for number in 0..20_000_u64 {
            let kinds = [Kind::Fetch, Kind::Load, Kind::Store, Kind::Modify];
            let near = random.u64(FILE.start - 8192..FILE.end + 8192);
            let address = match number % 50 {
                0 => random.u64(..u64::MAX - 20_000),
                _ => near,
            };
            let bytes = random.u64(1..if number % 9 == 0 { 16_384 } else { 9 });
            let kind = kinds[random.usize(0..4)];
            let done = replay.access(&access(kind, address, bytes));
            done.expect("nothing is lost");
        }
        for (_, outcome) in replay.outcomes().1 {
            assert_eq!(outcome.findings, crate::Findings::default());
        }
    }

    #[test]
    fn ranges_that_are_no_file_and_designs_of_transactions_are_refused() {
        let parameters = Parameters::crowded();
        let refused = |designs: &[Design], ranges: &[Range<u64>]| {
            Replay::new(&parameters, designs, ranges).is_err()
        };
        let design = [Design::Tvarak];
        for ranges in [
            vec![FILE, FILE],
            vec![0x1000..0x1000],
            vec![0x1001..0x2000],
            vec![0..1 << 40],
        ] {
            assert!(refused(&design, &ranges), "{ranges:?}");
        }
        assert!(refused(&[Design::TxbPage], &[FILE]));
        assert!(!refused(&design, &[]));
    }
}
