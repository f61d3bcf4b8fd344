//! A machine from its parameters.

use crate::array::Array;
use crate::banks::Banks;
use crate::clock::{CoreClock, CoreShape};
use crate::controller::caches::{CacheShape, Caches};
use crate::controller::diffs::Diffs;
use crate::controller::duel::{Division, Duel, DuelShape};
use crate::controller::state::{ControllerTimes, Controllers, Findings};
use crate::counts::Counts;
use crate::design::Design;
use crate::device::DeviceTimes;
use crate::dram::Dram;
use crate::line::PAGE_LINES;
use crate::machine::state::{CacheTimes, Core, Entry, Held, Llc, Machine};
use crate::nvm::Nvm;
use crate::nvm::layout::Layout;
use crate::parameters::{CacheLevel, Memory, Parameters};

/// Rows that the designs of Forebay's regions copy to DRAM before they look at them again.
pub const BATCH_ROWS: u32 = 16;

/// What a machine is to hold.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Pages of the file in NVM, at least.
    pub data_pages: u32,
    /// Lines of DRAM.
    pub dram_lines: u32,
    /// Bytes of the loop that each core runs.
    pub code_bytes: u64,
    /// The file's first bytes follow from it.
    pub seed: u64,
}

fn sets(level: &CacheLevel) -> u32 {
    (level.size_bytes.value / (64 * level.ways.value)) as u32
}

fn array(level: &CacheLevel) -> Array {
    Array::new(sets(level) as usize, level.ways.value as usize)
}

/// A time that so many banks share, to the nearest cycle.
fn cycles(ns: u64, banks: u64, frequency_mhz: u64) -> u64 {
    (ns * frequency_mhz + 500 * banks) / (1000 * banks)
}

/// How long a DIMM takes, and how long it is busy: as if its banks always worked beside each other, and no longer than its bus for a line.
fn device_times(memory: &Memory, frequency_mhz: u64) -> DeviceTimes {
    let (banks, transfer) = (
        memory.banks.value,
        cycles(memory.transfer_ns.value, 1, frequency_mhz),
    );
    let busy = |ns: u64| cycles(ns, banks, frequency_mhz).max(transfer).max(1);
    DeviceTimes {
        read_cycles: cycles(memory.read_ns.value, 1, frequency_mhz),
        write_cycles: cycles(memory.write_ns.value, 1, frequency_mhz),
        read_busy_cycles: busy(memory.read_ns.value),
        write_busy_cycles: busy(memory.write_ns.value),
    }
}

fn core(parameters: &Parameters, sizes: &Sizes) -> Core {
    let cores = &parameters.cores;
    let (l1d, l2) = (array(&parameters.l1d), array(&parameters.l2));
    Core {
        l1d_below: vec![0; l1d.slots()],
        l1d_dirty: vec![false; l1d.slots()],
        l1d,
        l1d_sets: sets(&parameters.l1d),
        l1i: array(&parameters.l1i),
        l1i_sets: sets(&parameters.l1i),
        l2_held: vec![Held::Shared; l2.slots()],
        l2_data: vec![[0; 8]; l2.slots()],
        l2_below: vec![0; l2.slots()],
        l2_above: vec![0; l2.slots()],
        l2,
        l2_sets: sets(&parameters.l2),
        clock: CoreClock::new(CoreShape {
            instructions_per_cycle: cores.instructions_per_cycle.value,
            reorder_instructions: cores.reorder_instructions.value,
            store_buffer_stores: cores.store_buffer_stores.value,
            fill_buffers: cores.fill_buffers.value as usize,
        }),
        fetched_bytes: 0,
        code_lines_held: 0,
        is_traced: false,
        code_lines: sizes.code_bytes.div_ceil(64).max(1) as u32,
    }
}

fn controllers(parameters: &Parameters, design: Design, banks: Banks) -> Controllers {
    let own = &parameters.controller;
    let duel = duel(parameters, banks);
    let partition_ways = match design.is_adaptive() {
        true => duel.most().redundancy,
        false => own.redundancy_ways.value as u32,
    };
    let diff_ways = match design.is_adaptive() {
        true => duel.most().diffs,
        false => own.diff_ways.value as u32,
    };
    let mut caches = design.has_caches().then(|| {
        Caches::new(CacheShape {
            banks,
            partition_ways,
            own_sets: (own.cache_bytes.value / 64 / own.cache_ways.value) as u32,
            own_ways: own.cache_ways.value as u32,
            own_cycles: own.latency_cycles.value,
            llc_cycles: parameters.llc.latency_cycles.value,
        })
    });
    let mut diffs = design.has_diffs().then(|| Diffs::new(banks, diff_ways));
    if design.is_adaptive()
        && let (Some(caches), Some(diffs)) = (&mut caches, &mut diffs)
    {
        diffs.adapt(|_| duel.wanted().diffs);
        caches.adapt(duel);
    }
    Controllers {
        design,
        times: ControllerTimes {
            range_match_cycles: own.range_match_cycles.value,
            computation_cycles: own.computation_cycles.value,
        },
        caches,
        diffs,
        mapped: 0..0,
        findings: Findings::default(),
    }
}

