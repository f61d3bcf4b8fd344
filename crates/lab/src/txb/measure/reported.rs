//! What the paper's text has of the designs in software: run time over its Baseline's. Its plots are pictures, and
//! nothing is read off them.

use super::workload::Workload;
use crate::txb::design::Design;
use crate::txb::maps::MapKind;

/// One number of its text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reported {
    /// The program; none: all three of its trees together.
    pub program: Option<&'static str>,
    /// What it does.
    pub load: &'static str,
    /// The design.
    pub design: Design,
    /// Its run time over that of the Baseline.
    pub times_none: f64,
    /// The section.
    pub section: &'static str,
    /// How the text says it.
    pub note: &'static str,
}

impl Reported {
    /// Whether it is said of a workload.
    #[must_use]
    pub fn is_of(&self, workload: Workload) -> bool {
        let is_its_program = match self.program {
            Some(program) => program == workload.program(),
            // Its hashtable is Redis'.
            None => matches!(workload, Workload::Map(kind, _) if kind != MapKind::Hashmap),
        };
        is_its_program && self.load == workload.load()
    }
}

const TREES: Option<&str> = None;
const TABLE: Option<&str> = Some("table");

const fn reported(
    (program, load): (Option<&'static str>, &'static str),
    (design, times_none): (Design, f64),
    (section, note): (&'static str, &'static str),
) -> Reported {
    Reported {
        program,
        load,
        design,
        times_none,
        section,
        note,
    }
}

/// All of them.
pub const REPORTED: &[Reported] = &[
    reported(
        (TREES, "insert"),
        (Design::TxbObject, 1.43),
        ("§4.3", "of C-Tree, B-Tree and RB-Tree together"),
    ),
    reported(
        (TREES, "insert"),
        (Design::TxbPage, 2.71),
        ("§4.3", "of C-Tree, B-Tree and RB-Tree together"),
    ),
    reported(
        (TREES, "balanced"),
        (Design::TxbObject, 1.20),
        ("§4.3", "TxB-Page-Csums \"performs even worse\""),
    ),
    reported(
        (TABLE, "set"),
        (Design::TxbObject, 1.50),
        ("§4.2", "Redis, typically"),
    ),
    reported(
        (TABLE, "set"),
        (Design::TxbPage, 3.00),
        ("§4.2", "Redis, typically"),
    ),
    reported(
        (TABLE, "get"),
        (Design::TxbObject, 1.05),
        ("§4.2", "Redis, at most: its GETs are transactions"),
    ),
    reported(
        (TABLE, "get"),
        (Design::TxbPage, 1.28),
        ("§4.2", "Redis, at most: its GETs are transactions"),
    ),
];
