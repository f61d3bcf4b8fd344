//! Whether this thread is in the library already: our own calls of libc's functions pass through, and
//! a signal handler is told that its file is busy instead of waiting for itself.

use std::cell::Cell;

use crate::protection;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// While it lives, this thread is inside.
pub struct Inside(());

impl Inside {
    /// Enters, however deep.
    #[inline]
    pub fn enter() -> Inside {
        let depth = DEPTH.get();
        DEPTH.set(depth + 1);
        // A signal handler within our own work counts from there, with its rights taken away.
        if depth == 0 {
            protection::allow();
        }
        Inside(())
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        let depth = DEPTH.get() - 1;
        DEPTH.set(depth);
        if depth == 0 {
            protection::deny();
        }
    }
}

/// Whether this thread is inside.
#[inline]
pub fn is_inside() -> bool {
    DEPTH.get() > 0
}

/// From now on to its end this thread is inside: the pool's own threads.
pub fn stay_inside() {
    std::mem::forget(Inside::enter());
}
