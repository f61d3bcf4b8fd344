//! The designs that are compared.

use std::fmt;

use serde::{Serialize, Serializer};

/// How checksums and parity of a region are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Design {
    /// Not at all (the paper's Baseline).
    None,
    /// Behind the program, in passes: `forebay-dax`.
    Async,
    /// At the end of each transaction, a checksum for each object (TxB-Object-Csums).
    TxbObject,
    /// At the end of each transaction, a checksum for each page (TxB-Page-Csums).
    TxbPage,
}

impl Design {
    /// All of them, in the order of what the paper has them cost.
    pub const ALL: [Design; 4] = [
        Design::None,
        Design::Async,
        Design::TxbObject,
        Design::TxbPage,
    ];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Design::None => "none",
            Design::Async => "async",
            Design::TxbObject => "txb-object",
            Design::TxbPage => "txb-page",
        }
    }

    /// Whether transactions keep checksums and parity themselves.
    #[must_use]
    pub fn is_inline(self) -> bool {
        matches!(self, Design::TxbObject | Design::TxbPage)
    }
}

impl fmt::Display for Design {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Design {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}
