//! What may be there of an inode for a write to take first.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// Whether something may be there. It counts as there until it was taken for good, however many callers are about to take it, and
/// what arises meanwhile is not settled with what was before.
#[derive(Debug)]
pub struct Suspicion {
    /// How often it arose.
    arisen: AtomicU64,
    /// How many of these are settled; never more.
    settled: AtomicU64,
}

/// Nothing is known yet, so it may be there.
impl Default for Suspicion {
    fn default() -> Suspicion {
        Suspicion {
            arisen: AtomicU64::new(1),
            settled: AtomicU64::new(0),
        }
    }
}

impl Suspicion {
    /// It may be there from now on.
    pub fn arise(&self) {
        // What made it is done before another thread sees the number.
        self.arisen.fetch_add(1, Ordering::Release);
    }

    /// Takes it if it may be there. After a failure the next caller tries again.
    pub fn settle(&self, take: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let arisen = self.arisen.load(Ordering::Acquire);
        if self.settled.load(Ordering::Acquire) >= arisen {
            return Ok(());
        }
        take()?;
        // What was taken is gone before another thread sees it settled.
        self.settled.fetch_max(arisen, Ordering::Release);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_settled_by_success_alone_and_not_for_what_arises_meanwhile() {
        let suspicion = Suspicion::default();
        let tries = AtomicU64::new(0);
        let attempt = |result: fn(&Suspicion) -> io::Result<()>| {
            suspicion.settle(|| {
                tries.fetch_add(1, Ordering::Relaxed);
                result(&suspicion)
            })
        };
        attempt(|_| Err(io::Error::other("the sync failed"))).unwrap_err();
        // Another comes between.
        attempt(|suspicion| {
            suspicion.arise();
            Ok(())
        })
        .unwrap();
        attempt(|_| Ok(())).unwrap();
        attempt(|_| Ok(())).unwrap();
        assert_eq!(tries.into_inner(), 3);
    }
}
