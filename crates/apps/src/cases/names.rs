//! Work on names and attributes: many small files, mail, version control, copies that are synced.

use std::time::Instant;

use forebay_harness::{Result, Row};
use rustix::process::{Resource, getrlimit};

use crate::context::program;
use crate::outcome::Outcome;
use crate::place::{Place, Session};
use crate::worker::Task;

/// What a mount costs, and what Forebay adds to it.
pub const SMALL_FILES: &[Place] = &[Place::DiskUnsynced, Place::Passthrough, Place::Mount];
/// What a sync costs on the disk itself, and on the mount.
pub const ATTRIBUTES: &[Place] = &[Place::Disk, Place::Mount];

/// Descriptors that are left for all else.
const OTHER_DESCRIPTORS: usize = 1000;
const COPIED_FILE_BYTES: usize = 8 << 10;

/// 50,000 of them, created and removed; fewer where the plain mount cannot have a descriptor of each.
pub fn small_files(session: &Session<'_>) -> Result<Outcome> {
    let most = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let files = session.context.pace.small_files;
    let files = files.min((most as usize).saturating_sub(OTHER_DESCRIPTORS));
    let outcome = session.measure(&Task::Names {
        directory: session.data(),
        files,
    })?;
    let counted = Outcome {
        rows: vec![Row::new("small_files", files as f64, "files")],
        curves: Vec::new(),
    };
    Ok(outcome.and(counted))
}

/// Messages delivered one after the other.
pub fn maildir(session: &Session<'_>) -> Result<Outcome> {
    session.measure(&Task::Maildir {
        directory: session.data(),
        seconds: session.context.pace.seconds,
    })
}

/// Syncs after an attribute was changed, and after none.
pub fn attributes(session: &Session<'_>) -> Result<Outcome> {
    session.measure(&Task::Attributes {
        file: session.data().join("attributes"),
        seconds: session.context.pace.seconds,
    })
}

/// Commits one after the other.
pub fn git(session: &Session<'_>) -> Result<Outcome> {
    session.measure(&Task::Git {
        program: program("git")?,
        repository: session.data().join("repository"),
        seconds: session.context.pace.seconds,
    })
}

/// A tree of small files in memory copied by `rsync --fsync`.
pub fn rsync(session: &Session<'_>) -> Result<Outcome> {
    let source = session.scratch("source");
    let files = session.context.pace.copied_files;
    for number in 0..files {
        let folder = source.join(format!("folder-{}", number / 100));
        std::fs::create_dir_all(&folder)?;
        let content = vec![number as u8; COPIED_FILE_BYTES];
        std::fs::write(folder.join(format!("file-{number}")), content)?;
    }
    let copy = session.data().join("copy");
    let mut command = session.command(&program("rsync")?, 0)?;
    command.args(["-a", "--fsync"]).arg(source.join(""));
    command.arg(&copy);
    let began = Instant::now();
    session.output(command)?;
    let rate = files as f64 / began.elapsed().as_secs_f64();
    let last = copy.join(format!("folder-{}/file-{}", (files - 1) / 100, files - 1));
    let there = std::fs::read(last)?;
    if there != vec![(files - 1) as u8; COPIED_FILE_BYTES] {
        return Err(format!("the last file has {} bytes, other ones", there.len()).into());
    }
    std::fs::remove_dir_all(source)?;
    Ok(Outcome::rate("rsync_fsync", rate, "files/s"))
}
