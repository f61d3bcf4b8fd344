//! What a guest does to a file system while its power may fail, and what has to be there afterwards.
//!
//! Each thread of the load works in a folder of its own on a stream of steps that its seed alone
//! decides. A step counts as acknowledged when its fsync has returned; its number is then reported to
//! the host, before the next step begins. So a number a thread has reported says all that it had been
//! promised, and at most one step more had been begun.

pub mod load;
pub mod pool;
mod steps;
pub mod verify;

pub use steps::{Change, Step, Stream};

use std::path::{Path, PathBuf};

use crate::Result;

/// Where thread `thread` reports.
pub fn report_path(folder: &Path, thread: u32) -> PathBuf {
    folder.join(format!("acknowledged-{thread}"))
}

/// How many steps each of `threads` threads has reported to `folder` so far.
pub fn read_reports(folder: &Path, threads: u32) -> Result<Vec<u64>> {
    (0..threads)
        .map(|thread| {
            let path = report_path(folder, thread);
            let text = match std::fs::read_to_string(&path) {
                Ok(text) => text,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
                Err(error) => return Err(format!("{}: {error}", path.display()).into()),
            };
            // A last line that is not whole was not reported yet.
            let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
            let last = whole.rsplit('\n').next().unwrap_or_default();
            match last.is_empty() {
                true => Ok(0),
                false => Ok(last.parse()?),
            }
        })
        .collect()
}

/// The folder in which a thread works.
pub fn thread_folder(folder: &Path, thread: u32) -> PathBuf {
    folder.join(format!("thread-{thread}"))
}

/// The name of a file.
pub fn file_name(file: u32) -> String {
    format!("file-{file}")
}

/// What a file is written as before it is renamed over one.
pub const TEMPORARY_NAME: &str = "temporary";
