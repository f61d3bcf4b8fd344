//! What programs call: one `Pool`, `Volume` and `Transaction` for pools in memory and for those on an SSD.
//!
//! Each holds one of the two, and a call is one predicted branch more than the one below it. Of a volume and of a transaction the
//! branch is whether a pointer that the call loads anyway is null. What only one of the two can do is refused by the other
//! with a clear error.

mod pool;
mod settings;
mod stacked;
mod transaction;
mod volume;

pub use pool::Pool;
pub use stacked::Behind;
pub use transaction::Transaction;
pub use volume::Volume;
