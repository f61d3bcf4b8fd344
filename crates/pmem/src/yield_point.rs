//! Where a spin loop waits, and where a thread has looked at what others may change: for the processor in
//! production, for a scheduler under test.
//!
//! A checker that runs real threads one at a time must get control when the thread it
//! lets run waits for one that it does not. Every spin loop of the cache calls
//! [`yield_point`]; without a hook that is a pause instruction and little else. Now and then it yields
//! the processor: the thread waited for may have been preempted, and on a machine with more threads
//! than processors it runs again only after all spinning threads have used up their time slices.
//!
//! What is looked at without a lock is looked at again before it counts. A checker must get control
//! between the two as well, or no other thread ever does anything there: [`look_point`]. Every load of
//! bytes from a shadow region is one; elsewhere it stands on paths that are cold, or nothing is there.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Threads that have a hook now.
static HOOKED_THREADS: AtomicUsize = AtomicUsize::new(0);

/// Pauses before the processor is offered to others: longer than any lock is held by a thread that
/// runs, and much shorter than a time slice.
const PAUSES_BEFORE_YIELD: u32 = 256;

/// Why a thread would let another one go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// It waits for another one.
    Wait,
    /// It looks at something without a lock.
    Look,
    /// It has looked at something without a lock, in a cold place, and will look again under one.
    Recheck,
}

/// A hook with the count of hooked threads kept right however it goes away.
struct Hook(Box<dyn Fn(Pause)>);

impl Drop for Hook {
    fn drop(&mut self) {
        HOOKED_THREADS.fetch_sub(1, Ordering::Relaxed);
    }
}

thread_local! {
    static HOOK: RefCell<Option<Rc<Hook>>> = const { RefCell::new(None) };
    /// Pauses of this thread, in all of its spin loops.
    static PAUSES: Cell<u32> = const { Cell::new(0) };
}

/// Tells the processor, or this thread's hook, that the thread waits for another one.
#[inline]
pub fn yield_point() {
    if HOOKED_THREADS.load(Ordering::Relaxed) == 0 {
        pause();
    } else {
        yield_to_hook(Pause::Wait);
    }
}

/// Lets this thread's hook run another thread between two looks at the same thing. Without a hook it
/// does nothing.
#[inline]
pub fn look_point() {
    if HOOKED_THREADS.load(Ordering::Relaxed) != 0 {
        yield_to_hook(Pause::Look);
    }
}

/// The same where a look without a lock is to be followed by one that decides.
#[inline]
pub fn recheck_point() {
    if HOOKED_THREADS.load(Ordering::Relaxed) != 0 {
        yield_to_hook(Pause::Recheck);
    }
}

fn pause() {
    let pauses = PAUSES.get().wrapping_add(1);
    PAUSES.set(pauses);
    if pauses.is_multiple_of(PAUSES_BEFORE_YIELD) {
        std::thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
}

#[cold]
fn yield_to_hook(pause: Pause) {
    // Cloned, so that the hook may replace itself.
    let hook = HOOK.try_with(|hook| hook.borrow().clone());
    match hook {
        Ok(Some(hook)) => (hook.0)(pause),
        _ if pause == Pause::Wait => std::thread::yield_now(),
        _ => {}
    }
}

/// Takes a mutex that may be held across stores, flushes and fences, where a scheduler can switch
/// threads: under one, the wait is a [`yield_point`]. A poisoned mutex is taken like any other.
pub fn lock_or_yield<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    while HOOKED_THREADS.load(Ordering::Relaxed) > 0 {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => yield_point(),
        }
    }
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets or clears what [`yield_point`], [`look_point`] and [`recheck_point`] call on this thread.
pub fn set_yield_hook(hook: Option<Box<dyn Fn(Pause)>>) {
    let hook = hook.map(|hook| {
        HOOKED_THREADS.fetch_add(1, Ordering::Relaxed);
        Rc::new(Hook(hook))
    });
    HOOK.with(|slot| *slot.borrow_mut() = hook);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hook_of_this_thread_is_called_and_goes_away() {
        let calls = Rc::new(RefCell::new(Vec::new()));
        let seen = Rc::clone(&calls);
        set_yield_hook(Some(Box::new(move |pause| seen.borrow_mut().push(pause))));
        yield_point();
        std::thread::spawn(yield_point).join().unwrap();
        look_point();
        assert_eq!(*calls.borrow(), [Pause::Wait, Pause::Look]);
        set_yield_hook(None);
        yield_point();
        look_point();
        assert_eq!(calls.borrow().len(), 2);
    }
}
