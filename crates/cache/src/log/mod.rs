//! The log: lanes of records, each tagged with the incarnation that wrote it.

pub(crate) mod lanes;
pub(crate) mod record;
