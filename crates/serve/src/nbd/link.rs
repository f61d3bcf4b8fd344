//! Handles on connections: how others end one, and wait until it has ended.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::nbd::socket::Socket;
use crate::nbd::stats::Tallies;

static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

/// One connection, as others see it.
pub(crate) struct Link {
    number: u64,
    /// None where the peer is in this process, in tests.
    socket: Option<Arc<Socket>>,
    is_ending: AtomicBool,
    is_cut: AtomicBool,
    pub(crate) tallies: Tallies,
}

impl Link {
    pub(crate) fn new(socket: Option<Arc<Socket>>) -> Link {
        Link {
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            socket,
            is_ending: AtomicBool::new(false),
            is_cut: AtomicBool::new(false),
            tallies: Tallies::default(),
        }
    }

    /// The socket, if the connection has one.
    pub(crate) fn socket(&self) -> Option<&Arc<Socket>> {
        self.socket.as_ref()
    }

    /// Asks the connection to end after the requests that have reached us.
    pub(crate) fn end(&self) {
        self.is_ending.store(true, Ordering::SeqCst);
        if let Some(socket) = &self.socket {
            socket.shutdown_read();
        }
    }

    /// Whether it was asked to end.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    /// Ends the connection: nothing is received or sent any more.
    pub(crate) fn cut(&self) {
        self.is_ending.store(true, Ordering::SeqCst);
        if let Some(socket) = &self.socket {
            socket.shutdown();
        }
        // Only now: what is given up for it must not be answered as if it were done.
        self.is_cut.store(true, Ordering::SeqCst);
    }

    /// Whether nothing can be sent any more.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::SeqCst)
    }
}

/// A set of connections that one can wait for.
#[derive(Default)]
pub(crate) struct Links {
    state: Mutex<LinksState>,
    /// Somebody has left.
    left: Condvar,
}

#[derive(Default)]
struct LinksState {
    /// No more are let in.
    is_closed: bool,
    live: HashMap<u64, Arc<Link>>,
}

/// What became of a connection that asked to be let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// It is inside.
    Joined,
    /// There are too many.
    Full,
    /// No more are let in.
    Closed,
}

/// A connection's place among the links, given up when this is dropped.
pub(crate) struct Membership {
    links: Arc<Links>,
    link: Arc<Link>,
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.links.leave(&self.link);
    }
}

impl fmt::Debug for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} connections", self.count())
    }
}

impl Links {
    fn lock(&self) -> MutexGuard<'_, LinksState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a connection in; false once closed.
    pub(crate) fn join(&self, link: &Arc<Link>) -> bool {
        let mut state = self.lock();
        if state.is_closed {
            return false;
        }
        state.live.insert(link.number, Arc::clone(link));
        true
    }

    /// As [`Links::join`], where no more than `count_max` are inside afterwards.
    pub(crate) fn join_below(&self, link: &Arc<Link>, count_max: usize) -> Entry {
        let mut state = self.lock();
        if state.is_closed {
            return Entry::Closed;
        }
        if state.live.len() >= count_max {
            return Entry::Full;
        }
        state.live.insert(link.number, Arc::clone(link));
        Entry::Joined
    }

    /// As [`Links::join`], until what is returned is dropped.
    pub(crate) fn enter(self: &Arc<Links>, link: &Arc<Link>) -> Option<Membership> {
        self.join(link).then(|| Membership {
            links: Arc::clone(self),
            link: Arc::clone(link),
        })
    }

    /// A connection that joined has ended.
    pub(crate) fn leave(&self, link: &Link) {
        let mut state = self.lock();
        state.live.remove(&link.number);
        self.left.notify_all();
    }

    /// Cuts the oldest off and waits until somebody has left, if so many are inside.
    pub(crate) fn make_room_below(&self, count_max: usize) {
        let mut state = self.lock();
        while state.live.len() >= count_max {
            if let Some(number) = state.live.keys().min() {
                state.live[number].cut();
            }
            state = self
                .left
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets nobody in any more and asks those inside to end.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.each(Link::end);
    }

    pub(crate) fn each(&self, mut visit: impl FnMut(&Link)) {
        self.lock().live.values().for_each(|link| visit(link));
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().live.len()
    }

    /// Waits until nobody is left; false if somebody is at the deadline.
    pub(crate) fn wait_for_none(&self, deadline: Duration) -> bool {
        let end = Instant::now().checked_add(deadline);
        let mut state = self.lock();
        while !state.live.is_empty() {
            let left = end.map_or(Duration::MAX, |end| {
                end.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                return false;
            }
            let (guard, _) = self
                .left
                .wait_timeout(state, left.min(Duration::from_secs(3600)))
                .unwrap_or_else(PoisonError::into_inner);
            state = guard;
        }
        true
    }
}
