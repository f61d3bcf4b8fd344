//! Programs of our own, each a process whose files are those of the place: small writes as the paper has them,
//! writes without a sync, appends past the pool, and SQLite.

use forebay_harness::Result;

use crate::outcome::Outcome;
use crate::place::{Place, Session};
use crate::worker::{Task, small_writes, sync_4k as synced};

/// Where small writes go: also to the disk without a sync, as the paper has it, and to memory without any file,
/// the floor of all of it.
pub const SMALL_WRITES: &[Place] = &[
    Place::Disk,
    Place::DiskUnsynced,
    Place::Tmpfs,
    Place::Raw,
    Place::Mount,
    Place::Preload,
];

/// What a mount costs, and what Forebay adds to it.
pub const BUFFERED: &[Place] = &[
    Place::DiskUnsynced,
    Place::Tmpfs,
    Place::Passthrough,
    Place::Mount,
    Place::Preload,
];

/// The disk without a sync but the last is what the others are compared with: nothing is faster than the
/// backing, and it should be hardly slower.
pub const STREAM: &[Place] = &[Place::DiskUnsynced, Place::Mount, Place::Preload];

/// What the disks themselves take for a sync, and the pool in front of them.
pub const SYNCED: &[Place] = &[
    Place::Disk,
    Place::MountSsd,
    Place::SlowDisk,
    Place::SlowDiskMountSsd,
];

/// The paper's microbenchmark: threads append to, or write at random in, private files, each write durable
/// before the next, with every pattern, size and number of threads.
pub fn small_writes(session: &Session<'_>) -> Result<Outcome> {
    let pace = &session.context.pace;
    session.measure(&Task::SmallWrites(small_writes::Plan {
        directory: session.data(),
        seconds: pace.write_seconds,
        append_bytes: pace.append_bytes,
        file_bytes: pace.file_bytes,
        thread_counts: pace.thread_counts(),
        is_synced: session.place != Place::DiskUnsynced,
        is_raw: session.place == Place::Raw,
        server: session.server(),
    }))
}

/// Buffered writes that are never synced: they should be as fast as through a mount that does nothing.
pub fn buffered(session: &Session<'_>) -> Result<Outcome> {
    let pace = &session.context.pace;
    session.measure(&Task::Buffered {
        file: session.data().join("buffered"),
        file_bytes: pace.file_bytes,
        seconds: pace.seconds,
    })
}

/// One file appended far past the pool, until all of it is in the backing.
pub fn stream(session: &Session<'_>) -> Result<Outcome> {
    session.measure(&Task::Stream {
        file: session.data().join("stream"),
        bytes: session.context.pace.stream_bytes,
        is_synced: session.place != Place::DiskUnsynced,
    })
}

/// SQLite with `synchronous=FULL`, each row a transaction of its own: with a rollback journal, and with a
/// write-ahead log.
pub fn sqlite(session: &Session<'_>) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for journal in ["delete", "wal"] {
        let task = Task::Sqlite {
            file: session.data().join(journal),
            journal: journal.into(),
            seconds: session.context.pace.seconds,
        };
        outcome = outcome.and(session.measuring(|| session.measure(&task))?);
    }
    Ok(outcome)
}

/// Blocks of a file that is there, each durable before the next.
pub fn sync_4k(session: &Session<'_>) -> Result<Outcome> {
    let file = session.data().join("synced");
    synced::make(&file)?;
    let seconds = session.context.pace.seconds;
    let task = Task::Sync4k { file, seconds };
    session.measuring(|| session.measure(&task))
}
