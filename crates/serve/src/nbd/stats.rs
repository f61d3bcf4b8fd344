//! What a server and its connections have done.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// Counts of one server since it started; `connections_open` and `requests_in_flight` are of now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NbdStats {
    /// Clients connected, those in the handshake included.
    pub connections_open: u64,
    /// Connections accepted.
    pub connections_total: u64,
    /// Requests for an export turned away because there were too many connections.
    pub connections_refused: u64,
    /// Connections that ended in the handshake without a request for an export.
    pub handshakes_failed: u64,
    /// Times that accept failed, for want of file descriptors for example.
    pub accept_errors: u64,
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
    /// Trim and write-zeroes requests.
    pub zeroings: u64,
    /// All other requests: block status, cache, and those that are not known.
    pub others: u64,
    /// Requests answered with an error.
    pub errors: u64,
}

macro_rules! tallies {
    ($($name:ident),+ $(,)?) => {
        /// The counts that requests change, one set a connection, so that connections share no line.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub(crate) struct Tallies {
            $(pub(crate) $name: AtomicU64,)+
        }

        impl Tallies {
            /// Adds what was counted here to `stats`.
            pub(crate) fn add_to(&self, stats: &mut NbdStats) {
                $(stats.$name += self.$name.load(Ordering::Relaxed);)+
            }

            /// Adds what was counted here to `other`.
            pub(crate) fn fold_into(&self, other: &Tallies) {
                $(other.$name.fetch_add(self.$name.load(Ordering::Relaxed), Ordering::Relaxed);)+
            }
        }
    };
}

tallies!(
    requests_in_flight,
    reads,
    read_bytes,
    writes,
    written_bytes,
    flushes,
    zeroings,
    others,
    errors,
);

/// One more.
pub(crate) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}
