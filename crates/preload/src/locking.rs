//! Locks that outlive a panic of the thread that holds them.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also after a panic that poisoned the lock: each of these is whole after every statement.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
