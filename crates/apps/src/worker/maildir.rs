//! Mail as it is delivered to a maildir: written to `tmp`, synced, moved to `new`, whose names are then synced.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::outcome::Outcome;
use forebay_harness::Result;

const MESSAGE_BYTES: usize = 8 << 10;

/// Delivers for so long, and counts what is there at the end.
///
/// Errors: a call fails; another number of messages is there than was delivered.
pub fn run(directory: &Path, seconds: f64) -> Result<Outcome> {
    let [tmp, new] = ["tmp", "new"].map(|name| directory.join(name));
    std::fs::create_dir(&tmp)?;
    std::fs::create_dir(&new)?;
    let names = File::open(&new)?;
    let message = [b'm'; MESSAGE_BYTES];
    let length = Duration::from_secs_f64(seconds);
    let mut delivered = 0_usize;
    let began = Instant::now();
    while began.elapsed() < length {
        let name = format!("{delivered}.forebay");
        let mut file = File::create_new(tmp.join(&name))?;
        file.write_all(&message)?;
        file.sync_all()?;
        drop(file);
        std::fs::rename(tmp.join(&name), new.join(&name))?;
        names.sync_all()?;
        delivered += 1;
    }
    let rate = delivered as f64 / began.elapsed().as_secs_f64();
    let there = std::fs::read_dir(&new)?.count();
    if there != delivered {
        return Err(format!("{there} messages, delivered {delivered}").into());
    }
    Ok(Outcome::rate("maildir", rate, "messages/s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_delivered() {
        let folder = tempfile::tempdir().expect("a folder");
        let outcome = run(folder.path(), 0.01).expect("it runs");
        assert_eq!(outcome.rows[0].name, "maildir");
        let new = std::fs::read_dir(folder.path().join("new")).expect("there");
        assert!(new.count() > 0);
    }
}
