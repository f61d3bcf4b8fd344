//! What differs between commits: the shape of a batch, resolved at compile time.

use crate::engine::Engine;
use crate::engine::change::Outcome;
use crate::error::Result;
use crate::log::lanes::HeldLane;
use crate::table::index::{Index, StripeLock};

/// A batch of changes: one block, several, changes of all kinds, or an append with a word elsewhere. The
/// shape says what each step does; the states of `commit` say in which order, and what orders the steps.
///
/// After the blocks' non-temporal stores no load may be wider than the stores that wrote what it reads:
/// such a load waits until all stores have left the processor. So a small batch keeps its decisions in its
/// own fields, which the inlined steps hold in registers.
pub(super) trait Shape {
    /// The stripes of the batch's keys.
    type Stripes: StripeSet;

    /// An upper bound of the record's length in bytes.
    fn record_bytes(&self) -> u64;

    /// Returns the stripes; called once.
    fn stripes(&mut self) -> Self::Stripes;

    /// Decides each key's new entry, under the locks. When it returns `Some` or an error, it has given back
    /// what it took, and the commit ends there.
    fn plan(&mut self, engine: &Engine) -> Result<Option<Outcome>>;

    /// Streams the new data and then the record with the drawn sequence; returns the record's length in
    /// bytes.
    fn stream(&mut self, engine: &Engine, lane: &HeldLane<'_>, sequence: u64) -> u64;

    /// Whether bytes are appended behind a block's valid ones.
    fn appends(&self) -> bool {
        false
    }

    /// Stores the entries; they need not be durable before the next checkpoint.
    fn publish(&self, engine: &Engine);

    /// Stores bytes into blocks in place, after their redo bytes are durable (I8).
    fn apply_in_place(&self, _engine: &Engine) {}

    /// Remembers the published blocks as candidates for later blocks like them.
    fn note(&self, _engine: &Engine) {}

    /// Releases the slots that the keys no longer use.
    fn release_freed(&self, _engine: &Engine) {}

    /// The number of changes that have an effect.
    fn effects(&self) -> usize;
}

/// Stripes in ascending order without duplicates, so that no two commits wait for each other in a circle.
pub(super) trait StripeSet {
    fn locks<'i>(&self, index: &'i Index) -> impl Iterator<Item = StripeLock<'i>>
    where
        Self: 'i;
}

/// One stripe, found already.
impl StripeSet for StripeLock<'_> {
    #[inline(always)]
    fn locks<'i>(&self, _: &'i Index) -> impl Iterator<Item = StripeLock<'i>>
    where
        Self: 'i,
    {
        std::iter::once(*self)
    }
}

/// One stripe or two.
impl StripeSet for (u32, Option<u32>) {
    #[inline(always)]
    fn locks<'i>(&self, index: &'i Index) -> impl Iterator<Item = StripeLock<'i>>
    where
        Self: 'i,
    {
        let stripes = std::iter::once(self.0).chain(self.1);
        stripes.map(|stripe| index.stripe(stripe))
    }
}

/// Any number of stripes.
pub(super) struct Ascending<'a>(&'a [u32]);

impl<'a> Ascending<'a> {
    /// Sorts the stripes into `memory` and removes duplicates.
    #[inline(always)]
    pub(super) fn of(stripes: impl Iterator<Item = u32>, memory: &'a mut Vec<u32>) -> Self {
        memory.clear();
        memory.extend(stripes);
        if memory.len() > 1 {
            memory.sort_unstable();
            memory.dedup();
        }
        Ascending(memory)
    }
}

impl StripeSet for Ascending<'_> {
    #[inline(always)]
    fn locks<'i>(&self, index: &'i Index) -> impl Iterator<Item = StripeLock<'i>>
    where
        Self: 'i,
    {
        index.stripe_locks(self.0.iter().copied())
    }
}

/// The engine, held by an unfinished commit. If the thread panics meanwhile, it is unknown how far the commit
/// came: its record may be durable or not, its entries may be published in part. So the pool takes no more
/// writes, as after a failed fence, and that before the lane is released: until recovery has decided, no
/// record may follow in the lane, no checkpoint may pass the sequence, and nothing else may use the slots that
/// it streamed into. The stripes stay locked, so that no reader sees a change made in part.
pub(super) struct Unfinished<'e>(&'e Engine);

impl<'e> Unfinished<'e> {
    #[inline(always)]
    pub(super) fn new(engine: &'e Engine) -> Self {
        Unfinished(engine)
    }

    /// The commit has ended, done or refused.
    #[inline(always)]
    pub(super) fn finish(self) {
        std::mem::forget(self);
    }
}

/// Dropped by unwinding only: a commit that ends calls `finish`.
impl Drop for Unfinished<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.poison();
        self.0.table.index().abandon();
    }
}
