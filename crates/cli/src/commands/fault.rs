//! `forebay fault`: something breaks in a test pool that a daemon serves.

use forebay_command::{Failure, output};
use forebay_serve::Request;

use crate::arguments::FaultOptions;
use crate::control;

/// Makes the daemon break it.
pub fn run(options: &FaultOptions) -> Result<(), Failure> {
    let result = control::ask(&options.pool, &Request::of(&options.fault))?;
    output::object(&result, options.json);
    Ok(())
}
