//! The synchronisation primitives of the lock-free parts, swappable for loom's under `--cfg loom`.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

/// One turn of a spin loop. The crash checker's scheduler and loom may switch threads here.
#[inline]
pub(crate) fn spin_hint() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    forebay_pmem::yield_point();
}

/// Between a look without a lock and the one that decides. The crash checker's scheduler may switch threads
/// here; on no path that writers or readers of cached blocks take often.
#[cfg(not(loom))]
#[inline]
pub(crate) fn look_hint() {
    forebay_pmem::recheck_point();
}

/// How many stripes the thread has locked, which is asserted where a slow device is asked. Only where
/// tests look: on the way of every commit it would not be free.
#[cfg(all(not(loom), any(debug_assertions, test, feature = "mutants")))]
pub(crate) mod held_stripes {
    use std::cell::Cell;

    thread_local! {
        static HELD: Cell<usize> = const { Cell::new(0) };
    }

    #[inline]
    pub(crate) fn lock() {
        HELD.set(HELD.get() + 1);
    }
    #[inline]
    pub(crate) fn unlock() {
        HELD.set(HELD.get() - 1);
    }
    /// The thread begins afresh: a checker had unwound it with stripes locked, as a kill would.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub(crate) fn forget() {
        HELD.set(0);
    }
    /// No slow device is asked under a stripe's lock: others spin for it.
    #[track_caller]
    pub(crate) fn assert_none() {
        assert_eq!(HELD.get(), 0, "stripes are locked while a backing is asked");
    }
}

/// The same, of which nothing is left.
#[cfg(not(all(not(loom), any(debug_assertions, test, feature = "mutants"))))]
pub(crate) mod held_stripes {
    #[inline(always)]
    pub(crate) fn lock() {}
    #[inline(always)]
    pub(crate) fn unlock() {}
    #[cfg(any(test, feature = "unstable-internals"))]
    pub(crate) fn forget() {}
    #[inline(always)]
    pub(crate) fn assert_none() {}
}
