//! Small writes that are not synced, from the beginning of a file to its end, again and again.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::outcome::Outcome;
use forebay_harness::Result;

const PIECE_BYTES: usize = 4 << 10;
/// Pieces between two looks at the clock.
const BATCH: u64 = 64;

/// Writes for so long; the close is part of it.
pub fn run(path: &Path, file_bytes: u64, seconds: f64) -> Result<Outcome> {
    let file = File::create_new(path)?;
    let piece = [0x33_u8; PIECE_BYTES];
    let pieces = file_bytes / PIECE_BYTES as u64;
    let length = Duration::from_secs_f64(seconds);
    let mut written = 0;
    let began = Instant::now();
    while began.elapsed() < length {
        for _ in 0..BATCH {
            let place = written % pieces * PIECE_BYTES as u64;
            file.write_all_at(&piece, place)?;
            written += 1;
        }
    }
    drop(file);
    let rate = written as f64 / began.elapsed().as_secs_f64();
    std::fs::remove_file(path)?;
    Ok(Outcome::rate("buffered_4k", rate, "writes/s"))
}
