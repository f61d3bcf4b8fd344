//! Whether this thread is in the library already: our own calls of libc's functions pass through, and
//! a signal handler is told that its file is busy instead of waiting for itself.

use std::cell::Cell;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// While it lives, this thread is inside.
pub struct Inside(());

impl Inside {
    /// Enters, however deep.
    #[inline]
    pub fn enter() -> Inside {
        DEPTH.with(|depth| depth.set(depth.get() + 1));
        Inside(())
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get() - 1));
    }
}

/// Whether this thread is inside.
#[inline]
pub fn is_inside() -> bool {
    DEPTH.with(Cell::get) > 0
}

/// From now on to its end this thread is inside: the pool's own threads.
pub fn stay_inside() {
    std::mem::forget(Inside::enter());
}
