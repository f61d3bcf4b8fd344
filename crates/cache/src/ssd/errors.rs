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
