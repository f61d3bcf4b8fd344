//! `forebay stat`: the counters of a running daemon.

use forebay_command::{Failure, output};
use forebay_serve::Request;

use crate::arguments::DaemonArgument;
use crate::control;
use crate::requests::Stat;

/// Asks the daemon that serves the pool.
pub fn run(options: &DaemonArgument) -> Result<(), Failure> {
    let result = control::ask(&options.pool, &Request::of(&Stat {}))?;
    output::object(&result, options.json);
    Ok(())
}
