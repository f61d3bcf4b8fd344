//! What a server and the queues of its clients have done.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// Counts of one server since it started; `connected` and `requests_in_flight` are of now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VhostUserStats {
    /// Whether a client is connected, as 0 or 1.
    #[serde(rename = "connections_open")]
    pub connected: u64,
    /// Clients accepted.
    pub connections_total: u64,
    /// Connections that ended because the client broke the protocol.
    pub protocol_errors: u64,
    /// Times that accept failed, for want of file descriptors for example.
    pub accept_errors: u64,
    /// Queues stopped because what the guest put into them is malformed.
    pub queues_broken: u64,
    /// Requests that workers have not answered yet.
    pub requests_in_flight: u64,
    /// Read requests.
    pub reads: u64,
    /// Bytes answered to them.
    pub read_bytes: u64,
    /// Write requests.
    pub writes: u64,
    /// Bytes they brought.
    pub written_bytes: u64,
    /// Flush requests.
    pub flushes: u64,
    /// Discard and write-zeroes requests.
    pub zeroings: u64,
    /// All other requests: for the serial number, and those that are not known.
    pub others: u64,
    /// Requests answered with an error.
    pub errors: u64,
    /// Times that a guest was interrupted for answers.
    pub notifications: u64,
}

/// The same counts while they change.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    pub(crate) connected: AtomicU64,
    pub(crate) connections_total: AtomicU64,
    pub(crate) protocol_errors: AtomicU64,
    pub(crate) accept_errors: AtomicU64,
    pub(crate) queues_broken: AtomicU64,
    pub(crate) requests_in_flight: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) read_bytes: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
    pub(crate) flushes: AtomicU64,
    pub(crate) zeroings: AtomicU64,
    pub(crate) others: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) notifications: AtomicU64,
}

impl Tallies {
    pub(crate) fn snapshot(&self) -> VhostUserStats {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        VhostUserStats {
            connected: load(&self.connected),
            connections_total: load(&self.connections_total),
            protocol_errors: load(&self.protocol_errors),
            accept_errors: load(&self.accept_errors),
            queues_broken: load(&self.queues_broken),
            requests_in_flight: load(&self.requests_in_flight),
            reads: load(&self.reads),
            read_bytes: load(&self.read_bytes),
            writes: load(&self.writes),
            written_bytes: load(&self.written_bytes),
            flushes: load(&self.flushes),
            zeroings: load(&self.zeroings),
            others: load(&self.others),
            errors: load(&self.errors),
            notifications: load(&self.notifications),
        }
    }
}

/// So many more.
pub(crate) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}
