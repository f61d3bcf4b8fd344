//! Asking the daemon that serves a pool.

use std::path::Path;

use forebay_command::Failure;
use forebay_serve::{Client, Request, control_path};
use serde_json::Value;

/// Connects to the daemon that serves the pool with this first member.
///
/// # Errors
/// No daemon does, or it cannot be asked.
pub fn connect(pool: &Path) -> Result<Client, Failure> {
    Client::connect(&control_path(pool))?.ok_or_else(|| {
        Failure::NotServed(format!(
            "no daemon serves {}; start one with forebay serve, or look at the idle pool with forebay info",
            pool.display()
        ))
    })
}

/// Asks for something that is done at once.
///
/// # Errors
/// No daemon serves the pool, or the daemon refuses.
pub fn ask(pool: &Path, request: &Request) -> Result<Value, Failure> {
    Ok(connect(pool)?.request(request, |_| true)?)
}
