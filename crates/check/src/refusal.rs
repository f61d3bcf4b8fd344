//! Why a cache did not open, and what kind of thing that was.

use forebay::{Error, ErrorKind};

/// Why a cache did not open.
pub struct Refusal {
    /// In words.
    pub text: String,
    /// What kind of thing it was.
    pub cause: Cause,
}

/// What failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A fence.
    Fence,
    /// A backing.
    Backing,
    /// Something is damaged.
    Damage,
    /// None of these.
    Other,
}

impl Refusal {
    /// A refusal of `what` because of `error`.
    pub fn new(what: &str, error: &Error) -> Refusal {
        Refusal {
            text: format!("{what}: {error}"),
            cause: match error.kind() {
                ErrorKind::Media(_) | ErrorKind::Poisoned { .. } => Cause::Fence,
                ErrorKind::Backing { .. } => Cause::Backing,
                ErrorKind::Damaged { .. } => Cause::Damage,
                _ => Cause::Other,
            },
        }
    }
}

impl From<String> for Refusal {
    fn from(text: String) -> Refusal {
        Refusal {
            text,
            cause: Cause::Other,
        }
    }
}
