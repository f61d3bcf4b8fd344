//! One file appended piece by piece, each durable before the next or all at the end.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use crate::outcome::Outcome;
use forebay_harness::Result;

const PIECE_BYTES: usize = 64 << 10;

/// Writes `bytes` and syncs, after each piece if `is_synced` and once at the end.
pub fn run(path: &Path, bytes: u64, is_synced: bool) -> Result<Outcome> {
    let mut file = File::create_new(path)?;
    let piece: Vec<u8> = (0..PIECE_BYTES)
        .map(|index| (index * 31 % 251) as u8)
        .collect();
    let pieces = bytes / PIECE_BYTES as u64;
    let began = Instant::now();
    for _ in 0..pieces {
        file.write_all(&piece)?;
        if is_synced {
            file.sync_data()?;
        }
    }
    file.sync_all()?;
    let seconds = began.elapsed().as_secs_f64();
    drop(file);
    let there = std::fs::metadata(path)?.len();
    let written = pieces * PIECE_BYTES as u64;
    if there != written {
        return Err(format!("{}: {there} bytes, wrote {written}", path.display()).into());
    }
    std::fs::remove_file(path)?;
    let rate = written as f64 / seconds / f64::from(1 << 20);
    Ok(Outcome::rate("append_past_pool", rate, "MiB/s"))
}
