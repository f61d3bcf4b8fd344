//! How the members of a device are that is made of two others.

use std::path::PathBuf;

/// How a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberHealth {
    /// Where it is, if it was named.
    pub path: Option<PathBuf>,
    /// Whether it is written and read.
    pub is_in: bool,
    /// Why not, in words.
    pub why_out: Option<String>,
}

/// How both are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MembersHealth {
    /// By their numbers.
    pub members: [MemberHealth; 2],
    /// Pages that were wrong, or not to be read, on one, and were written there again from the other.
    pub repaired_pages: u64,
}
