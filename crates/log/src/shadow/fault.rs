//! How a write can fail.

/// What a write is to fail with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An error; any units of it may have landed.
    Error,
    /// An error although all of it is durable.
    ErrorButDurable,
    /// Only its first pages were written, and they are not durable.
    Short,
    /// There was no space: nothing was written.
    NoSpace,
}
