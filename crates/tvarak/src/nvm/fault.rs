//! Bugs of a DIMM's firmware, as §2.1 has them: a write that is lost, one that goes elsewhere, a read from elsewhere.

use crate::nvm::layout::Class;

/// What the firmware does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// It says that it has written, and has not.
    LostWrite,
    /// It writes another line of the DIMM instead.
    MisdirectedWrite,
    /// It reads another line of the DIMM instead.
    MisdirectedRead,
}

impl FaultKind {
    /// All of them.
    pub const ALL: [FaultKind; 3] = [
        FaultKind::LostWrite,
        FaultKind::MisdirectedWrite,
        FaultKind::MisdirectedRead,
    ];

    /// The name, as reports print it.
    pub fn as_str(self) -> &'static str {
        match self {
            FaultKind::LostWrite => "lost_write",
            FaultKind::MisdirectedWrite => "misdirected_write",
            FaultKind::MisdirectedRead => "misdirected_read",
        }
    }
}

/// One bug that is to show once.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// What it does.
    pub kind: FaultKind,
    /// To lines of which content.
    pub class: Class,
    /// At which of their reads or writes; 0 is the next one.
    pub after: u32,
    /// How many pages of the same DIMM further on the wrong line is.
    pub pages_off: u32,
    /// How many lines within the page, modulo its 64.
    pub lines_off: u32,
}

/// A bug that has shown.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// The line that was meant.
    pub meant: u32,
    /// The line that was taken instead; the same for a lost write.
    pub taken: u32,
    /// Whether it made a difference: other bytes were stored or returned than without it.
    pub had_effect: bool,
}