/// The division of Table 3, and what is duelled against it.
fn duel(parameters: &Parameters, banks: Banks) -> Duel {
    let own = &parameters.controller;
    let fixed = Division {
        redundancy: own.redundancy_ways.value as u32,
        diffs: own.diff_ways.value as u32,
    };
    let (count, adaptive) = (banks.count() as usize, &parameters.adaptive);
    let times = device_times(&parameters.nvm, parameters.cores.frequency_mhz.value);
    let shape = DuelShape {
        bank_sets: banks.sets() / count,
        banks: count,
        ways: parameters.llc.ways.value as u32,
        shadowed_sets: adaptive.shadowed_sets.value as usize,
        round_accesses: adaptive.round_accesses.value,
        better_by: adaptive.better_by.value,
        read_busy_cycles: times.read_busy_cycles,
        write_busy_cycles: times.write_busy_cycles,
        look_up_cycles: own.latency_cycles.value + parameters.llc.latency_cycles.value,
        trial_rounds: adaptive.trial_rounds.value,
    };
    Duel::new(shape, fixed)
}

impl Machine {
    /// An idle one with empty caches, whose file is mapped.
    pub fn new(parameters: &Parameters, design: Design, sizes: &Sizes) -> Machine {
        let (llc, own) = (&parameters.llc, &parameters.controller);
        let bank_sets = llc.bank_bytes.value / (64 * llc.ways.value);
        let banks = Banks::new(llc.banks.value as u32, bank_sets as u32);
        let reserved_ways = match design {
            _ if design.is_adaptive() => 0,
            _ if design.has_diffs() => own.redundancy_ways.value + own.diff_ways.value,
            _ if design.has_caches() => own.redundancy_ways.value,
            _ => 0,
        };
        let ways = (llc.ways.value - reserved_ways) as usize;
        let mut shared = Array::new(banks.sets(), ways);
        let controllers = controllers(parameters, design, banks);
        if let Some(duel) = controllers.duel() {
            shared.limit_each(|_| {
                let division = duel.wanted();
                ways as u32 - division.redundancy - division.diffs
            });
        }
        let mhz = parameters.cores.frequency_mhz.value;
        let layout = Layout::new(parameters.nvm.dimms.value as u32, sizes.data_pages);
        let code_lines = sizes.code_bytes.div_ceil(64) as u32;
        let scratch_lines = match design.has_region_sums() {
            true => BATCH_ROWS * 16 * PAGE_LINES,
            false => 0,
        };
        let mut machine = Machine {
            cores: (0..parameters.cores.count.value)
                .map(|_| core(parameters, sizes))
                .collect(),
            llc: Llc {
                entries: vec![Entry::default(); shared.slots()],
                data: vec![[0; 8]; shared.slots()],
                array: shared,
                ways: llc.ways.value as u32,
                banks,
            },
            times: CacheTimes {
                l1d_cycles: parameters.l1d.latency_cycles.value,
                l1i_cycles: parameters.l1i.latency_cycles.value,
                l2_cycles: parameters.l2.latency_cycles.value,
                llc_cycles: llc.latency_cycles.value,
                bytes_per_instruction: parameters.cores.bytes_per_instruction.value,
            },
            controllers,
            nvm: Nvm::new(layout, sizes.seed, device_times(&parameters.nvm, mhz)),
            dram: Dram::new(
                sizes.dram_lines + code_lines + scratch_lines,
                parameters.dram.dimms.value as u32,
                device_times(&parameters.dram, mhz),
            ),
            counts: Counts::default(),
            losses: Vec::new(),
            scratch_line: sizes.dram_lines + code_lines,
        };
        if design.has_region_sums() {
            machine.nvm.contents.use_region_sums();
        }
        machine.controllers.map_untouched(&mut machine.nvm);
        machine
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 7.5 ns and 18.75 ns of Table 3's NVM, not 7 and 18; DRAM's bus, which takes longer than an eighth of 15 ns.
    #[test]
    fn a_dimm_is_busy_for_its_share_of_the_latency_to_the_nearest_cycle() {
        let paper = Parameters::paper();
        let of = |memory| {
            let times = device_times(memory, paper.cores.frequency_mhz.value);
            [times.read_busy_cycles, times.write_busy_cycles]
        };
        assert_eq!(of(&paper.nvm), [17, 43]);
        assert_eq!(of(&paper.dram), [14, 14]);
    }
}
