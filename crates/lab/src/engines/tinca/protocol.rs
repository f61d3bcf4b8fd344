//! The paper's protocol, and ours.

/// Which protocol the media holds. They differ in what an entry's words say, in how an entry is stored
/// and in what recovery looks at; docs/inside/papers.md says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// Ours: the same lines and fences, and nothing is lost.
    Hardened = 0,
    /// The paper's, with what it loses.
    Printed = 1,
}
