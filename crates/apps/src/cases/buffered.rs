//! Buffered writes that are never synced: they should be as fast as through a mount that does nothing at
//! all.

use crate::Result;
use crate::outcome::Outcome;
use crate::place::{Place, Session};

/// What a mount costs, and what Forebay adds to it.
pub const PLACES: &[Place] = &[
    Place::DiskUnsynced,
    Place::Tmpfs,
    Place::Passthrough,
    Place::Mount,
    Place::Preload,
];

/// Errors: the writer's.
pub fn run(session: &Session<'_>) -> Result<Outcome> {
    let pace = &session.context.pace;
    let mut command = session.command(&session.context.own)?;
    command
        .args(["worker", "buffered", "--file"])
        .arg(session.data().join("buffered"))
        .args(["--file-bytes", &pace.file_bytes.to_string()])
        .args(["--seconds", &pace.seconds.to_string()]);
    Outcome::from_json(&session.output(command)?)
}
