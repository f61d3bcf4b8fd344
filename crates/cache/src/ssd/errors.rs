//! What the log says went wrong, in the words of the library.

use std::path::Path;

use forebay_log::LogError;

use crate::error::{Error, ErrorKind, refused};

/// An error that concerns no volume's backing.
pub(super) fn of_log(error: LogError) -> Error {
    match error {
        LogError::Device {
            path,
            action,
            source,
        } => ErrorKind::Device {
            path,
            action,
            source,
        }
        .into(),
        LogError::Unsuitable { path, reason } => of_reason(&path, &reason),
        LogError::InUse { path } => ErrorKind::InUse { path }.into(),
        LogError::NoPool { path, found } => refused(
            &path,
            format!("no pool on an SSD is here: {found}"),
            "make one, or name the right device",
        ),
        LogError::Damaged { path, found } => refused(
            &path,
            format!("the pool is damaged: {found}"),
            "nothing was changed: look at the device, or restore the pool from a copy",
        ),
        LogError::Poisoned { path, .. } => ErrorKind::Poisoned { path }.into(),
        LogError::Transaction(why) => ErrorKind::Volume(why).into(),
        // Those of a volume are given its names before they come here.
        other => ErrorKind::Volume(other.to_string()).into(),
    }
}

/// What was found and what to do stand in one sentence of the log's.
fn of_reason(path: &Path, reason: &str) -> Error {
    let (found, todo) = reason
        .split_once("; ")
        .unwrap_or((reason, "choose another file, or another size"));
    refused(path, found, todo)
}

/// Where a copy does not attach since the pool has no room to let go of what was clean: what makes some.
pub(super) fn no_room_for_copy(path: &Path, free_segments: u64, error: Error) -> Error {
    if !matches!(
        error.kind(),
        ErrorKind::Stalled { .. } | ErrorKind::NoSpace { .. }
    ) {
        return error;
    }
    ErrorKind::Volume(format!(
        "{}: it is another file than the pool had, or an older state of it, so the pool has to let go of what it has clean, and has \
         no room to record that ({free_segments} of its segments free); nothing was changed. Attach the file as the pool had it, or another \
         disk whose blocks fill the pool; or give this disk's unwritten blocks up (forebay detach --discard-unwritten) and attach it anew. \
         ({error})",
        path.display()
    ))
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_without_room_is_told_what_makes_some_and_other_errors_stay() {
        let told =
            |kind: ErrorKind| no_room_for_copy(Path::new("/disk"), 1, kind.into()).to_string();
        let stalled = told(ErrorKind::Stalled {
            waited_ms: 7,
            dirty_blocks: 3,
            reason: "it is not attached".into(),
        });
        for part in [
            "/disk: ",
            "1 of its segments free",
            "nothing was changed",
            "--discard-unwritten",
        ] {
            assert!(stalled.contains(part), "{stalled}");
        }
        assert_eq!(told(ErrorKind::Volume("gone".into())), "volume: gone");
    }
}
