//! One workload on one design: what it took.

use std::sync::Arc;

use crate::controller::state::{Findings, Loss};
use crate::counts::{Counts, LookUps};
use crate::design::Design;
use crate::machine::build::Sizes;
use crate::machine::state::Machine;
use crate::name::Workload;
use crate::nvm::NvmCounts;
use crate::parameters::Parameters;
use crate::programs::application::Application;
use crate::programs::instance::Instance;
use crate::programs::measure::{self as programs, Before};
use crate::programs::prepared::Prepared;
use crate::programs::schedule::schedule;
use crate::workload::program::{Program, run};
use crate::workload::{fio, stream};

/// What a run took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Cycles until the last core was done.
    pub cycles: u64,
    /// Look-ups of all caches, and instructions.
    pub counts: Counts,
    /// Accesses to NVM.
    pub nvm: NvmCounts,
    /// What the controllers found; nothing, without bugs.
    pub findings: Findings,
    /// Bytes of the memory that are not what the programs made them, once all caches were flushed; not looked at
    /// unless asked for.
    pub wrong_bytes: Option<u64>,
    /// Pages of which a checksum or the parity, as the design keeps them, is wrong then.
    pub misfitting_pages: Option<u64>,
}

/// Energy by where it went, in picojoules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Energy {
    /// The caches of the cores, and the shared one.
    pub caches_pj: u64,
    /// The caches on the controllers.
    pub controllers_pj: u64,
    /// NVM.
    pub nvm_pj: u64,
    /// DRAM; reconstructed.
    pub dram_pj: u64,
    /// The cores, for instructions and for time; reconstructed.
    pub cores_pj: u64,
}

impl Energy {
    /// What the paper's Table 3 has: caches, controllers and NVM.
    pub fn table3_pj(&self) -> u64 {
        self.caches_pj + self.controllers_pj + self.nvm_pj
    }

    /// All.
    pub fn all_pj(&self) -> u64 {
        self.table3_pj() + self.dram_pj + self.cores_pj
    }
}

impl Outcome {
    /// What all that ran on a machine so far took.
    pub fn of(machine: &Machine) -> Outcome {
        Outcome {
            cycles: machine.now(),
            counts: machine.counts(),
            nvm: machine.nvm.counts,
            findings: machine.controllers.findings,
            wrong_bytes: None,
            misfitting_pages: None,
        }
    }

    /// Time until the last core was done.
    pub fn runtime_ns(&self, parameters: &Parameters) -> u64 {
        self.cycles * 1000 / parameters.cores.frequency_mhz.value
    }

    /// Look-ups of the cores' first caches that were simulated.
    pub fn first_look_ups(&self) -> u64 {
        self.counts.l1d.all() + self.counts.l1i.all()
    }

    /// Energy, by Table 3 and what was reconstructed.
    pub fn energy(&self, parameters: &Parameters) -> Energy {
        let of = |look_ups: &LookUps, hit_pj: u64, miss_pj: u64| {
            look_ups.hits * hit_pj + look_ups.misses * miss_pj
        };
        let p = parameters;
        let counts = &self.counts;
        let l1d = LookUps {
            hits: counts.l1d.hits + counts.l1d_own_hits,
            misses: counts.l1d.misses,
        };
        let llc = LookUps {
            hits: counts.llc.hits + counts.llc_redundancy.hits,
            misses: counts.llc.misses + counts.llc_redundancy.misses,
        };
        let cores = &p.cores;
        let static_pj = cores.static_mw.value * cores.count.value * self.runtime_ns(p);
        Energy {
            caches_pj: of(&l1d, p.l1d.hit_pj.value, p.l1d.miss_pj.value)
                + of(&counts.l1i, p.l1i.hit_pj.value, p.l1i.miss_pj.value)
                + of(&counts.l2, p.l2.hit_pj.value, p.l2.miss_pj.value)
                + of(&llc, p.llc.hit_pj.value, p.llc.miss_pj.value),
            controllers_pj: of(
                &counts.controller,
                p.controller.hit_pj.value,
                p.controller.miss_pj.value,
            ),
            nvm_pj: self.nvm.all_reads() * p.nvm.read_pj.value
                + self.nvm.all_writes() * p.nvm.write_pj.value,
            dram_pj: counts.dram_reads * p.dram.read_pj.value
                + counts.dram_writes * p.dram.write_pj.value,
            cores_pj: counts.instructions * cores.instruction_pj.value + static_pj,
        }
    }
}

/// Why there is no outcome.
#[derive(Debug, thiserror::Error)]
pub enum NoOutcome {
    /// `told` said that it should end.
    #[error("called off")]
    CalledOff,
    /// A page was lost.
    #[error(transparent)]
    Lost(#[from] Loss),
}

/// What to measure.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// The workload.
    pub workload: Workload,
    /// The design.
    pub design: Design,
    /// The same seed gives the same run.
    pub seed: u64,
    /// Look at every byte that was accessed, at every checksum and all parity once it is done.
    pub is_checked: bool,
}

/// Measures a workload on a design. `told` hears of the steps so far, and calls it off by returning false.
///
/// # Errors
/// It was called off, or a page was lost.
pub fn measure(
    parameters: &Parameters,
    scope: &Scope,
    told: &mut dyn FnMut(u64) -> bool,
) -> Result<Outcome, NoOutcome> {
    measure_prepared(parameters, scope, None, told)
}

/// What a workload's instances are filled with, to be shared by runs of several designs; none where nothing is filled.
pub fn prepare(parameters: &Parameters, workload: Workload, seed: u64) -> Option<Prepared> {
    match workload {
        Workload::Program(application) => {
            let schedule = schedule(parameters, application, seed);
            Some(Prepared::of(&schedule))
        }
        Workload::Fio(_) | Workload::Stream(_) => None,
    }
}

