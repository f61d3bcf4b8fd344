//! What may be there of an inode for a write to take first.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Whether something may be there. It counts as there until it was taken for good, and a caller that comes while another takes it,
/// or while a change may bring or take it, waits for that: what it would find is not durable yet.
#[derive(Debug)]
pub struct Suspicion {
    /// One caller takes it, or changes what it is about, at a time.
    one: Mutex<()>,
    /// How often it arose.
    arisen: AtomicU64,
    /// How many of these are settled; never more.
    settled: AtomicU64,
}

/// Nothing is known yet, so it may be there.
impl Default for Suspicion {
    fn default() -> Suspicion {
        Suspicion {
            one: Mutex::new(()),
            arisen: AtomicU64::new(1),
            settled: AtomicU64::new(0),
        }
    }
}

impl Suspicion {
    /// It may be there from now on, by `change`. What comes meanwhile finds it changed.
    pub fn arise_by<T>(&self, change: impl FnOnce() -> T) -> T {
        let _one = self.lock();
        // First: from here on no caller passes without the lock.
        self.arisen.fetch_add(1, Ordering::Release);
        change()
    }

    /// Takes it if it may be there. After a failure the next caller tries again.
    pub fn settle(&self, take: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        if self.is_settled() {
            return Ok(());
        }
        let _one = self.lock();
        // Another caller may have taken it meanwhile.
        if self.is_settled() {
            return Ok(());
        }
        take()?;
        // It arises under the lock alone, so all that arose was there to be taken; and that is gone before another thread sees it
        // settled.
        let arisen = self.arisen.load(Ordering::Acquire);
        self.settled.store(arisen, Ordering::Release);
        Ok(())
    }

    /// What it is about was just made, and had nothing then. What another caller has brought since stays.
    pub fn begins_settled(&self) {
        // The first that arose is that nothing is known.
        self.settled.fetch_max(1, Ordering::Release);
    }

    fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Acquire) >= self.arisen.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.one.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn it_is_settled_by_success_alone_until_it_arises_again() {
        let suspicion = Suspicion::default();
        let tries = AtomicU64::new(0);
        let attempt = |result: io::Result<()>| {
            suspicion.settle(|| {
                tries.fetch_add(1, Ordering::Relaxed);
                result
            })
        };
        attempt(Err(io::Error::other("the sync failed"))).unwrap_err();
        attempt(Ok(())).unwrap();
        attempt(Ok(())).unwrap();
        suspicion.arise_by(|| ());
        attempt(Ok(())).unwrap();
        attempt(Ok(())).unwrap();
        assert_eq!(tries.into_inner(), 3);
    }

    #[test]
    fn what_is_new_is_settled_but_for_what_came_since() {
        let tries = |before: &dyn Fn(&Suspicion)| {
            let suspicion = Suspicion::default();
            before(&suspicion);
            let mut tries = 0;
            for _ in 0..2 {
                let taken = suspicion.settle(|| {
                    tries += 1;
                    Ok(())
                });
                taken.unwrap();
            }
            // However late it is told that it began so, nothing is forgotten that is settled.
            suspicion.begins_settled();
            suspicion.settle(|| panic!("it is settled")).unwrap();
            tries
        };
        assert_eq!(tries(&|_| ()), 1);
        assert_eq!(tries(&|new| new.begins_settled()), 0);
        let since = |new: &Suspicion| {
            new.arise_by(|| ());
            new.begins_settled();
        };
        assert_eq!(tries(&since), 1);
    }

    /// What another caller that settles does while `first` is at work: how often it took, and whether it was done before.
    fn beside(suspicion: &Suspicion, first: impl FnOnce(&dyn Fn())) -> (u64, bool) {
        let (takes, is_over) = (AtomicU64::new(0), AtomicU64::new(0));
        let was_early = AtomicU64::new(0);
        thread::scope(|scope| {
            let (begun, begins) = channel();
            let (takes, is_over, was_early) = (&takes, &is_over, &was_early);
            scope.spawn(move || {
                begins.recv().unwrap();
                let taken = suspicion.settle(|| {
                    takes.fetch_add(1, Ordering::SeqCst);
                    Ok(())
                });
                taken.unwrap();
                was_early.store(1 - is_over.load(Ordering::SeqCst), Ordering::SeqCst);
            });
            first(&|| {
                begun.send(()).unwrap();
                // Long enough for one that does not wait; one that does passes however long it is.
                thread::sleep(Duration::from_millis(50));
                is_over.store(1, Ordering::SeqCst);
            });
        });
        (takes.into_inner(), was_early.into_inner() == 1)
    }

    #[test]
    fn a_caller_waits_for_another_that_takes_and_for_a_change() {
        let suspicion = Suspicion::default();
        let took = beside(&suspicion, |work| {
            let taken = suspicion.settle(|| {
                work();
                Ok(())
            });
            taken.unwrap();
        });
        assert_eq!(took, (0, false), "it was taken, durably");
        let took = beside(&suspicion, |work| suspicion.arise_by(work));
        assert_eq!(took, (1, false), "what the change left was taken");
    }
}
