//! The same by the preloaded library: a program of its own fills a file.

use std::fs::File;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use forebay_harness::{Group, Result, memory_folder};

use super::blocks::{BEFORE_PAUSE, BLOCK_BYTES, Filled, Pause, expect_blocks, parse};
use super::{DEADLINE, POOL_BYTES, SMALL_DISK_BYTES, refused};
use crate::disk::Disk;
use crate::place::{Form, Place};
use crate::settings::Settings;
use crate::task::Task;

fn preloaded(settings: &Settings, parent: &Path) -> Result<Place> {
    Place::new(Form::Preload, &settings.forebay, parent, POOL_BYTES)
}

/// A program that writes blocks to a file of the place; with `pauses`, not all at once.
fn filler(settings: &Settings, place: &Place, count: usize, pauses: bool) -> Result<Command> {
    let task = Task::Fill {
        path: place.env.disk().join("filled"),
        count,
        pause: pauses.then(|| place.env.mount_point()),
    };
    task.program(settings, place)
}

/// A program that has come to its pause.
struct Paused {
    group: Group,
    pause: Pause,
    printed: std::path::PathBuf,
}

impl Paused {
    fn start(settings: &Settings, place: &Place, count: usize) -> Result<Paused> {
        let printed = place.env.path("printed");
        let mut program = filler(settings, place, count, true)?;
        program.stdout(File::create(&printed)?);
        program.stderr(File::create(place.env.path("complaints"))?);
        let mut group = Group::start(&mut program)?;
        let pause = Pause::new(&place.env.mount_point());
        let is_there = || match (pause.is_reached(), group.ended()?) {
            (true, _) => Ok(Some(())),
            (false, None) => Ok(None),
            (false, Some(status)) => Err(format!("it ended before: {status}").into()),
        };
        forebay_harness::wait_for(DEADLINE, is_there)?.ok_or("it never paused")?;
        Ok(Paused {
            group,
            pause,
            printed,
        })
    }

    /// How it ends, if it does so in time; and how many blocks were acknowledged.
    fn wait(&mut self, limit: Duration) -> Result<Option<(ExitStatus, Filled)>> {
        let group = &mut self.group;
        let ended = forebay_harness::wait_for(limit, || group.ended())?;
        let Some(status) = ended else {
            return Ok(None);
        };
        Ok(Some((
            status,
            parse(&std::fs::read_to_string(&self.printed)?)?,
        )))
    }
}

/// Brings the directory up to date without a program, and looks for the blocks.
fn expect_recovered(place: &Place, count: usize) -> Result<()> {
    place.recover()?;
    expect_blocks(&place.env.disk().join("filled"), count, "at the end")
}

pub fn foreign_pool(settings: &Settings) -> Result<()> {
    let mut mounted = super::mounted(settings, &settings.disk)?;
    std::fs::write(mounted.files().join("a"), b"a")?;
    mounted.stop()?;
    let mut run = mounted.env.command(&["run"]);
    run.arg("--pool").arg(mounted.pool()).arg("--cover");
    run.arg(settings.disk.join("**")).args(["--", "true"]);
    refused(&mut run, &["pool", "belongs"])
}

pub fn full_disk(settings: &Settings) -> Result<()> {
    let disk = Disk::new(&memory_folder(), SMALL_DISK_BYTES)?;
    let place = preloaded(settings, &disk.path())?;
    let ballast = place.env.disk().join("ballast");
    std::fs::write(&ballast, vec![1; 4 << 20])?;
    File::open(&ballast)?.sync_all()?;
    let mut program = filler(settings, &place, 4096, false)?;
    let output = forebay_harness::run(&mut program, DEADLINE)?;
    let Filled { count, error } = parse(&output.printed)?;
    if error != libc::ENOSPC {
        return Err(format!("{count} blocks, then error {error}: {}", output.told()).into());
    }
    std::fs::remove_file(&ballast)?;
    expect_recovered(&place, count)
}

pub fn stopped_disk(settings: &Settings) -> Result<()> {
    let mut disk = Disk::new(&memory_folder(), 128 << 20)?;
    let place = preloaded(settings, &disk.path())?;
    // More than the pool has: it cannot all be taken.
    let count = 4 * POOL_BYTES as usize / BLOCK_BYTES;
    let mut program = Paused::start(settings, &place, count)?;
    disk.freeze()?;
    program.pause.end()?;
    let early = program.wait(Duration::from_secs(5))?;
    disk.thaw()?;
    let outcome = match early {
        Some(outcome) => Some(outcome),
        None => program.wait(DEADLINE)?,
    };
    let (_, filled) = outcome.ok_or("the program does not end when the disk goes on")?;
    expect_recovered(&place, filled.count.max(BEFORE_PAUSE))
}

pub fn gone_disk(settings: &Settings) -> Result<()> {
    let disk = Disk::new(&memory_folder(), 128 << 20)?;
    let place = preloaded(settings, &disk.path())?;
    let count = 2 * POOL_BYTES as usize / BLOCK_BYTES;
    let mut program = Paused::start(settings, &place, count)?;
    disk.cut_power()?;
    program.pause.end()?;
    // What is taken now is taken by the pool, or refused.
    let ended = program.wait(DEADLINE)?;
    let (_, filled) = ended.ok_or("the program does not end when the disk is gone")?;
    disk.restart()?;
    expect_recovered(&place, filled.count.max(BEFORE_PAUSE))
}

pub fn removed_behind(settings: &Settings) -> Result<()> {
    let place = preloaded(settings, &settings.disk)?;
    let mut program = Paused::start(settings, &place, BEFORE_PAUSE + 1)?;
    program.group.kill()?;
    let path = place.env.disk().join("filled");
    std::fs::remove_file(&path)?;
    // Killed is not yet gone: the pool is its until then.
    let is_free = || {
        let mut recover = place.env.command(&["recover"]);
        let output = forebay_harness::run(recover.arg(place.pool()), DEADLINE)?;
        let is_taken = output.complaints.contains("another process");
        Ok((!is_taken).then_some(output))
    };
    let output = forebay_harness::wait_for(DEADLINE, is_free)?.ok_or("the pool stays in use")?;
    let names_it = output.complaints.contains("filled") && output.complaints.contains("gone");
    if output.status.success() || !names_it {
        return Err(format!("nobody is told of the file: {}", output.told()).into());
    }
    let mut save = place.env.command(&["recover"]);
    save.arg(place.pool()).arg("--save-lost");
    forebay_harness::output(&mut save, DEADLINE)?;
    let folder = place.env.path("");
    let mut saved = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.contains(".lost-") {
            saved.push(path.clone());
        }
    }
    match saved.as_slice() {
        [saved] => expect_blocks(saved, BEFORE_PAUSE, "saved beside the pool"),
        _ => Err(format!("one file is to be saved, not {saved:?}").into()),
    }
}
