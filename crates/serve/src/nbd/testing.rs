//! One connection over any transport, for tests and fuzz targets.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::nbd::connection;
use crate::nbd::exports::Exports;
use crate::nbd::handshake::{Handshake, Outcome, Security};
use crate::nbd::link::Link;
use crate::nbd::memory::Memory;
use crate::nbd::transport::Transport;

/// For requests; more than one connection ever takes.
const MEMORY_BYTES: u64 = 1 << 30;

/// Serves one client as a server without TLS would, its slow requests on `workers` workers. False
/// where it opened no export.
///
/// # Errors
/// The handshake broke the protocol, or the transport failed in it.
pub fn serve_one(exports: &Exports, transport: &dyn Transport, workers: usize) -> io::Result<bool> {
    let link = Arc::new(Link::new(None));
    let mut handshake = Handshake {
        exports,
        link: &link,
        admit: &|| Ok(()),
        security: Security::Plain,
        no_zeroes: false,
    };
    handshake.greet(transport)?;
    let Outcome::Open(negotiated) = handshake.negotiate(transport)? else {
        return Ok(false);
    };
    let memory = Memory::new(MEMORY_BYTES, Duration::MAX);
    connection::serve(transport, &negotiated, workers, &memory);
    transport.finish();
    Ok(true)
}
