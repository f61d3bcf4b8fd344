//! Which thread serves a request, which threads wait for the next one, and whether idle cores may sleep.
//!
//! The session has few threads, since each more makes every request slower. They serve what they read
//! themselves while nothing waits, and hand it to overflow threads while something does, so that a
//! request that waits for the backing does not delay those that need not wait: from the moment that a
//! request has been under way for [`PATIENCE_MS`], until [`LASTING_MS`] after the last one that was.
//! When one is answered, [`PollerThrottle`] decides whether its thread waits for another one;
//! [`CpuLatencyQos`] keeps idle cores awake while requests come close together.

mod clock;
mod cpu_latency_qos;
mod poller_throttle;

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use forebay_serve::job_queue::JobQueue;

use clock::now_ms;
use cpu_latency_qos::CpuLatencyQos;
use poller_throttle::PollerThrottle;

/// A request that takes longer waits for something.
const PATIENCE_MS: u64 = 10;

/// How long after it others are expected to wait, too.
const LASTING_MS: u64 = 1000;

/// Overflow threads at most; what comes then queues.
const OVERFLOW_THREADS_MAX: usize = 64;

/// An overflow thread that has nothing to do for so long ends.
const IDLE: Duration = Duration::from_secs(10);

/// No request is under way.
const NONE: u64 = 0;

/// A request that a thread outside of the session can serve.
pub type Overflow = Box<dyn FnOnce() + Send>;

thread_local! {
    /// The place of this thread among the session's.
    static PLACE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// See the module.
#[derive(Debug)]
pub struct Scheduler {
    /// When the request began that each of the session's threads serves.
    began_ms: Box<[AtomicU64]>,
    places_given: AtomicUsize,
    waits_expected_until_ms: AtomicU64,
    overflow: Arc<JobQueue<Overflow>>,
    pollers: PollerThrottle,
    cores: CpuLatencyQos,
}

/// A request that a thread of the session serves itself.
#[derive(Debug)]
struct Turn<'s> {
    scheduler: &'s Scheduler,
    place: usize,
}

impl Scheduler {
    /// For a session of `threads` threads.
    pub fn new(threads: usize, keeps_cores_awake: bool) -> Scheduler {
        Scheduler {
            began_ms: (0..threads.max(1)).map(|_| AtomicU64::new(NONE)).collect(),
            places_given: AtomicUsize::new(0),
            waits_expected_until_ms: AtomicU64::new(0),
            overflow: Arc::new(JobQueue::new(OVERFLOW_THREADS_MAX, Some(IDLE))),
            pollers: PollerThrottle::new(threads),
            cores: CpuLatencyQos::new(keeps_cores_awake),
        }
    }

    /// The session begins, whose requests are read from `device`.
    pub fn begin(&self, device: OwnedFd) {
        self.pollers.begin(device);
    }

    /// A request has come that no thread of the session serves.
    pub fn note(&self) {
        self.cores.note(now_ms());
    }

    /// Called by a thread of the session with a request that it has read: serves it by `here`, or has it
    /// served elsewhere as `overflow` makes it fit for that. Returns when the thread is to read the next
    /// one.
    pub fn serve<R>(&self, request: R, here: impl FnOnce(R), overflow: impl FnOnce(R) -> Overflow) {
        let now = now_ms();
        self.cores.note(now);
        match self.turn(now) {
            Some(_turn) => here(request),
            None => self.hand_over(overflow(request)),
        }
        self.pollers.rest();
    }

    /// Whether the next request is this thread's to serve.
    fn turn(&self, now: u64) -> Option<Turn<'_>> {
        let waits = |began: &AtomicU64| match began.load(Ordering::Relaxed) {
            NONE => false,
            began => now.saturating_sub(began) >= PATIENCE_MS,
        };
        let waits_are_expected = now < self.waits_expected_until_ms.load(Ordering::Relaxed);
        if waits_are_expected || self.began_ms.iter().any(waits) {
            return None;
        }
        let place = self.place();
        self.began_ms[place].store(now, Ordering::Relaxed);
        Some(Turn {
            scheduler: self,
            place,
        })
    }

    fn hand_over(&self, request: Overflow) {
        let start = || {
            let overflow = Arc::clone(&self.overflow);
            let thread = std::thread::Builder::new().name("mount-overflow".into());
            thread.spawn(move || overflow.work(|request| request()))?;
            Ok(())
        };
        // Without any other thread the session waits after all.
        self.overflow.push(request, start, |request| request());
    }

    fn place(&self) -> usize {
        PLACE.with(|place| {
            let number = place.get().unwrap_or_else(|| {
                let number = self.places_given.fetch_add(1, Ordering::Relaxed);
                place.set(Some(number));
                number
            });
            number % self.began_ms.len()
        })
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.overflow.close();
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let began = self.scheduler.began_ms[self.place].swap(NONE, Ordering::Relaxed);
        let now = now_ms();
        if now.saturating_sub(began) >= PATIENCE_MS {
            let until = &self.scheduler.waits_expected_until_ms;
            until.store(now + LASTING_MS, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    #[test]
    fn while_a_request_waits_others_are_handed_over() {
        let scheduler = Scheduler::new(2, false);
        drop(scheduler.turn(now_ms()).unwrap());
        let waiting = scheduler.turn(now_ms()).unwrap();
        std::thread::sleep(Duration::from_millis(3 * PATIENCE_MS));
        assert!(scheduler.turn(now_ms()).is_none());
        let (sender, done) = channel();
        // More than there are threads, each waiting for the last one to come.
        let (release, gate) = channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        for number in 0..OVERFLOW_THREADS_MAX + 10 {
            let (sender, gate) = (sender.clone(), Arc::clone(&gate));
            let serve = move || {
                if number < OVERFLOW_THREADS_MAX {
                    let _ = gate.lock().unwrap().recv();
                }
                sender.send(number).unwrap();
            };
            scheduler.serve(
                serve,
                |_| panic!("it is handed over"),
                |serve| Box::new(serve),
            );
        }
        drop(release);
        let mut served: Vec<_> = done.iter().take(OVERFLOW_THREADS_MAX + 10).collect();
        served.sort_unstable();
        assert_eq!(served, (0..OVERFLOW_THREADS_MAX + 10).collect::<Vec<_>>());
        drop(waiting);
        assert!(
            scheduler.turn(now_ms()).is_none(),
            "more of the kind is expected"
        );
    }
}
