//! The paper's microbenchmark: threads append to, or write at random in, private files, each write durable
//! before the next. The same bytes copied to memory without any file are the floor of all of it.

use crate::Result;
use crate::outcome::Outcome;
use crate::place::{Place, Session};

/// Also on the disk without a sync, as the paper has it.
pub const PLACES: &[Place] = &[
    Place::Disk,
    Place::DiskUnsynced,
    Place::Tmpfs,
    Place::Raw,
    Place::Mount,
    Place::Preload,
];

/// Every pattern, size and number of threads.
///
/// Errors: the writer's.
pub fn run(session: &Session<'_>) -> Result<Outcome> {
    let pace = &session.context.pace;
    let counts: Vec<String> = pace.thread_counts().iter().map(usize::to_string).collect();
    let mut command = session.command(&session.context.own)?;
    command
        .args(["worker", "small-writes", "--directory"])
        .arg(session.data())
        .args(["--seconds", &pace.write_seconds.to_string()])
        .args(["--append-bytes", &pace.append_bytes.to_string()])
        .args(["--file-bytes", &pace.file_bytes.to_string()])
        .args(["--threads", &counts.join(",")]);
    match session.place {
        Place::DiskUnsynced => drop(command.arg("--unsynced")),
        Place::Raw => drop(command.arg("--raw")),
        _ => {}
    }
    if let Some(server) = session.server() {
        command.args(["--server", &server.to_string()]);
    }
    Outcome::from_json(&session.output(command)?)
}
