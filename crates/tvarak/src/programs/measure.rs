//! Programs on a machine: filled to their full size, then warmed up, then measured.

use crate::counts::{Counts, LookUps};
use crate::design::Design;
use crate::line::PAGE_LINES;
use crate::machine::build::Sizes;
use crate::machine::state::Machine;
use crate::nvm::NvmCounts;
use crate::parameters::Parameters;
use crate::programs::instance::Instance;
use crate::programs::media;
use crate::programs::prepared::{Prepared, filled};
use crate::programs::schedule::Schedule;
use crate::workload::behind::Behind;
use crate::workload::library::Library;

/// A machine whose NVM holds all instances, each filled, here or before, and protected as the design has it.
///
/// # Panics
/// If a region is too small for what the schedule has it hold, or those that were filled are of another schedule.
pub fn build(
    parameters: &Parameters,
    design: Design,
    schedule: &Schedule,
    prepared: Option<&Prepared>,
) -> (Machine, Vec<Instance>) {
    let region_bytes = schedule.plan.region_bytes;
    let pages = schedule.instances * region_bytes / (64 * u64::from(PAGE_LINES));
    let sizes = Sizes {
        data_pages: u32::try_from(pages).expect("the machine has less NVM"),
        dram_lines: 1,
        code_bytes: parameters.programs.code_bytes.value,
        seed: schedule.plan.seed,
    };
    let mut machine = Machine::new(parameters, design, &sizes);
    machine.nvm.contents.make_blank();
    let library = Library::of(design, parameters);
    let behind = Behind::of(design, parameters, machine.nvm.layout.data_pages);
    if let Some(prepared) = prepared {
        assert!(prepared.fits(schedule), "regions of another schedule");
        prepared.fill();
    }
    let instance = |number: u64| {
        let own;
        let filled = match prepared {
            Some(prepared) => prepared.region(number as usize),
            // One at a time: all together take as much memory as the machine.
            None => {
                own = filled(schedule.plan, number);
                &own
            }
        };
        let region = number * region_bytes;
        media::put(&mut machine, region, &filled.words);
        let mut instance = Instance::of(filled);
        instance.place(region, library, behind.clone());
        instance
    };
    let instances = (0..schedule.instances).map(instance).collect();
    if design != Design::Baseline {
        media::protect(&mut machine);
    }
    (machine, instances)
}

/// What was counted, to be subtracted from what is counted later.
#[derive(Clone, Copy, Debug)]
pub struct Before {
    cycles: u64,
    counts: Counts,
    nvm: NvmCounts,
}

impl Before {
    /// What a machine has counted so far.
    pub fn of(machine: &Machine) -> Before {
        Before {
            cycles: machine.now(),
            counts: machine.counts(),
            nvm: machine.nvm.counts,
        }
    }

    /// What it has counted since: cycles, look-ups, accesses to NVM.
    pub fn since(&self, machine: &Machine) -> (u64, Counts, NvmCounts) {
        let now = Before::of(machine);
        let of = |now: LookUps, before: LookUps| LookUps {
            hits: now.hits - before.hits,
            misses: now.misses - before.misses,
        };
        let (counts, before) = (&now.counts, &self.counts);
        let since = Counts {
            instructions: counts.instructions - before.instructions,
            l1d: of(counts.l1d, before.l1d),
            l1d_own_hits: counts.l1d_own_hits - before.l1d_own_hits,
            l1i: of(counts.l1i, before.l1i),
            l2: of(counts.l2, before.l2),
            llc: of(counts.llc, before.llc),
            llc_redundancy: of(counts.llc_redundancy, before.llc_redundancy),
            controller: of(counts.controller, before.controller),
            dram_reads: counts.dram_reads - before.dram_reads,
            dram_writes: counts.dram_writes - before.dram_writes,
        };
        let nvm = NvmCounts {
            reads: std::array::from_fn(|class| now.nvm.reads[class] - self.nvm.reads[class]),
            writes: std::array::from_fn(|class| now.nvm.writes[class] - self.nvm.writes[class]),
            file_system: now.nvm.file_system - self.nvm.file_system,
        };
        (now.cycles - self.cycles, since, nvm)
    }
}
