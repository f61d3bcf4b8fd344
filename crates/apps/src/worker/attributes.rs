//! What a change of an attribute before a write costs the sync after it.

use std::fs::{File, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use forebay_harness::{Result, Row, median};
use rustix::fs::{XattrFlags, fsetxattr};

use crate::outcome::Outcome;

const PIECE_BYTES: usize = 4096;
/// Rounds before the clock runs: the file becomes one that is synced.
const ROUNDS_BEFORE: u32 = 32;

/// What happens to the file before it is written.
#[derive(Clone, Copy)]
enum Change {
    Nothing,
    Attribute,
    Mode,
}

impl Change {
    const ALL: [(Change, &'static str); 3] = [
        (Change::Nothing, "fsync_plain"),
        (Change::Attribute, "fsync_after_setxattr"),
        (Change::Mode, "fsync_after_chmod"),
    ];

    fn make(self, file: &File, round: u32) -> Result<()> {
        match self {
            Change::Nothing => {}
            Change::Attribute => {
                let value = round.to_le_bytes();
                fsetxattr(file, c"user.forebay.round", &value, XattrFlags::empty())?;
            }
            Change::Mode => {
                let mode = 0o600 + (round % 2) * 0o40;
                file.set_permissions(Permissions::from_mode(mode))?;
            }
        }
        Ok(())
    }
}

/// Writes 4 KiB and syncs for so long, in turn after each change; of each the median of the syncs alone.
///
/// Errors: a call fails, also where the file system has no user attributes.
pub fn run(path: &Path, seconds: f64) -> Result<Outcome> {
    let file = File::create_new(path)?;
    let piece = [0x11; PIECE_BYTES];
    let length = Duration::from_secs_f64(seconds);
    let mut latencies_ns = Change::ALL.map(|_| Vec::new());
    let began = Instant::now();
    let mut round = 0;
    while round <= ROUNDS_BEFORE || began.elapsed() < length {
        for ((change, _), latencies_ns) in Change::ALL.iter().zip(&mut latencies_ns) {
            change.make(&file, round)?;
            file.write_all_at(&piece, 0)?;
            let before = Instant::now();
            file.sync_all()?;
            if round >= ROUNDS_BEFORE {
                latencies_ns.push(before.elapsed().as_nanos() as f64);
            }
        }
        round += 1;
    }
    let rows = Change::ALL.iter().zip(latencies_ns);
    Ok(Outcome {
        rows: rows
            .map(|((_, name), latencies_ns)| Row::new(*name, median(latencies_ns), "ns"))
            .collect(),
        curves: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_measured() {
        let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
        let outcome = run(&folder.path().join("file"), 0.01).expect("it runs");
        let names = outcome.rows.iter().map(|row| row.name.as_str());
        assert_eq!(
            names.collect::<Vec<_>>(),
            ["fsync_plain", "fsync_after_setxattr", "fsync_after_chmod"]
        );
        assert!(outcome.rows.iter().all(|row| row.value.is_some()));
    }
}
