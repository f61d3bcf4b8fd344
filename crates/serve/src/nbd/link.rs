//! Handles on connections: how others end one, and wait until it has ended.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::nbd::socket::{Peer, Socket};
use crate::nbd::stats::Tallies;

/// How long is waited at a time for one that was cut off to leave.
const LEAVE_TIME: Duration = Duration::from_millis(100);

static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

/// One connection, as others see it.
pub(crate) struct Link {
    number: u64,
    /// None where the peer is in this process, in tests.
    socket: Option<Arc<Socket>>,
    is_ending: AtomicBool,
    is_cut: AtomicBool,
    /// It has sent a request since it opened its export.
    has_asked: AtomicBool,
    pub(crate) tallies: Tallies,
}

impl Link {
    pub(crate) fn new(socket: Option<Arc<Socket>>) -> Link {
        Link {
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            socket,
            is_ending: AtomicBool::new(false),
            is_cut: AtomicBool::new(false),
            has_asked: AtomicBool::new(false),
            tallies: Tallies::default(),
        }
    }

    /// It has sent a request.
    pub(crate) fn note_request(&self) {
        // Loaded first: a cache line that is only read is not contended.
        if !self.has_asked.load(Ordering::Relaxed) {
            self.has_asked.store(true, Ordering::Relaxed);
        }
    }

    fn peer(&self) -> Peer {
        self.socket
            .as_ref()
            .map_or(Peer::Unknown, |socket| socket.peer())
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
    /// Signalled when a connection has left.
    left: Condvar,
}

#[derive(Default)]
struct LinksState {
    /// No more are let in.
    is_closed: bool,
    live: HashMap<u64, Member>,
}

/// One that is inside.
struct Member {
    link: Arc<Link>,
    peer: Peer,
    since: Instant,
}

impl Member {
    fn new(link: &Arc<Link>, peer: Peer) -> Member {
        Member {
            link: Arc::clone(link),
            peer,
            since: Instant::now(),
        }
    }
}

/// How many may be inside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) count_max: usize,
    /// Of one peer.
    pub(crate) peer_max: usize,
    /// One that has sent no request for so long since it connected makes way for another.
    pub(crate) silence: Duration,
}

/// What became of a connection that asked to be let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// It is inside.
    Joined,
    /// There are too many.
    Full,
    /// There are too many of the same peer.
    PeerFull,
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

impl LinksState {
    /// Cuts off the one that has been inside for longest and asked for nothing, if that is long
    /// enough; whether there is one that is going.
    fn cut_off_silent(&self, silence: Duration) -> bool {
        let is_silent = |member: &&Member| !member.link.has_asked.load(Ordering::Relaxed);
        let oldest = self
            .live
            .values()
            .filter(is_silent)
            .min_by_key(|member| member.since);
        match oldest {
            Some(member) if member.link.is_cut() => true,
            Some(member) if member.since.elapsed() >= silence => {
                tracing::info!("an NBD client that asks for nothing makes way for another");
                member.link.cut();
                true
            }
            _ => false,
        }
    }
}

impl Links {
    fn lock(&self) -> MutexGuard<'_, LinksState> {
        self.state.lock()
    }

    /// Lets a connection in; false once closed.
    pub(crate) fn join(&self, link: &Arc<Link>) -> bool {
        let mut state = self.lock();
        if state.is_closed {
            return false;
        }
        state
            .live
            .insert(link.number, Member::new(link, Peer::Unknown));
        true
    }

    /// As [`Links::join`], where no more than the limits say are inside afterwards. Where it is full,
    /// one that has been silent since it came in is cut off and its place waited for.
    pub(crate) fn join_below(&self, link: &Arc<Link>, limits: Limits) -> Entry {
        let peer = link.peer();
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return Entry::Closed;
            }
            let of_peer = state.live.values().filter(|member| member.peer == peer);
            if of_peer.count() >= limits.peer_max {
                return Entry::PeerFull;
            }
            if state.live.len() < limits.count_max {
                state.live.insert(link.number, Member::new(link, peer));
                return Entry::Joined;
            }
            if !state.cut_off_silent(limits.silence) {
                return Entry::Full;
            }
            self.left.wait_for(&mut state, LEAVE_TIME);
        }
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

    /// Cuts the oldest connection off and waits until one has left, if `count_max` are inside.
    pub(crate) fn make_room_below(&self, count_max: usize) {
        let mut state = self.lock();
        while state.live.len() >= count_max {
            if let Some(number) = state.live.keys().min() {
                state.live[number].link.cut();
            }
            self.left.wait(&mut state);
        }
    }

    /// Admits no further connections and asks those inside to end.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.each(Link::end);
    }

    pub(crate) fn each(&self, mut visit: impl FnMut(&Link)) {
        self.lock()
            .live
            .values()
            .for_each(|member| visit(&member.link));
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().live.len()
    }

    /// Waits until no connection is left; false if one is at the deadline.
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
            let hour = Duration::from_secs(3600);
            self.left.wait_for(&mut state, left.min(hour));
        }
        true
    }
}
