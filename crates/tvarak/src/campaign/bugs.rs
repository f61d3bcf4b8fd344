//! One bug of the firmware a trial: it has to be detected, and what it spoiled has to be repaired.

use serde::Serialize;

use crate::campaign::stand::Stand;
use crate::controller::state::Loss;
use crate::design::Design;
use crate::nvm::fault::{Fault, FaultKind};
use crate::nvm::layout::Class;

/// Accesses before the bug may show, and after it.
const ACCESSES: u32 = 400;
/// The bug shows at one of so many reads or writes of its content.
const AFTER_MOST: u32 = 40;

/// What trials of one kind of bug came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BugReport {
    /// Trials in which the bug showed and made a difference.
    pub injected: u64,
    /// Of these, the ones in which nobody read what it spoiled before the next write made it right again.
    pub masked: u64,
    /// Those in which it was detected: by the controllers when they read from NVM, or by the file system's look at
    /// every page in the end.
    pub detected: u64,
    /// Of the detected ones, those by the controllers alone.
    pub detected_by_controllers: u64,
    /// Those after which everything was right.
    pub repaired: u64,
    /// Trials with a page that could not be recovered.
    pub lost: u64,
    /// Trials in which something was detected without a bug.
    pub false_alarms: u64,
    /// Bytes that a program read and nobody had written.
    pub wrong_bytes: u64,
}

impl BugReport {
    /// Whether every bug was detected and repaired, and no program read a wrong byte.
    pub fn is_clean(&self) -> bool {
        let caught = self.injected - self.masked;
        [self.detected, self.repaired] == [caught, caught]
            && [self.lost, self.false_alarms, self.wrong_bytes] == [0, 0, 0]
    }

    /// Adds those of other trials.
    pub fn add(&mut self, other: &BugReport) {
        self.injected += other.injected;
        self.masked += other.masked;
        self.detected += other.detected;
        self.detected_by_controllers += other.detected_by_controllers;
        self.repaired += other.repaired;
        self.lost += other.lost;
        self.false_alarms += other.false_alarms;
        self.wrong_bytes += other.wrong_bytes;
    }
}

/// One trial of a bug that hits one kind of content.
pub fn trial(design: Design, kind: FaultKind, class: Class, seed: u64) -> BugReport {
    let mut stand = Stand::new(design, seed);
    let mut report = BugReport::default();
    let run = run(&mut stand, kind, class, &mut report);
    report.wrong_bytes = stand.wrong_bytes;
    report.lost += u64::from(run.is_err());
    if report.injected == 0 {
        return report;
    }
    report.detected_by_controllers = u64::from(stand.machine.controllers.findings.detected > 0);
    stand.flush();
    let was_wrong = stand.wrong_pages() > 0;
    let (wrong, lost) = stand.scrub();
    report.lost += lost + stand.machine.losses.len() as u64;
    report.detected = u64::from(report.detected_by_controllers > 0 || wrong > 0);
    report.masked = u64::from(report.detected == 0 && !was_wrong);
    let (still_wrong, _) = stand.scrub();
    let is_right = stand.wrong_pages() == 0 && still_wrong == 0;
    report.repaired = u64::from(report.detected > 0 && is_right);
    report
}

fn run(
    stand: &mut Stand,
    kind: FaultKind,
    class: Class,
    report: &mut BugReport,
) -> Result<(), Loss> {
    stand.access(ACCESSES)?;
    report.false_alarms += u64::from(stand.machine.controllers.findings.detected > 0);
    let fault = Fault {
        kind,
        class,
        after: stand.random.u32(0..AFTER_MOST),
        pages_off: stand.random.u32(0..32),
        lines_off: stand.random.u32(1..64),
    };
    stand.machine.nvm.plant(fault);
    for _ in 0..20 {
        stand.access(ACCESSES / 4)?;
        let shown = stand.machine.nvm.shown();
        report.injected = u64::from(shown.is_some_and(|shown| shown.had_effect));
        if shown.is_some() {
            break;
        }
    }
    stand.access(ACCESSES)?;
    // What was spoiled of data or of DAX-CL-checksums comes from NVM again.
    stand.load_all()
}

/// Trials of one kind of bug, over all kinds of content that the design has, until so many bugs were there to be detected.
/// `told` hears of how many were so far, and ends it early by returning false.
pub fn campaign(
    design: Design,
    kind: FaultKind,
    (first_seed, bugs): (u64, u64),
    told: &mut dyn FnMut(u64) -> bool,
) -> BugReport {
    let has = |class: &Class| *class != Class::LineSums || design.has_line_sums();
    let classes: Vec<Class> = Class::ALL.into_iter().filter(has).collect();
    let mut report = BugReport::default();
    // A bug shows in nearly every trial; the bound is for a design in which none does.
    for number in 0..4 * bugs {
        let class = classes[number as usize % classes.len()];
        report.add(&trial(design, kind, class, first_seed + number));
        let so_far = report.injected - report.masked;
        if so_far >= bugs || !told(so_far) {
            break;
        }
    }
    report
}