/// The same as [`measure`] with regions that other runs share, which this one lets go of before it simulates.
///
/// # Errors
/// It was called off, or a page was lost.
///
/// # Panics
/// If these regions are of another workload, seed or parameters.
pub fn measure_prepared(
    parameters: &Parameters,
    scope: &Scope,
    prepared: Option<Arc<Prepared>>,
    told: &mut dyn FnMut(u64) -> bool,
) -> Result<Outcome, NoOutcome> {
    let seed = scope.seed;
    match scope.workload {
        Workload::Fio(access) => {
            let threads = fio::threads(parameters, scope.design, access, seed);
            perform(
                parameters,
                scope,
                fio::sizes(parameters, seed),
                threads,
                told,
            )
        }
        Workload::Stream(kernel) => {
            let threads = stream::threads(parameters, scope.design, kernel);
            perform(
                parameters,
                scope,
                stream::sizes(parameters, seed),
                threads,
                told,
            )
        }
        Workload::Program(application) => {
            perform_programs(parameters, scope, (application, prepared), told)
        }
    }
}

/// Steps of all threads of a workload.
pub fn steps(parameters: &Parameters, workload: Workload) -> u64 {
    match workload {
        Workload::Fio(_) => {
            let fio = &parameters.fio;
            fio.threads.value * (fio.work_bytes.value / fio.access_bytes.value)
        }
        Workload::Stream(_) => parameters.stream.array_bytes.value / crate::line::LINE_BYTES,
        Workload::Program(application) => {
            let schedule = schedule(parameters, application, 0);
            schedule.instances * (schedule.warm_up_operations + schedule.plan.operations)
        }
    }
}

/// Programs run twice: to warm the caches up, and to be measured.
fn perform_programs(
    parameters: &Parameters,
    scope: &Scope,
    (application, prepared): (Application, Option<Arc<Prepared>>),
    told: &mut dyn FnMut(u64) -> bool,
) -> Result<Outcome, NoOutcome> {
    let schedule = schedule(parameters, application, scope.seed);
    let (mut machine, mut instances) =
        programs::build(parameters, scope.design, &schedule, prepared.as_deref());
    drop(prepared);
    let mut run_all = |machine: &mut Machine, instances: &mut [Instance], operations, before| {
        for instance in instances.iter_mut() {
            instance.allow(operations);
        }
        let mut is_called_off = false;
        run(machine, instances, &mut |steps| {
            is_called_off = !told(before + steps);
            !is_called_off
        })?;
        match is_called_off {
            true => Err(NoOutcome::CalledOff),
            false => Ok(()),
        }
    };
    let warm_up = schedule.warm_up_operations;
    run_all(&mut machine, &mut instances, warm_up, 0)?;
    // What is measured begins on all cores at once, or those that were done first would be ahead.
    machine.align();
    let before = Before::of(&machine);
    let done = warm_up * schedule.instances;
    run_all(&mut machine, &mut instances, schedule.plan.operations, done)?;
    let (cycles, counts, nvm) = before.since(&machine);
    let outcome = Outcome {
        cycles,
        counts,
        nvm,
        findings: machine.controllers.findings,
        wrong_bytes: None,
        misfitting_pages: None,
    };
    checked(machine, scope, &mut instances, outcome)
}

fn perform<P: Program>(
    parameters: &Parameters,
    scope: &Scope,
    sizes: Sizes,
    mut threads: Vec<P>,
    told: &mut dyn FnMut(u64) -> bool,
) -> Result<Outcome, NoOutcome> {
    let mut machine = Machine::new(parameters, scope.design, &sizes);
    let mut is_called_off = false;
    run(&mut machine, &mut threads, &mut |steps| {
        is_called_off = !told(steps);
        !is_called_off
    })?;
    if is_called_off {
        return Err(NoOutcome::CalledOff);
    }
    let outcome = Outcome::of(&machine);
    checked(machine, scope, &mut threads, outcome)
}

/// Looks at what is left, if that was asked for.
fn checked<P: Program>(
    mut machine: Machine,
    scope: &Scope,
    threads: &mut [P],
    mut outcome: Outcome,
) -> Result<Outcome, NoOutcome> {
    if scope.is_checked {
        for thread in threads.iter_mut() {
            thread.settle(&mut machine)?;
        }
        machine.flush(&mut fastrand::Rng::with_seed(scope.seed));
        let mut wrong = 0;
        for thread in threads {
            wrong += thread.wrong_bytes(&mut machine)?;
        }
        outcome.wrong_bytes = Some(wrong);
        outcome.misfitting_pages = misfitting_pages(&machine, scope.design);
    }
    Ok(outcome)
}

/// Pages that do not fit what the design keeps of them; none where it keeps nothing.
fn misfitting_pages(machine: &Machine, design: Design) -> Option<u64> {
    let contents = &machine.nvm.contents;
    let is_wrong = |page: &u32| {
        let (is_sum_wrong, is_parity_wrong) = contents.misfits(*page);
        let has_sums = design != Design::TxbObject && !design.has_region_sums();
        let has_line_sums = design.has_line_sums() || design == Design::TxbObject;
        is_parity_wrong
            || has_sums && is_sum_wrong
            || has_line_sums && contents.line_sums_misfit(*page)
            || design.has_region_sums() && contents.region_sums_misfit(*page)
    };
    let pages = 0..machine.nvm.layout.data_pages;
    (design != Design::Baseline).then(|| pages.filter(is_wrong).count() as u64)
}
