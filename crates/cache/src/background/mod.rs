//! What happens behind the callers' backs: write-back, reclaim, checkpoints in time.

pub(crate) mod health;
pub(crate) mod journal;
pub(crate) mod pipeline;
pub(crate) mod reclaim;
pub(crate) mod wakeup;
pub(crate) mod writeback;
pub(crate) mod zeroings;
