//! `forebay scrub`: a daemon reads everything in its pool, and repairs what it can.

use std::path::Path;

use forebay_command::{Failure, output};
use forebay_serve::Request;

use crate::arguments::ScrubAction;
use crate::control;
use crate::requests::{ScrubStart, ScrubStatus, ScrubStop};

/// Does what was asked.
pub fn run(action: &ScrubAction) -> Result<(), Failure> {
    match action {
        ScrubAction::Start(options) => {
            let (rate, restart) = (options.rate, options.restart);
            let request = Request::of(&ScrubStart { rate, restart });
            ask(&options.pool, &request, options.json).map(drop)
        }
        ScrubAction::Stop(options) => {
            ask(&options.pool, &Request::of(&ScrubStop {}), options.json).map(drop)
        }
        ScrubAction::Status(options) => {
            let request = Request::of(&ScrubStatus {});
            match ask(&options.pool, &request, options.json)? {
                0 => Ok(()),
                lost => Err(Failure::Damaged(format!(
                    "{lost} blocks have no copy that is right; overwrite them or restore them from a backup"
                ))),
            }
        }
    }
}

/// Asks and prints; how many blocks are lost.
fn ask(pool: &Path, request: &Request, json: bool) -> Result<u64, Failure> {
    let status = control::ask(pool, request)?;
    output::object(&status, json);
    Ok(status["lost"].as_u64().unwrap_or(0))
}
