//! One connection over any transport, for tests and fuzz targets.

use std::io;
use std::sync::Arc;

use crate::nbd::connection;
use crate::nbd::exports::Exports;
use crate::nbd::handshake::{Handshake, Outcome, Security};
use crate::nbd::link::Link;
use crate::nbd::transport::Transport;

/// Serves one client as a server without TLS would, its slow requests on so many workers. False
/// where it opened no export.
///
/// # Errors
/// The handshake broke the protocol, or the transport failed in it.
pub fn serve_one(exports: &Exports, transport: &dyn Transport, workers: usize) -> io::Result<bool> {
    let link = Arc::new(Link::new(None));
    let mut handshake = Handshake {
        exports,
        link: &link,
        refusal: None,
        security: Security::Plain,
        no_zeroes: false,
    };
    handshake.greet(transport)?;
    let Outcome::Open(negotiated) = handshake.negotiate(transport)? else {
        return Ok(false);
    };
    connection::serve(transport, &negotiated, workers);
    transport.finish();
    Ok(true)
}
