//! Which of the session's threads wait for requests: one, unless it does not keep up.
//!
//! The kernel wakes the thread that has waited longest, so with several each request goes to the one
//! whose caches are coldest, often on a core that sleeps. All but one therefore rest after a request
//! (which is answered by then); one of these looks now and then whether requests lie unread, and polls
//! for a while if they do.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::clock::now_ms;

/// How often the resting threads look.
const LOOK_INTERVAL: Duration = Duration::from_millis(25);

/// Requests that lie unread at so many looks in close succession are too many for those that poll.
const LOOKS: usize = 3;
const LOOKS_INTERVAL: Duration = Duration::from_millis(1);

/// How long a thread that was needed stays.
const TERM_MS: u64 = 1000;

thread_local! {
    /// Until when this thread is needed.
    static TERM_ENDS_MS: Cell<u64> = const { Cell::new(0) };
}

/// See the module.
#[derive(Debug)]
pub struct PollerThrottle {
    /// The session's device, once there is a session.
    device: OnceLock<OwnedFd>,
    /// Threads that wait for requests or serve one; never none.
    polling: AtomicUsize,
    /// Held by the resting thread that looks.
    lookout: Mutex<()>,
}

impl PollerThrottle {
    /// For a session of `threads` threads, all polling.
    pub fn new(threads: usize) -> PollerThrottle {
        PollerThrottle {
            device: OnceLock::new(),
            polling: AtomicUsize::new(threads.max(1)),
            lookout: Mutex::new(()),
        }
    }

    /// Enables resting, which needs a way to see unread requests.
    pub fn begin(&self, device: OwnedFd) {
        // There is one session.
        let _ = self.device.set(device);
    }

    /// Called by a thread of the session when it has answered a request: returns when it is to wait for
    /// the next one.
    pub fn rest(&self) {
        if self.polling.load(Ordering::Relaxed) == 1 || now_ms() < TERM_ENDS_MS.get() {
            return;
        }
        let Some(device) = self.device.get() else {
            return;
        };
        let leave = |polling: usize| (polling > 1).then(|| polling - 1);
        let left = self
            .polling
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, leave);
        if left.is_err() {
            return;
        }
        let lookout = self.lookout.lock();
        while !is_needed(device) {
            std::thread::sleep(LOOK_INTERVAL);
        }
        self.polling.fetch_add(1, Ordering::Relaxed);
        drop(lookout);
        TERM_ENDS_MS.set(now_ms() + TERM_MS);
    }
}

/// Whether requests lie unread for longer than a polling thread needs, or the session is over.
fn is_needed(device: &OwnedFd) -> bool {
    for look in 0..LOOKS {
        if look > 0 {
            std::thread::sleep(LOOKS_INTERVAL);
        }
        let mut wanted = [PollFd::new(device, PollFlags::IN)];
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        match poll(&mut wanted, Some(&at_once)) {
            Ok(0) => return false,
            Ok(_) if wanted[0].revents() == PollFlags::IN => {}
            // The mount has ended, or polling fails: the thread finds out by reading.
            Ok(_) | Err(_) => return true,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn one_thread_stays_and_another_comes_when_requests_lie_unread() {
        let (requests, mut kernel) = std::io::pipe().unwrap();
        let throttle = Arc::new(PollerThrottle::new(2));
        throttle.rest();
        assert_eq!(
            throttle.polling.load(Ordering::Relaxed),
            2,
            "no session yet"
        );
        throttle.begin(OwnedFd::from(requests));
        let resting = std::thread::spawn({
            let throttle = Arc::clone(&throttle);
            move || throttle.rest()
        });
        while throttle.polling.load(Ordering::Relaxed) == 2 {
            std::thread::yield_now();
        }
        throttle.rest();
        assert!(!resting.is_finished(), "the last one does not rest");
        std::io::Write::write_all(&mut kernel, b"request").unwrap();
        resting.join().unwrap();
        assert_eq!(throttle.polling.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn all_threads_wake_when_the_session_is_over() {
        let (requests, kernel) = std::io::pipe().unwrap();
        let throttle = Arc::new(PollerThrottle::new(4));
        throttle.begin(OwnedFd::from(requests));
        let resting: Vec<_> = (0..3)
            .map(|_| {
                let throttle = Arc::clone(&throttle);
                std::thread::spawn(move || throttle.rest())
            })
            .collect();
        drop(kernel);
        resting
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    }
}
