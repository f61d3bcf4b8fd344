//! `forebay set`: settings of a running daemon.

use forebay_command::{Failure, output};
use forebay_serve::Request;

use crate::arguments::SetOptions;
use crate::control;

/// Changes what was named, and shows what is in force.
pub fn run(options: &SetOptions) -> Result<(), Failure> {
    let result = control::ask(&options.pool, &Request::of(&options.tunables))?;
    output::object(&result, options.json);
    Ok(())
}
