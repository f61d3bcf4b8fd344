//! Bad days: the disk is full, stops, or is gone; a file vanishes behind the mount; directories and
//! pools do not go together. Each check says what must hold.

pub mod blocks;
mod preload;

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use forebay_harness::{Result, Row, memory_folder};
use rustix::process::Signal;

use self::blocks::{BLOCK_BYTES, expect_blocks, fill, open_synced};
use crate::disk::{self, Disk};
use crate::place::{Form, Place};
use crate::report::Report;
use crate::settings::Settings;

const POOL_BYTES: u64 = 16 << 20;
const SMALL_DISK_BYTES: u64 = 24 << 20;
const DEADLINE: Duration = Duration::from_secs(60);

/// The exit code of a daemon that was made to end while it was in use.
const EXIT_FORCED: i32 = 6;

/// What must hold on one of them.
type Check = fn(&Settings) -> Result<()>;

const CHECKS: &[(&str, Check)] = &[
    ("a directory is served once", two_mounts),
    ("a pool belongs to one directory", foreign_pool),
    (
        "a file removed behind the mount does not keep others from being drained",
        removed_behind,
    ),
    ("a full disk loses nothing that was acknowledged", full_disk),
    (
        "a disk that stops makes writers wait or fail, and loses nothing",
        stopped_disk,
    ),
    (
        "a disk that is gone loses nothing that was acknowledged",
        gone_disk,
    ),
    ("a mount in use at the end is served until it is not", busy),
    ("a mount that must end while in use loses nothing", insisted),
    (
        "by preload: a pool belongs to one directory",
        preload::foreign_pool,
    ),
    (
        "by preload: a full disk loses nothing that was acknowledged",
        preload::full_disk,
    ),
    (
        "by preload: a disk that stops makes writers wait or fail, and loses nothing",
        preload::stopped_disk,
    ),
    (
        "by preload: a disk that is gone loses nothing that was acknowledged",
        preload::gone_disk,
    ),
    (
        "by preload: of a file that others removed the data is kept",
        preload::removed_behind,
    ),
];

/// Every check.
pub fn run(settings: &Settings, report: &mut Report) -> Result<()> {
    if let Some(lack) = Form::Mount.lacks().or(disk::lack()) {
        report.skip("bad days", lack);
        return Ok(());
    }
    let mut failed = 0;
    for (name, check) in CHECKS {
        forebay_harness::check_interrupt()?;
        match check(settings) {
            Ok(()) => report.ok(name),
            Err(error) => {
                failed += 1;
                report.fail(format!("{name}: {error}"));
            }
        }
    }
    report.row(Row::new("bad_days", CHECKS.len() as f64, "checks"));
    report.row(Row::new("bad_days_failed", f64::from(failed), "checks"));
    Ok(())
}

fn mounted(settings: &Settings, parent: &Path) -> Result<Place> {
    let mut place = Place::new(Form::Mount, &settings.forebay, parent, POOL_BYTES)?;
    place.start()?;
    Ok(place)
}

/// The command must fail and say something with `words`.
fn refused(command: &mut std::process::Command, words: &[&str]) -> Result<()> {
    let output = forebay_harness::run(command, DEADLINE)?;
    let said = output.complaints.to_lowercase();
    if output.status.success() {
        return Err(format!("{command:?} was not refused").into());
    }
    match words.iter().all(|word| said.contains(word)) {
        true => Ok(()),
        false => Err(format!("the refusal does not say why: {}", output.tail()).into()),
    }
}

fn two_mounts(settings: &Settings) -> Result<()> {
    let mut first = mounted(settings, &settings.disk)?;
    let second = Place::new(Form::Mount, &settings.forebay, &settings.disk, POOL_BYTES)?;
    let mut again = second.env.command(&["mount"]);
    again.arg(first.env.disk()).arg(second.files());
    let directory = first.env.disk().display().to_string().to_lowercase();
    refused(again.arg("--pool").arg(second.pool()), &[&directory])?;
    std::fs::write(first.files().join("a"), b"still served")?;
    first.stop()
}

fn foreign_pool(settings: &Settings) -> Result<()> {
    let mut first = mounted(settings, &settings.disk)?;
    std::fs::write(first.files().join("a"), b"a")?;
    first.stop()?;
    let other = Place::new(Form::Mount, &settings.forebay, &settings.disk, POOL_BYTES)?;
    let mut mount = other.env.command(&["mount"]);
    mount.arg(other.env.disk()).arg(other.files());
    refused(mount.arg("--pool").arg(first.pool()), &["pool", "belongs"])?;
    first.start()?;
    first.stop()
}

fn removed_behind(settings: &Settings) -> Result<()> {
    let mut place = mounted(settings, &settings.disk)?;
    for name in ["gone", "kept"] {
        let file = File::create(place.files().join(name))?;
        (&file).write_all(&[7; 9000])?;
        file.sync_all()?;
        // The first sync makes it hot; this write is the pool's.
        (&file).write_all(&[8; 9000])?;
        file.sync_all()?;
    }
    std::fs::remove_file(place.env.disk().join("gone"))?;
    // It may be said, by the exit code too; the other file must not suffer.
    let stopped = place.stop();
    let kept = std::fs::read(place.env.disk().join("kept"))?;
    match kept == [[7; 9000], [8; 9000]].concat() {
        true => Ok(()),
        false => Err(format!("{} bytes of the other file, end: {stopped:?}", kept.len()).into()),
    }
}

