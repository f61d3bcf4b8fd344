//! Users that run transactions one after the other, without a pause to think, until enough are done; each ends
//! the one that it is at.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use forebay_harness::{Result, wait_for};

use crate::tpcc::mix::{Deck, KINDS, Kind};
use crate::tpcc::pace::Goal;
use crate::tpcc::terminal::{Ended, Terminal, is_conflict};
use crate::tpcc::transactions;

/// What users did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// In the order of [`KINDS`].
    committed: [u64; KINDS.len()],
    /// On purpose.
    pub rolled_back: u64,
    /// Called off by the server for others' sake, and tried again.
    pub conflicts: u64,
}

impl Done {
    /// So many payments, and nothing else.
    #[cfg(test)]
    pub fn of_payments(count: u64) -> Done {
        let mut done = Done::default();
        (0..count).for_each(|_| done.note(Kind::Payment));
        done
    }

    /// One more was committed.
    pub fn note(&mut self, kind: Kind) {
        self.committed[kind as usize] += 1;
    }

    pub fn of(&self, kind: Kind) -> u64 {
        self.committed[kind as usize]
    }

    pub fn committed(&self) -> u64 {
        self.committed.iter().sum()
    }
}

impl AddAssign for Done {
    fn add_assign(&mut self, other: Done) {
        for (sum, more) in self.committed.iter_mut().zip(other.committed) {
            *sum += more;
        }
        self.rolled_back += other.rolled_back;
        self.conflicts += other.conflicts;
    }
}

/// Lets a user at each terminal work; what all did, and how long that took to the end of the last one.
///
/// # Errors
/// The server's, conflicts excepted; or a signal came. No user works on then.
pub fn drive(terminals: Vec<Terminal>, goal: Goal) -> Result<(Done, Duration)> {
    let (is_over, committed) = (AtomicBool::new(false), AtomicU64::new(0));
    let began = Instant::now();
    thread::scope(|scope| {
        let users: Vec<_> = terminals
            .into_iter()
            .map(|terminal| scope.spawn(|| work(terminal, &is_over, &committed)))
            .collect();
        let waited = wait_for(goal.limit, || {
            let is_done = committed.load(Ordering::Relaxed) >= goal.transactions;
            Ok((is_done || is_over.load(Ordering::Relaxed)).then_some(()))
        });
        is_over.store(true, Ordering::Relaxed);
        let mut all = Done::default();
        let mut first_error = waited.err();
        for user in users {
            match user.join() {
                Ok(Ok(done)) => all += done,
                Ok(Err(error)) => first_error = first_error.or(Some(error)),
                Err(_) => first_error = first_error.or(Some("a user panicked".into())),
            }
        }
        match first_error {
            Some(error) => Err(error),
            None => Ok((all, began.elapsed())),
        }
    })
}

/// One user. The first error of one is the end of all.
fn work(mut terminal: Terminal, is_over: &AtomicBool, committed: &AtomicU64) -> Result<Done> {
    let mut done = Done::default();
    let mut deck = Deck::default();
    while !is_over.load(Ordering::Relaxed) {
        let kind = deck.deal(&mut terminal.dice);
        loop {
            match transactions::run(kind, &mut terminal) {
                Ok(Ended::Committed) => {
                    done.note(kind);
                    committed.fetch_add(1, Ordering::Relaxed);
                }
                Ok(Ended::RolledBack) => done.rolled_back += 1,
                Err(error) if is_conflict(&*error) => {
                    done.conflicts += 1;
                    continue;
                }
                Err(error) => {
                    is_over.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
            break;
        }
    }
    Ok(done)
}
