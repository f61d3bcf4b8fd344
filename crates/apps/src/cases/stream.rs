//! One file appended far past the pool, until all of it is in the backing: nothing is faster than the
//! backing then, and it should be hardly slower.

use crate::Result;
use crate::outcome::Outcome;
use crate::place::{Place, Session};

/// The disk without a sync but the last is what the others are compared with.
pub const PLACES: &[Place] = &[Place::DiskUnsynced, Place::Mount, Place::Preload];

/// Errors: the writer's.
pub fn run(session: &Session<'_>) -> Result<Outcome> {
    let mut command = session.command(&session.context.own)?;
    command
        .args(["worker", "stream", "--file"])
        .arg(session.data().join("stream"))
        .args(["--bytes", &session.context.pace.stream_bytes.to_string()]);
    if session.place == Place::DiskUnsynced {
        command.arg("--unsynced");
    }
    Outcome::from_json(&session.output(command)?)
}
