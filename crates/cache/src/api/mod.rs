//! What programs call: pools, volumes, transactions, and what they tell of themselves.
//!
//! A pool owns the pipeline and its threads; volumes are handles on it; a transaction owns what it gathered. What
//! a commit acknowledged is durable; a commit that failed has changed nothing, unless its fence failed: then the
//! pool refuses every later one. Calls wait for room here, and hold nothing meanwhile.

mod dry_run;
pub(crate) mod extents;
pub(crate) mod faults;
pub(crate) mod pool;
pub(crate) mod stats;
pub(crate) mod transaction;
pub(crate) mod tuning;
pub(crate) mod usage;
pub(crate) mod volume;
pub(crate) mod workspace;
