//! What a sync costs: 4 KiB anywhere in a file that is all there, and `fdatasync` after each, so that the disk gets those
//! 4 KiB and nothing of the file system's.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use forebay_harness::choice::{Choice, Law};
use forebay_harness::{Result, Row};

use crate::outcome::{Curve, Outcome};

const PIECE_BYTES: usize = 4 << 10;
const FILE_PIECES: u64 = 16 << 10;
/// Pieces that are written at once when the file is made.
const FILL_PIECES: usize = 256;

/// Makes the file, which is durable then.
pub fn make(path: &Path) -> Result<()> {
    let file = File::create_new(path)?;
    let fill = vec![1; FILL_PIECES * PIECE_BYTES];
    for number in 0..FILE_PIECES / FILL_PIECES as u64 {
        file.write_all_at(&fill, number * fill.len() as u64)?;
    }
    Ok(file.sync_all()?)
}

/// Writes to the file for so long.
pub fn run(path: &Path, seconds: f64) -> Result<Outcome> {
    let file = File::options().write(true).open(path)?;
    let piece = [7_u8; PIECE_BYTES];
    let mut choice = Choice::new(Law::Uniform, FILE_PIECES, 7)?;
    let length = Duration::from_secs_f64(seconds);
    let mut latencies_ns = Vec::new();
    let began = Instant::now();
    while began.elapsed() < length {
        let place = choice.next(FILE_PIECES) * PIECE_BYTES as u64;
        let wrote = Instant::now();
        file.write_all_at(&piece, place)?;
        file.sync_data()?;
        latencies_ns.push(u32::try_from(wrote.elapsed().as_nanos()).unwrap_or(u32::MAX));
    }
    let mut outcome = Outcome::default();
    if let Some(curve) = Curve::of("sync_4k".into(), &mut latencies_ns) {
        for (suffix, percent) in [("p50", 50.0), ("p99", 99.0)] {
            let row = Row::new(format!("sync_4k_{suffix}"), curve.at(percent), "ns");
            outcome.rows.push(row);
        }
        outcome.curves.push(curve);
    }
    Ok(outcome)
}
