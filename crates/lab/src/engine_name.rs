//! The names of the engines.

use std::fmt;
use std::str::FromStr;

use forebay::{Error, ErrorKind, Result};

/// Which design.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EngineName {
    /// A journaling client over a block-device cache, as Tinca's competitor (Tinca §5.1).
    Classic,
    /// The union of buffer cache and journal (Tinca §1 and §5.4.4 describe it).
    Ubj,
    /// The transactional NVM disk cache (SC'17).
    Tinca,
    /// Data and metadata decoupled (NPC'19).
    Spindle,
    /// This project's own.
    Forebay,
}

impl EngineName {
    /// All of them, oldest first.
    pub const ALL: [EngineName; 5] = [
        EngineName::Classic,
        EngineName::Ubj,
        EngineName::Tinca,
        EngineName::Spindle,
        EngineName::Forebay,
    ];

    /// As on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            EngineName::Classic => "classic",
            EngineName::Ubj => "ubj",
            EngineName::Tinca => "tinca",
            EngineName::Spindle => "spindle",
            EngineName::Forebay => "forebay",
        }
    }

    /// What a series of it with the cleaner is called; none for Forebay, whose own always works.
    #[must_use]
    pub const fn with_cleaner(self) -> Option<&'static str> {
        match self {
            EngineName::Classic => Some("classic-cleaner"),
            EngineName::Ubj => Some("ubj-cleaner"),
            EngineName::Tinca => Some("tinca-cleaner"),
            EngineName::Spindle => Some("spindle-cleaner"),
            EngineName::Forebay => None,
        }
    }
}

impl fmt::Display for EngineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for EngineName {
    type Err = Error;

    fn from_str(text: &str) -> Result<EngineName> {
        let found = EngineName::ALL
            .into_iter()
            .find(|name| name.as_str() == text);
        found.ok_or_else(|| {
            ErrorKind::Options(format!(
                "there is no engine {text}; there are classic, ubj, tinca, spindle and forebay"
            ))
            .into()
        })
    }
}
