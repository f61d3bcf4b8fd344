//! What programs call: pools, volumes, transactions, and what they tell of themselves.

pub(crate) mod extents;
pub(crate) mod faults;
pub(crate) mod maintenance;
pub(crate) mod pool;
pub(crate) mod stats;
pub(crate) mod transaction;
pub(crate) mod tuning;
pub(crate) mod volume;
pub(crate) mod workspace;
