//! Our FUSE disk under a loop device of this machine, beside a plain file in memory under one.
//!
//! That nothing is corrupted on this way, at any size of request, direct or not, is shown by the test
//! `fio_verifies_loop_devices_of_every_kind_at_depth_32` of `crates/serve`.

use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_harness::Row;

use super::MIB;
use super::fio::Pace;
use super::ours::{FrontEnd, Ours};
use super::ratios::{SYNCED_WRITE, ratio};
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
    let theirs = match LoopDevice::over(&plain) {
        Ok(device) if Path::new("/dev/fuse").exists() => device,
        Ok(_) => return Ok(skipped("there is no /dev/fuse")),
        Err(error) => return Ok(skipped(&error.to_string())),
    };
    let folder = scratch.new_folder("ours")?;
    let backing = scratch.sparse_file("backing", DISK_BYTES)?;
    let directory = scratch.new_folder("mounted")?;
    let front_end = FrontEnd::Fuse(directory.clone());
    let ours = Ours::start(daemon, &folder, DISK_BYTES, &backing, &front_end, &[])?;
    let looped = LoopDevice::over(&directory.join("disk"))?;
    let mut rates = [Vec::new(), Vec::new()];
    for round in 0..=rounds {
        for turn in 0..2 {
            let number = (turn + round as usize) % 2;
            let device = [&looped, &theirs][number];
            let outcome = SYNCED_WRITE.run_here(&device.path, pace, round + 1)?;
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

/// A loop device; it is let go when this is dropped.
struct LoopDevice {
    path: PathBuf,
}

impl LoopDevice {
    /// Over a file, past the page cache where that can be.
    fn over(file: &Path) -> Result<LoopDevice> {
        let attach = |direct: &str| {
            Command::new("losetup")
                .args(["--find", "--show", direct])
                .arg(file)
                .output()
        };
        let mut output = attach("--direct-io=on")?;
        if !output.status.success() {
            output = attach("--direct-io=off")?;
        }
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("losetup: {}", said.trim()).into());
        }
        let path = String::from_utf8(output.stdout)?.trim().into();
        Ok(LoopDevice { path })
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // Fails only where it has been detached already.
        let _ = Command::new("losetup")
            .arg("--detach")
            .arg(&self.path)
            .status();
    }
}
