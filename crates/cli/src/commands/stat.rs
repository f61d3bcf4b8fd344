//! `forebay stat`: the counters of a running daemon.

use crate::arguments::DaemonArgument;
use crate::failure::Failure;
use crate::output;

/// Asks the daemon that serves the pool.
pub fn run(options: &DaemonArgument) -> Result<(), Failure> {
    let path = forebay_serve::control_path(&options.pool);
    match forebay_serve::request(&path, "stat")? {
        Some(Ok(result)) => {
            output::object(&result, options.json);
            Ok(())
        }
        Some(Err(message)) => Err(Failure::Failed(message)),
        None => Err(Failure::NotServed(format!(
            "no daemon serves {}; start one with forebay serve, or look at the idle pool with forebay info",
            options.pool.display()
        ))),
    }
}
