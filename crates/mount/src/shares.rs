//! How many of the daemon's descriptors each user has, so that one user's open files do not shut
//! the others out.
//!
//! Each open file or directory counts for the user that opened it, until it is closed everywhere. The
//! daemon's own user has no limit.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

/// See the module.
#[derive(Debug)]
pub struct Shares {
    /// What a user may have open.
    limit: usize,
    /// The user without a limit.
    exempt: u32,
    held: Mutex<HashMap<u32, Held>>,
}

/// What a user has.
#[derive(Clone, Copy, Default, Debug)]
struct Held {
    open: usize,
    /// The refusal has been logged.
    is_told: bool,
}

/// One open file of a user's, until it is dropped.
#[derive(Debug)]
pub struct Share {
    shares: Arc<Shares>,
    user: u32,
}

impl Shares {
    /// With so much for each user but `exempt`.
    pub fn new(limit: usize, exempt: u32) -> Arc<Shares> {
        Arc::new(Shares {
            limit,
            exempt,
            held: Mutex::default(),
        })
    }

    /// One more for this user.
    ///
    /// # Errors
    /// `EMFILE`: it has all that it may.
    pub fn take(self: &Arc<Self>, user: u32) -> io::Result<Option<Share>> {
        if user == self.exempt {
            return Ok(None);
        }
        let mut held = self.lock();
        let found = held.entry(user).or_default();
        if found.open >= self.limit {
            let is_news = !std::mem::replace(&mut found.is_told, true);
            drop(held);
            if is_news {
                tracing::warn!(
                    user,
                    limit = self.limit,
                    "a user has as many files open as one may, and is refused more \
                     (--open-files-per-user)"
                );
            }
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        found.open += 1;
        Ok(Some(Share {
            shares: Arc::clone(self),
            user,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Held>> {
        self.held.lock()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut held = self.shares.lock();
        let Some(found) = held.get_mut(&self.user) else {
            return;
        };
        found.open -= 1;
        // Logged again once the user has come down by half.
        found.is_told &= found.open > self.shares.limit / 2;
        if found.open == 0 {
            held.remove(&self.user);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_its_share_and_the_others_theirs() {
        let shares = Shares::new(2, 0);
        let one = [7, 7].map(|user| shares.take(user).unwrap());
        let refused = shares.take(7).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EMFILE));
        let others: Vec<_> = [0, 0, 0, 8, 8]
            .map(|user| shares.take(user).unwrap())
            .into();
        drop(one);
        shares.take(7).unwrap();
        drop(others);
        assert!(shares.lock().is_empty());
    }
}
