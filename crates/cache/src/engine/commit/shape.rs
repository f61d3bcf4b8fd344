//! What differs between commits: the shape of a batch, resolved at compile time.

use crate::engine::Engine;
use crate::engine::change::Outcome;
use crate::error::Slim;
use crate::log::lanes::HeldLane;
use crate::table::index::Index;

/// A batch of changes: one block, several, changes of all kinds, or an append with a word elsewhere. What
/// each step does to it stands here; in which order, and what orders them, in the states of `commit`.
///
/// After the blocks' non-temporal stores, what is loaded must not be wider than the stores that made it:
/// such a load waits until all of them have left the processor. So a small batch keeps what it decided in
/// its own fields, which the inlined steps hold in registers.
pub(super) trait Shape {
    /// The stripes of its keys.
    type Stripes: StripeSet;

    /// Bytes of the record, at most.
    fn record_bytes(&self) -> u64;

    /// The stripes, asked for once.
    fn stripes(&mut self) -> Self::Stripes;

    /// Decides each key's new entry, under the locks. On `Some`, and on an error, it holds nothing, and
    /// nothing is to be done.
    fn plan(&mut self, engine: &Engine) -> Slim<Option<Outcome>>;

    /// Streams what is new, and the record of the drawn sequence last; returns the record's bytes.
    fn stream(&mut self, engine: &Engine, lane: &HeldLane<'_>, sequence: u64) -> u64;

    /// Whether bytes join a block behind what is valid.
    fn appends(&self) -> bool {
        false
    }

    /// Stores the entries, durable or not so far.
    fn publish(&self, engine: &Engine);

    /// Stores bytes of blocks in place whose redo bytes are durable (I8).
    fn apply_in_place(&self, _engine: &Engine) {}

    /// Remembers what was published, for other blocks like it.
    fn note(&self, _engine: &Engine) {}

    /// Gives back the slots that the keys left.
    fn release_freed(&self, _engine: &Engine) {}

    /// How many changes have an effect.
    fn effects(&self) -> usize;
}

/// Stripes in ascending order, each once, so that no two commits wait for each other in a circle.
pub(super) trait StripeSet {
    fn each(&self, visit: impl FnMut(u32));
}

impl StripeSet for u32 {
    #[inline(always)]
    fn each(&self, mut visit: impl FnMut(u32)) {
        visit(*self);
    }
}

/// One or two.
impl StripeSet for (u32, Option<u32>) {
    #[inline(always)]
    fn each(&self, mut visit: impl FnMut(u32)) {
        visit(self.0);
        if let Some(second) = self.1 {
            visit(second);
        }
    }
}

/// Any number.
pub(super) struct Ascending<'a>(&'a [u32]);

impl<'a> Ascending<'a> {
    /// Puts the stripes of some keys in order, in `memory`.
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
    fn each(&self, visit: impl FnMut(u32)) {
        self.0.iter().copied().for_each(visit);
    }
}

/// The engine of a commit that is not done. If its thread panics meanwhile it is unknown how far it came: its
/// record may be durable or not, its entries may be published in part. So the pool takes no more writes, as
/// after a fence that failed: no record may follow in its lane, no checkpoint may pass its sequence, and
/// what it streamed into may not be anything else's, until recovery has decided.
///
/// A thread that panics already may still commit, in a destructor: only a panic that began since counts.
pub(super) struct Unfinished<'e> {
    engine: &'e Engine,
    was_panicking: bool,
}

impl<'e> Unfinished<'e> {
    #[inline(always)]
    pub(super) fn new(engine: &'e Engine) -> Self {
        let was_panicking = std::thread::panicking();
        Unfinished {
            engine,
            was_panicking,
        }
    }
}

impl std::ops::Deref for Unfinished<'_> {
    type Target = Engine;

    #[inline(always)]
    fn deref(&self) -> &Engine {
        self.engine
    }
}

impl Drop for Unfinished<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.was_panicking && std::thread::panicking() {
            self.engine.poison();
        }
    }
}

/// Locked stripes, which are unlocked when this is dropped. Not by a thread that panics: what it changed in
/// part stays out of sight.
pub(super) struct Locks<'e, T: StripeSet> {
    index: &'e Index,
    stripes: T,
    is_held: bool,
    was_panicking: bool,
}

impl<'e, T: StripeSet> Locks<'e, T> {
    #[inline(always)]
    pub(super) fn lock(index: &'e Index, stripes: T) -> Self {
        stripes.each(|stripe| index.lock(stripe));
        Locks {
            index,
            stripes,
            is_held: true,
            was_panicking: std::thread::panicking(),
        }
    }

    /// From here on readers of these stripes wait.
    #[inline(always)]
    pub(super) fn begin_change(&self) {
        self.stripes.each(|stripe| self.index.begin_change(stripe));
    }

    /// Gives the stripes a new version each and unlocks them.
    #[inline(always)]
    pub(super) fn end_change_and_unlock(&mut self) {
        self.stripes.each(|stripe| {
            self.index.end_change_and_unlock(stripe);
        });
        self.is_held = false;
    }
}

impl<T: StripeSet> Drop for Locks<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.is_held && (self.was_panicking || !std::thread::panicking()) {
            self.stripes.each(|stripe| self.index.unlock(stripe));
        }
    }
}
