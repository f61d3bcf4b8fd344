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
    forebay_pmem::look_point();
}
