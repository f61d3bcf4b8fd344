//! Ours beside other ways to the same disk, as ratios: each in turn, round after round, and the
//! median of the rounds' ratios.
//!
//! The raw block device is used, with O_DIRECT, by one thread that waits for each request: 4 KiB random
//! reads of what is cached, and 4 KiB random writes with fsync each. qemu-storage-daemon serves a raw file
//! in memory; its disk is told to be `write back`, or fsync would not reach it.

use std::path::Path;
use std::time::Duration;

use forebay_harness::{LoopDevice, Row, median};
use indicatif::ProgressBar;

use super::fio::{self, Access, Engine, Job, Pace};
use super::ours::{FrontEnd, Ours};
use super::{KIB, MIB, has_tool, in_turn};
use crate::{Daemon, Disk, Guest, GuestOptions, QemuStorageDaemon, Result, Scratch};

const DISK_BYTES: u64 = 128 * MIB;
const POOL_BYTES: u64 = 128 * MIB;
const SPAN_BYTES: u64 = 32 * MIB;
const ROUNDS: u64 = 9;
const LIMIT: Duration = Duration::from_secs(120);

/// Our FUSE disk under a loop device of this machine, beside a plain file in memory under one. That nothing is
/// corrupted on this way is shown by a test of `crates/serve`,
/// `fio_verifies_loop_devices_of_every_kind_at_depth_32`.
const FUSE_LOOP: &str = "fuse_loop_fsync_vs_shm_loop";

/// Small reads.
const READ: Job = Job {
    access: Access::Random,
    engine: Engine::Synchronous,
    write_percent: 0,
    block_bytes: 4 * KIB,
    span_bytes: SPAN_BYTES,
    jobs: 1,
    is_synced: false,
};
/// Small writes that are safe.
const SYNCED_WRITE: Job = Job {
    write_percent: 100,
    is_synced: true,
    ..READ
};

/// Runs all of it, or what has one of `only` in its name (`vhost`, `fuse`); the rows.
pub fn run(
    daemon: &Daemon,
    is_quick: bool,
    only: &[String],
    progress: &ProgressBar,
) -> Result<Vec<Row>> {
    let pace = Pace {
        ramp: Duration::from_millis(100),
        time: Duration::from_millis(if is_quick { 250 } else { 700 }),
    };
    let rounds = if is_quick { 3 } else { ROUNDS };
    let is_wanted = |name: &str| only.is_empty() || only.iter().any(|only| name.contains(only));
    let mut rows = Vec::new();
    if is_wanted("vhost") {
        rows.extend(in_a_guest(daemon, pace, rounds, progress)?);
    }
    if is_wanted(FUSE_LOOP) {
        progress.set_message("FUSE and loop");
        rows.push(fuse_loop(daemon, pace, rounds)?);
    }
    Ok(rows)
}

fn in_a_guest(
    daemon: &Daemon,
    pace: Pace,
    rounds: u64,
    progress: &ProgressBar,
) -> Result<Vec<Row>> {
    const OURS: &str = "/dev/vda";
    const QSD: &str = "/dev/vdb";
    const WRITECACHE: &str = "/dev/mapper/writecache";
    let scratch = Scratch::new()?;
    let folder = scratch.new_folder("ours")?;
    let (socket, backing) = (folder.join("socket"), folder.join("backing"));
    std::fs::File::create(&backing)?.set_len(DISK_BYTES)?;
    let front_end = FrontEnd::VhostUser(socket.clone());
    let ours = Ours::start(daemon, &folder, POOL_BYTES, &backing, &front_end, &[])?;
    let (theirs, log) = (scratch.path("qsd.socket"), scratch.path("qsd.log"));
    let file = scratch.sparse_file("qsd.raw", DISK_BYTES)?;
    let _qsd = QemuStorageDaemon::serve(&file, &theirs, &log)?;
    let options = GuestOptions::with_disks([socket, theirs].map(Disk::Vhost));
    let options = options.with_ram_disks(512, (2, DISK_BYTES), &["dm-writecache"]);
    let mut guest = Guest::boot(&scratch, &options)?;
    guest.must_run("echo 'write back' >/sys/block/vdb/cache_type", LIMIT)?;
    let mut synced = vec![OURS, QSD];
    if has_tool("dmsetup", "vhost_fsync_vs_dm_writecache") {
        let script = "dmsetup create writecache --table \
             \"0 $(blockdev --getsz /dev/ram0) writecache s /dev/ram0 /dev/ram1 4096 0\"";
        guest.must_run(script, LIMIT)?;
        synced.push(WRITECACHE);
    }
    for device in &synced {
        fio::pass(&mut guest, device, SPAN_BYTES, true)?;
    }
    let contests: [(&str, &Job, &[&str]); 2] = [
        ("read", &READ, &[OURS, QSD]),
        ("fsync", &SYNCED_WRITE, &synced),
    ];
    let mut rows = Vec::new();
    for (name, job, devices) in contests {
        progress.set_message(format!("vhost-user: {name}"));
        let rates = in_turn(devices.len(), rounds, |number, round| {
            progress.tick();
            Ok(job.run(&mut guest, devices[number], pace, round)?.iops)
        })?;
        let iops = median(rates[0].clone());
        rows.push(Row::new(format!("vhost_{name}_iops"), iops, "IOPS"));
        for (theirs, other) in rates[1..].iter().zip(["qsd", "dm_writecache"]) {
            let ratio = ratio(&rates[0], theirs);
            rows.push(Row::new(format!("vhost_{name}_vs_{other}"), ratio, "ratio"));
        }
    }
    guest.shut_down()?;
    ours.end()?;
    Ok(rows)
}

/// The ratio; without a value, and said, where this machine has no loop devices or no FUSE.
fn fuse_loop(daemon: &Daemon, pace: Pace, rounds: u64) -> Result<Row> {
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
    let rates = in_turn(2, rounds + 1, |number, round| {
        let device = [&looped, &theirs][number].device();
        Ok(SYNCED_WRITE.run_here(device, pace, round)?.iops)
    })?;
    drop(looped);
    ours.end()?;
    // The first round warms up.
    let ratio = ratio(&rates[0][1..], &rates[1][1..]);
    Ok(Row::new(FUSE_LOOP, ratio, "ratio"))
}

fn skipped(why: &str) -> Row {
    eprintln!("skipped {FUSE_LOOP}: {why}");
    Row::new(FUSE_LOOP, None, "ratio")
}

/// The median over the rounds of ours over theirs in the same round.
fn ratio(ours: &[f64], theirs: &[f64]) -> Option<f64> {
    let rounds = ours.iter().zip(theirs);
    median(rounds.map(|(ours, theirs)| ours / theirs).collect())
}