fn full_disk(settings: &Settings) -> Result<()> {
    let disk = Disk::new(&memory_folder(), SMALL_DISK_BYTES)?;
    let mut place = mounted(settings, &disk.path())?;
    let ballast = place.files().join("ballast");
    std::fs::write(&ballast, vec![1; 4 << 20])?;
    File::open(&ballast)?.sync_all()?;
    let path = place.files().join("filled");
    let (count, error) = fill(&open_synced(&path)?, 4096);
    let code = error.as_ref().and_then(std::io::Error::raw_os_error);
    if code != Some(libc::ENOSPC) {
        return Err(
            format!("{count} blocks, then {error:?}; the disk has no room for them").into(),
        );
    }
    expect_blocks(&path, count, "when it is full")?;
    // Through a kill, while there is no room yet.
    place.kill_daemon()?;
    place.env.unmount();
    place
        .start()
        .map_err(|error| format!("with {count} blocks: {error}"))?;
    expect_blocks(&path, count, "after the kill")?;
    std::fs::remove_file(&ballast)?;
    place.stop()?;
    expect_blocks(&place.env.disk().join("filled"), count, "at the end")
}

fn stopped_disk(settings: &Settings) -> Result<()> {
    let mut disk = Disk::new(&memory_folder(), 128 << 20)?;
    let mut place = mounted(settings, &disk.path())?;
    let path = place.files().join("filled");
    let file = open_synced(&path)?;
    // Hot, and with room of its own, before the disk stops.
    let (before, error) = fill(&file, 64);
    if let Some(error) = error {
        return Err(error.into());
    }
    file.sync_all()?;
    disk.freeze()?;
    let (sender, receiver) = mpsc::channel();
    let writer = std::thread::spawn(move || {
        // More than the pool has: it cannot all be taken.
        let outcome = fill(&file, 4 * POOL_BYTES as usize / BLOCK_BYTES);
        let _ = sender.send(outcome);
    });
    let early = receiver.recv_timeout(Duration::from_secs(5)).ok();
    disk.thaw()?;
    let outcome = match early {
        Some(outcome) => outcome,
        None => receiver.recv_timeout(DEADLINE)?,
    };
    writer.join().map_err(|_| "the writer panicked")?;
    let (count, _) = outcome;
    expect_blocks(&path, count.max(before), "when it goes on")?;
    place.stop()?;
    expect_blocks(
        &place.env.disk().join("filled"),
        count.max(before),
        "at the end",
    )
}

fn gone_disk(settings: &Settings) -> Result<()> {
    let disk = Disk::new(&memory_folder(), 128 << 20)?;
    let mut place = mounted(settings, &disk.path())?;
    let path = place.files().join("filled");
    let file = open_synced(&path)?;
    let (before, error) = fill(&file, 64);
    if let Some(error) = error {
        return Err(error.into());
    }
    disk.cut_power()?;
    // What is taken now is taken by the pool, or refused.
    let (after, _) = fill(&file, 2 * POOL_BYTES as usize / BLOCK_BYTES);
    drop(file);
    // It cannot bring the directory up to date, and must say so.
    if place.stop().is_ok() {
        return Err("the mount ended as if all were well".into());
    }
    disk.restart()?;
    place.start()?;
    expect_blocks(&path, before.max(after), "when it is back")?;
    place.stop()?;
    expect_blocks(
        &place.env.disk().join("filled"),
        before.max(after),
        "at the end",
    )
}

fn busy(settings: &Settings) -> Result<()> {
    end_in_use(settings, false)
}

fn insisted(settings: &Settings) -> Result<()> {
    end_in_use(settings, true)
}

/// Tells the mount to end while a file is open, and then closes the file or insists.
fn end_in_use(settings: &Settings, insists: bool) -> Result<()> {
    const BLOCKS: usize = 64;
    let mut place = mounted(settings, &settings.disk)?;
    let path = place.files().join("filled");
    let file = open_synced(&path)?;
    let _ = fill(&file, BLOCKS / 2);
    let daemon = place.take_daemon().ok_or("there is no daemon")?;
    let id = daemon.id();
    let end = std::thread::spawn(move || daemon.status_after(Signal::TERM));
    let is_told = || {
        Ok(place
            .env
            .log_tail()
            .contains("in use, and served")
            .then_some(()))
    };
    let told = forebay_harness::wait_for(DEADLINE, is_told)?;
    told.ok_or("nobody is told that the mount is in use")?;
    let (count, error) = fill(&file, BLOCKS);
    if let Some(error) = error {
        return Err(format!("block {count} while it waits to end: {error}").into());
    }
    let wanted = match insists {
        true => {
            let daemon = rustix::process::Pid::from_raw(id as i32).ok_or("no process")?;
            rustix::process::kill_process(daemon, Signal::TERM)?;
            EXIT_FORCED
        }
        false => {
            drop(file);
            0
        }
    };
    let status = end.join().map_err(|_| "the waiting panicked")??;
    place.env.unmount();
    if status.code() != Some(wanted) {
        return Err(format!("it ended with {status}, not with {wanted}").into());
    }
    expect_blocks(&place.env.disk().join("filled"), BLOCKS, "at the end")
}
