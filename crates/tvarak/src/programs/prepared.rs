//! Filled regions that several runs share: those of one workload and seed, whatever the design.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::programs::instance::{Filled, Plan};
use crate::programs::schedule::Schedule;

/// The regions of a schedule's instances. Runs at the same time fill them together, each some of them.
#[derive(Debug)]
pub struct Prepared {
    schedule: String,
    plan: Plan,
    regions: Vec<OnceLock<Filled>>,
    next: AtomicUsize,
}

impl Prepared {
    /// Those of a schedule, none filled yet.
    pub fn of(schedule: &Schedule) -> Prepared {
        Prepared {
            schedule: text(schedule),
            plan: schedule.plan,
            regions: (0..schedule.instances).map(|_| OnceLock::new()).collect(),
            next: AtomicUsize::new(0),
        }
    }

    /// Whether they are those of a schedule.
    pub fn fits(&self, schedule: &Schedule) -> bool {
        self.schedule == text(schedule)
    }

    /// Whether others are of the same schedule.
    pub fn is_like(&self, other: &Prepared) -> bool {
        self.schedule == other.schedule
    }

    /// Fills those that no run has begun.
    pub(in crate::programs) fn fill(&self) {
        while let number = self.next.fetch_add(1, Ordering::Relaxed)
            && number < self.regions.len()
        {
            self.region(number);
        }
    }

    /// One of them, filled if it is not, or once another run has.
    pub(in crate::programs) fn region(&self, number: usize) -> &Filled {
        self.regions[number].get_or_init(|| filled(self.plan, number as u64))
    }
}

/// The region of an instance.
///
/// # Panics
/// If it is too small for what the plan has it hold.
pub(in crate::programs) fn filled(plan: Plan, number: u64) -> Filled {
    let seed = plan.seed << 8 | number;
    let filled = Filled::new(Plan { seed, ..plan });
    filled.unwrap_or_else(|halt| panic!("instance {number}: {halt}"))
}

/// Whatever a schedule says shows in its debugging text.
fn text(schedule: &Schedule) -> String {
    format!("{schedule:?}")
}
