//! Whether this thread is in the library already: our own calls of libc's functions pass through, and
//! a signal handler is told that its file is busy instead of waiting for itself. A thread is not
//! cancelled inside, where it may hold locks; it is at the next point that allows it.

#![allow(unsafe_code, reason = "cancellation of threads has no safe interface")]

use std::cell::Cell;
use std::ffi::c_int;

use crate::protection;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// Whether the thread could be cancelled before it came in.
    static CANCEL_STATE: Cell<c_int> = const { Cell::new(0) };
}

const PTHREAD_CANCEL_DISABLE: c_int = 1;

unsafe extern "C-unwind" {
    // POSIX; the crate `libc` lacks both for this system.
    safe fn pthread_setcancelstate(state: c_int, before: &mut c_int) -> c_int;
    safe fn pthread_testcancel();
}

/// Where a call that we answer may be cancelled, as libc's own may: before anything is done. The caller
/// has nothing that must be dropped.
#[inline]
pub fn cancellation_point() {
    pthread_testcancel();
}

fn set_cancel_state(state: c_int) -> c_int {
    let mut before = 0;
    pthread_setcancelstate(state, &mut before);
    before
}

/// Until it is dropped, this thread is inside.
pub struct Inside(());

impl Inside {
    /// Enters; calls nest.
    #[inline]
    pub fn enter() -> Inside {
        let depth = DEPTH.get();
        DEPTH.set(depth + 1);
        // A signal handler that interrupts our own work starts from this depth, without the right
        // to the pool.
        if depth == 0 {
            CANCEL_STATE.set(set_cancel_state(PTHREAD_CANCEL_DISABLE));
            protection::allow();
        }
        Inside(())
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        let depth = DEPTH.get() - 1;
        // Before this thread is outside: a signal handler may go in and set its own.
        let cancel_state = CANCEL_STATE.get();
        DEPTH.set(depth);
        if depth == 0 {
            protection::deny();
            set_cancel_state(cancel_state);
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
