//! Our FUSE disk under a loop device of this machine, beside a plain file in memory under one.
//!
//! That nothing is corrupted on this way, at any size of request, direct or not, is shown by the test
//! `fio_verifies_loop_devices_of_every_kind_at_depth_32` of `crates/serve`.

use std::path::Path;

use forebay_harness::Row;

use super::MIB;
use super::fio::Pace;
use super::ours::{FrontEnd, Ours};
use super::ratios::{SYNCED_WRITE, ratio};
use crate::loop_device::LoopDevice;
use crate::{Daemon, Result, Scratch};

/// The row.
pub(super) const NAME: &str = "fuse_loop_fsync_vs_shm_loop";
const DISK_BYTES: u64 = 128 * MIB;

/// The ratio; without a value, and said, where this machine has no loop devices or no FUSE.
///
/// # Errors
/// The daemon or fio fails.
pub fn run(daemon: &Daemon, pace: Pace, rounds: u64) -> Result<Row> {
    let scratch = Scratch::new()?;
    let plain = scratch.sparse_file("plain", DISK_BYTES)?;
    // Past the page cache where that can be.
    let over =
        |file: &Path| LoopDevice::over(file, true).or_else(|_| LoopDevice::over(file, false));
    let theirs = match over(&plain) {
        Ok(device) if Path::new("/dev/fuse").exists() => device,
        Ok(_) => return Ok(skipped("there is no /dev/fuse")),
        Err(error) => return Ok(skipped(&error.to_string())),
    };
    let folder = scratch.new_folder("ours")?;
    let backing = scratch.sparse_file("backing", DISK_BYTES)?;
    let directory = scratch.new_folder("mounted")?;
    let front_end = FrontEnd::Fuse(directory.clone());
    let ours = Ours::start(daemon, &folder, DISK_BYTES, &backing, &front_end, &[])?;
    let looped = over(&directory.join("disk"))?;
    let mut rates = [Vec::new(), Vec::new()];
    for round in 0..=rounds {
        for turn in 0..2 {
            let number = (turn + round as usize) % 2;
            let device = [&looped, &theirs][number];
            let outcome = SYNCED_WRITE.run_here(Path::new(device.device()), pace, round + 1)?;
            // The first round warms up.
            if round > 0 {
                rates[number].push(outcome.iops);
            }
        }
    }
    drop(looped);
    ours.end()?;
    Ok(Row::new(NAME, ratio(&rates[0], &rates[1]), "ratio"))
}

fn skipped(why: &str) -> Row {
    eprintln!("skipped {NAME}: {why}");
    Row::new(NAME, None, "ratio")
}
