//! What happened so far, counted by all threads at the same time; and when a slow request is a
//! stall.
//!
//! A request stalls if it takes more than a second while a daemon is up and no fault is in progress.
//! Time in which this process itself got no processor, which a watchdog sees by its own ticks coming
//! late, is taken off.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::model::Complaint;

const STALL: Duration = Duration::from_secs(1);
/// One that takes so long hangs, whatever else its disk has to do.
const HANG: Duration = Duration::from_secs(30);
const TICK: Duration = Duration::from_millis(50);
const LATE: Duration = Duration::from_millis(300);
/// Messages that are kept; the counters count on.
const MESSAGES_MAX: usize = 40;

#[derive(Clone, Copy, Debug)]
pub struct Start {
    at: Instant,
    starved_ns: u64,
}

/// Counters of a run, which begins with it.
#[derive(Debug, Default)]
pub struct Tally {
    began: Began,
    /// Set when clients are to come to an end.
    pub is_over: AtomicBool,
    pub operations: AtomicU64,
    pub bytes: AtomicU64,
    /// Sectors that were acknowledged and are not there any more.
    pub lost: AtomicU64,
    /// Sectors with what must not be there.
    pub wrong: AtomicU64,
    pub stalls: AtomicU64,
    /// Requests that took so long that they count as hung.
    pub hangs: AtomicU64,
    pub errors: AtomicU64,
    /// Errors and broken connections that a fault explains.
    pub errors_expected: AtomicU64,
    /// Changes that broke off and were found whole or absent.
    pub resolved: AtomicU64,
    /// The slowest request outside of faults.
    pub slowest_ns: AtomicU64,
    pub starved_ns: AtomicU64,
    /// Daemons started so far.
    pub generation: AtomicU64,
    /// Process of the daemon that is up, or 0.
    pub daemon: AtomicU32,
    faults_open: AtomicU64,
    fault_ended_ns: AtomicU64,
    faults: Mutex<BTreeMap<&'static str, u64>>,
    messages: Mutex<Vec<String>>,
    now: Mutex<String>,
}

/// When the run began.
#[derive(Debug)]
struct Began(Instant);

impl Default for Began {
    fn default() -> Began {
        Began(Instant::now())
    }
}

impl Tally {
    pub fn elapsed_ns(&self) -> u64 {
        self.began.0.elapsed().as_nanos() as u64
    }

    /// Counts a fault.
    pub fn fault(&self, name: &'static str) {
        *self.faults.lock().entry(name).or_default() += 1;
        name.clone_into(&mut self.now.lock());
    }

    pub fn faults(&self) -> BTreeMap<&'static str, u64> {
        self.faults.lock().clone()
    }

    /// What is going on, for people.
    pub fn now(&self) -> String {
        self.now.lock().clone()
    }

    /// From here to [`Tally::close_fault`], requests may be slow and may fail.
    pub fn open_fault(&self) {
        self.faults_open.fetch_add(1, SeqCst);
    }

    pub fn close_fault(&self) {
        self.fault_ended_ns.store(self.elapsed_ns(), SeqCst);
        self.faults_open.fetch_sub(1, SeqCst);
    }

    pub fn start(&self) -> Start {
        Start {
            at: Instant::now(),
            starved_ns: self.starved_ns.load(SeqCst),
        }
    }

    /// Whether a fault was in progress at any moment since then.
    pub fn had_fault_since(&self, start: Start) -> bool {
        let began_ns = (start.at - self.began.0).as_nanos() as u64;
        self.faults_open.load(SeqCst) > 0 || self.fault_ended_ns.load(SeqCst) >= began_ns
    }

    /// A request was answered.
    pub fn answered(&self, start: Start, bytes: u64, what: impl FnOnce() -> String) {
        self.operations.fetch_add(1, SeqCst);
        self.bytes.fetch_add(bytes, SeqCst);
        if self.had_fault_since(start) {
            return;
        }
        let taken_ns = start.at.elapsed().as_nanos() as u64;
        let starved_ns = self.starved_ns.load(SeqCst) - start.starved_ns;
        let taken_ns = taken_ns.saturating_sub(starved_ns);
        self.slowest_ns.fetch_max(taken_ns, SeqCst);
        if taken_ns > STALL.as_nanos() as u64 {
            self.stalls.fetch_add(1, SeqCst);
            self.hangs
                .fetch_add(u64::from(taken_ns > HANG.as_nanos() as u64), SeqCst);
            let message = format!("stall: {} took {} ms", what(), taken_ns / 1_000_000);
            self.say(message);
        }
    }

    /// Something went wrong since `start`; an error unless a fault explains it.
    pub fn failed(&self, start: Start, message: impl FnOnce() -> String) {
        if self.had_fault_since(start) {
            self.errors_expected.fetch_add(1, SeqCst);
        } else {
            self.error(message());
        }
    }

    /// Something went wrong that nothing explains.
    pub fn error(&self, message: String) {
        self.errors.fetch_add(1, SeqCst);
        self.say(format!("error: {message}"));
    }

    /// A sector is not what it has to be.
    pub fn complain(&self, complaint: Complaint, found_by: &str) {
        let (counter, text) = match complaint {
            Complaint::Lost(text) => (&self.lost, format!("lost: {text}")),
            Complaint::Wrong(text) => (&self.wrong, format!("wrong: {text}")),
        };
        counter.fetch_add(1, SeqCst);
        self.say(format!("{text} ({found_by})"));
    }

    fn say(&self, message: String) {
        let mut messages = self.messages.lock();
        if messages.len() < MESSAGES_MAX {
            let at_s = self.began.0.elapsed().as_secs_f64();
            let during = self.now();
            messages.push(format!("{at_s:.3} s, {during}: {message}"));
        }
    }

    pub fn messages(&self) -> Vec<String> {
        self.messages.lock().clone()
    }

    /// Whether something is wrong with the daemon. A stall is not, where the pool lies on a disk: that has others to
    /// serve; but a hang is.
    pub fn has_failed(&self, is_on_disk: bool) -> bool {
        let has_stalls = !is_on_disk && self.stalls.load(SeqCst) > 0;
        let others = [&self.lost, &self.wrong, &self.errors, &self.hangs];
        has_stalls || others.iter().any(|counter| counter.load(SeqCst) > 0)
    }

    /// Ticks until the run is over, and notes when a tick came late.
    pub fn watch(&self) {
        while !self.is_over.load(SeqCst) {
            let asleep = Instant::now();
            std::thread::sleep(TICK);
            let taken = asleep.elapsed();
            if taken > LATE {
                let starved = taken - TICK;
                self.starved_ns.fetch_add(starved.as_nanos() as u64, SeqCst);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_count_only_while_no_fault_explains_them() {
        let tally = Tally::default();
        let before = tally.start();
        tally.answered(before, 1, String::new);
        assert!(!tally.has_failed(false));
        tally.stalls.store(1, SeqCst);
        assert!(tally.has_failed(false) && !tally.has_failed(true));
        tally.stalls.store(0, SeqCst);
        tally.hangs.store(1, SeqCst);
        assert!(tally.has_failed(true));
        tally.hangs.store(0, SeqCst);
        tally.open_fault();
        tally.failed(before, String::new);
        tally.close_fault();
        tally.failed(before, String::new);
        std::thread::sleep(Duration::from_millis(1));
        assert!(!tally.has_failed(false));
        tally.failed(tally.start(), String::new);
        assert!(tally.has_failed(false));
        assert_eq!(tally.errors.load(SeqCst), 1);
        assert_eq!(tally.errors_expected.load(SeqCst), 2);
    }
}
