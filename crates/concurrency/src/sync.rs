//! The cache's `sync` names, and those of the laboratory's queue, over loom's atomics, each of which a mutant can weaken.
//!
//! The mutant is chosen per test thread: loom runs all threads of a model on the thread that called it.

use std::cell::Cell;

pub(crate) use loom::sync::atomic::Ordering;

/// What is weakened: a kind of access everywhere, or a step of the models' own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mutant {
    /// Release stores are relaxed.
    ReleaseStoresRelaxed,
    /// Acquire loads are relaxed.
    AcquireLoadsRelaxed,
    /// Read-modify-writes are relaxed.
    ReadModifyWritesRelaxed,
    /// Release fences do nothing.
    ReleaseFencesDropped,
    /// Acquire fences do nothing.
    AcquireFencesDropped,
    /// A change is made without the mark that keeps readers away.
    ChangingMarkMissing,
    /// A change leaves the version as it was.
    VersionNotBumped,
    /// A slot is reused before its old key's change is complete.
    SlotReusedBeforeUnlink,
    /// A transaction marks, changes and unlocks one stripe after the other.
    StripesPublishedOneByOne,
    /// An atomic read believes each block by itself.
    AtomicReadNotRechecked,
    /// The clean mark ignores that the block changed.
    RedirtyIgnored,
}

thread_local! {
    static MUTANT: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// Chooses the mutant for models run by this thread.
#[cfg(test)]
pub(crate) fn set_mutant(mutant: Option<Mutant>) {
    MUTANT.set(mutant);
}

/// Whether this is the chosen mutant.
pub(crate) fn mutated(mutant: Mutant) -> bool {
    MUTANT.get() == Some(mutant)
}

fn store_order(order: Ordering) -> Ordering {
    if mutated(Mutant::ReleaseStoresRelaxed) {
        Ordering::Relaxed
    } else {
        order
    }
}

fn load_order(order: Ordering) -> Ordering {
    if mutated(Mutant::AcquireLoadsRelaxed) {
        Ordering::Relaxed
    } else {
        order
    }
}

fn change_order(order: Ordering) -> Ordering {
    if mutated(Mutant::ReadModifyWritesRelaxed) {
        Ordering::Relaxed
    } else {
        order
    }
}

/// A fence, unless the mutant drops it.
pub(crate) fn fence(order: Ordering) {
    let dropped = match order {
        Ordering::Release => mutated(Mutant::ReleaseFencesDropped),
        Ordering::Acquire => mutated(Mutant::AcquireFencesDropped),
        _ => false,
    };
    if !dropped {
        loom::sync::atomic::fence(order);
    }
}

/// One turn of a spin loop.
pub(crate) fn spin_hint() {
    loom::thread::yield_now();
}

/// The same, as the laboratory's queue names it.
pub(crate) fn pause(_spins: &mut u32) {
    spin_hint();
}

macro_rules! atomic {
    ($name:ident, $value:ty) => {
        /// Loom's, with orderings that a mutant may weaken.
        #[derive(Debug)]
        pub(crate) struct $name(loom::sync::atomic::$name);

        #[allow(dead_code, reason = "not every type has each of these used")]
        impl $name {
            pub(crate) fn new(value: $value) -> Self {
                Self(loom::sync::atomic::$name::new(value))
            }
            pub(crate) fn load(&self, order: Ordering) -> $value {
                self.0.load(load_order(order))
            }
            pub(crate) fn store(&self, value: $value, order: Ordering) {
                self.0.store(value, store_order(order));
            }
            pub(crate) fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.0
                    .compare_exchange(current, new, change_order(success), load_order(failure))
            }
        }
    };
}

macro_rules! atomic_number {
    ($name:ident, $value:ty) => {
        atomic!($name, $value);

        #[allow(dead_code, reason = "not every type has each of these used")]
        impl $name {
            pub(crate) fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.0.compare_exchange_weak(
                    current,
                    new,
                    change_order(success),
                    load_order(failure),
                )
            }
            pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                self.0.swap(value, change_order(order))
            }
            pub(crate) fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_add(value, change_order(order))
            }
            pub(crate) fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_sub(value, change_order(order))
            }
            pub(crate) fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_or(value, change_order(order))
            }
            pub(crate) fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_and(value, change_order(order))
            }
            pub(crate) fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_max(value, change_order(order))
            }
        }
    };
}

atomic!(AtomicBool, bool);

impl AtomicBool {
    /// Made of a compare-and-exchange: loom lets a plain store slip into the middle of a swap (its issue 254). A swap
    /// that changes nothing differs in nothing else, as long as it releases nothing.
    pub(crate) fn swap(&self, value: bool, order: Ordering) -> bool {
        assert_eq!(order, Ordering::Acquire, "only test-and-set is known here");
        self.compare_exchange(!value, value, order, order)
            .unwrap_or_else(|current| current)
    }
}

atomic_number!(AtomicU32, u32);
atomic_number!(AtomicU64, u64);

impl Default for AtomicU32 {
    fn default() -> AtomicU32 {
        AtomicU32::new(0)
    }
}

impl Default for AtomicU64 {
    fn default() -> AtomicU64 {
        AtomicU64::new(0)
    }
}

/// Nothing is asked of a slow device here.
pub(crate) mod held_stripes {
    pub(crate) fn lock() {}
    pub(crate) fn unlock() {}
}
