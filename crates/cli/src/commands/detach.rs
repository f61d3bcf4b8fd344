//! `forebay detach`: a disk of a running daemon is drained and let go.

use forebay_serve::Request;

use crate::arguments::DetachOptions;
use crate::failure::Failure;
use crate::{control, output};

/// Has the daemon drain the disk and forget it.
pub fn run(options: &DetachOptions) -> Result<(), Failure> {
    let mut client = control::connect(&options.pool)?;
    let request = Request::new("detach").with("volume", options.volume.clone());
    let result = control::ask_patiently(&mut client, &request)?;
    output::object(&result, options.json);
    Ok(())
}
