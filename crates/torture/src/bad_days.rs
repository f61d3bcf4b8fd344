//! Bad days: the disk is full, stops, or is gone; a file vanishes behind the mount; directories and
//! pools do not go together. Each check says what must hold.

pub mod blocks;

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use forebay_harness::{Result, Row, memory_folder, wait_for};
use rustix::process::Signal;

use self::blocks::{
    BEFORE_PAUSE, BLOCK_BYTES, Filled, Paused, expect_blocks, fill, filler, open_synced, parse,
};
use crate::disk::{self, Disk};
use crate::form::Form;
use crate::place::Place;
use crate::report::Report;
use crate::settings::Settings;

const POOL_BYTES: u64 = 16 << 20;
const SMALL_DISK_BYTES: u64 = 24 << 20;
const DEADLINE: Duration = Duration::from_secs(60);
/// A writer waits for half a minute after anything last went on; a ring on a slow device goes on for most of another, packing what it
/// holds.
const GIVES_UP: Duration = Duration::from_secs(240);

/// The exit code of a daemon that was made to end while it was in use.
const EXIT_FORCED: i32 = 6;

/// What must hold on one of them, in a form.
type Check = fn(&Settings, Form) -> Result<()>;

/// The second half by preload.
const CHECKS: &[(&str, Form, Check)] = &[
    ("a directory is served once", Form::Mount, two_mounts),
    ("a pool belongs to one directory", Form::Mount, foreign_pool),
    (
        "a file removed behind the mount does not keep others from being drained",
        Form::Mount,
        removed_behind_mount,
    ),
    (FULL, Form::Mount, full_disk),
    (STOPPED, Form::Mount, stopped_disk),
    (GONE, Form::Mount, gone_disk),
    (
        "a mount in use at the end is served until it is not",
        Form::Mount,
        |settings, _| end_in_use(settings, false),
    ),
    (
        "a mount that must end while in use loses nothing",
        Form::Mount,
        |settings, _| end_in_use(settings, true),
    ),
    (
        "a pool belongs to one directory",
        Form::Preload,
        foreign_pool,
    ),
    (FULL, Form::Preload, full_disk),
    (STOPPED, Form::Preload, stopped_disk),
    (GONE, Form::Preload, gone_disk),
    (
        "of a file that others removed the data is kept",
        Form::Preload,
        removed_behind_preload,
    ),
];
const FULL: &str = "a full disk loses nothing that was acknowledged";
const STOPPED: &str = "a disk that stops makes writers wait or fail, and loses nothing";
const GONE: &str = "a disk that is gone loses nothing that was acknowledged";

pub fn run(settings: &Settings, report: &mut Report) -> Result<()> {
    if let Some(lack) = Form::Mount.lacks().or(disk::lack()) {
        report.skip("bad days", lack);
        return Ok(());
    }
    let mut failed = 0;
    for (name, form, check) in CHECKS {
        forebay_harness::check_interrupt()?;
        let name = format!("by {}: {name}", form.name());
        match check(settings, *form) {
            Ok(()) => report.ok(&name),
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

fn serve(settings: &Settings, form: Form, parent: &Path) -> Result<Place> {
    let mut place = Place::new(form, settings, parent, POOL_BYTES)?;
    place.start()?;
    Ok(place)
}

/// Brings the directory up to date with no program, and looks for the blocks behind.
fn expect_at_the_end(place: &mut Place, count: usize) -> Result<()> {
    match place.form {
        Form::Preload => place.recover()?,
        _ => place.stop()?,
    }
    expect_blocks(&place.env.disk().join("filled"), count, "at the end")
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

fn two_mounts(settings: &Settings, _: Form) -> Result<()> {
    let mut first = serve(settings, Form::Mount, &settings.disk)?;
    let second = Place::new(Form::Mount, settings, &settings.disk, POOL_BYTES)?;
    let mut again = second.env.command(&["mount"]);
    again.arg(first.env.disk()).arg(second.files());
    let directory = first.env.disk().display().to_string().to_lowercase();
    refused(again.arg("--pool").arg(second.pool()), &[&directory])?;
    std::fs::write(first.files().join("a"), b"still served")?;
    first.stop()
}

fn foreign_pool(settings: &Settings, form: Form) -> Result<()> {
    let mut first = serve(settings, Form::Mount, &settings.disk)?;
    std::fs::write(first.files().join("a"), b"a")?;
    first.stop()?;
    let other = Place::new(Form::Mount, settings, &settings.disk, POOL_BYTES)?;
    let mut intruder = match form {
        Form::Preload => other.env.preloaded(&first.pool(), "true".as_ref()),
        _ => {
            let mut mount = other.env.command(&["mount"]);
            mount.arg(other.env.disk()).arg(other.files());
            mount.arg("--pool").arg(first.pool());
            mount
        }
    };
    refused(&mut intruder, &["pool", "belongs"])?;
    first.start()?;
    first.stop()
}

fn removed_behind_mount(settings: &Settings, _: Form) -> Result<()> {
    let mut place = serve(settings, Form::Mount, &settings.disk)?;
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

fn full_disk(settings: &Settings, form: Form) -> Result<()> {
    let disk = Disk::new(&memory_folder(), SMALL_DISK_BYTES)?;
    let mut place = serve(settings, form, &disk.path())?;
    let ballast = place.files().join("ballast");
    std::fs::write(&ballast, vec![1; 4 << 20])?;
    File::open(&ballast)?.sync_all()?;
    let mut program = filler(settings, &place, 4096, None)?;
    let output = forebay_harness::run(&mut program, DEADLINE)?;
    let Filled { count, error } = parse(&output.printed)?;
    if error != libc::ENOSPC {
        return Err(format!("{count} blocks, then error {error}: {}", output.told()).into());
    }
    if form.is_mounted() {
        let path = place.files().join("filled");
        expect_blocks(&path, count, "when it is full")?;
        // Through a kill, while there is no room yet.
        place.kill_daemon()?;
        place.env.unmount();
        let started = place.start();
        started.map_err(|error| format!("with {count} blocks: {error}"))?;
        expect_blocks(&path, count, "after the kill")?;
    }
    std::fs::remove_file(&ballast)?;
    expect_at_the_end(&mut place, count)
}

fn stopped_disk(settings: &Settings, form: Form) -> Result<()> {
    let mut disk = Disk::new(&memory_folder(), 128 << 20)?;
    let mut place = serve(settings, form, &disk.path())?;
    let path = place.files().join("filled");
    // More than the pool has: it cannot all be taken.
    let count = 4 * POOL_BYTES as usize / BLOCK_BYTES;
    let mut program = Paused::start(settings, &place, count)?;
    if form.is_mounted() {
        // It has room of its own before the disk stops.
        File::open(&path)?.sync_all()?;
    }
    disk.freeze()?;
    program.pause.end()?;
    let early = program.wait(Duration::from_secs(5))?;
    disk.thaw()?;
    let outcome = match early {
        Some(outcome) => Some(outcome),
        None => program.wait(GIVES_UP)?,
    };
    let filled = outcome.ok_or("the program does not end when the disk goes on")?;
    let count = filled.count.max(BEFORE_PAUSE);
    if form.is_mounted() {
        expect_blocks(&path, count, "when it goes on")?;
    }
    expect_at_the_end(&mut place, count)
}

fn gone_disk(settings: &Settings, form: Form) -> Result<()> {
    let disk = Disk::new(&memory_folder(), 128 << 20)?;
    let mut place = serve(settings, form, &disk.path())?;
    let count = 2 * POOL_BYTES as usize / BLOCK_BYTES;
    let mut program = Paused::start(settings, &place, count)?;
    disk.cut_power()?;
    program.pause.end()?;
    // What is taken now is taken by the pool, or refused.
    let ended = program.wait(GIVES_UP)?;
    let filled = ended.ok_or("the program does not end when the disk is gone")?;
    let count = filled.count.max(BEFORE_PAUSE);
    // It cannot bring the directory up to date, and must say so.
    if form.is_mounted() && place.stop().is_ok() {
        return Err("the mount ended as if all were well".into());
    }
    disk.restart()?;
    if form.is_mounted() {
        place.start()?;
        expect_blocks(&place.files().join("filled"), count, "when it is back")?;
    }
    expect_at_the_end(&mut place, count)
}

fn removed_behind_preload(settings: &Settings, _: Form) -> Result<()> {
    let place = serve(settings, Form::Preload, &settings.disk)?;
    let mut program = Paused::start(settings, &place, BEFORE_PAUSE + 1)?;
    program.group.kill()?;
    std::fs::remove_file(place.env.disk().join("filled"))?;
    // Killed is not yet gone: the pool is its until then.
    let is_free = || {
        let mut recover = place.env.command(&["recover"]);
        let output = forebay_harness::run(recover.arg(place.pool()), DEADLINE)?;
        let is_taken = output.complaints.contains("another process");
        Ok((!is_taken).then_some(output))
    };
    let output = wait_for(DEADLINE, is_free)?.ok_or("the pool stays in use")?;
    let names_it = output.complaints.contains("filled") && output.complaints.contains("gone");
    if output.status.success() || !names_it {
        return Err(format!("it is not said that the file is gone: {}", output.told()).into());
    }
    let mut save = place.env.command(&["recover", "--save-lost"]);
    forebay_harness::output(save.arg(place.pool()), DEADLINE)?;
    let mut saved = Vec::new();
    for entry in std::fs::read_dir(place.env.path(""))? {
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

/// Tells the mount to end while a file is open, and then closes the file or insists.
fn end_in_use(settings: &Settings, insists: bool) -> Result<()> {
    const BLOCKS: usize = 64;
    let mut place = serve(settings, Form::Mount, &settings.disk)?;
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
    let told = wait_for(DEADLINE, is_told)?;
    told.ok_or("no log line says that the mount is in use")?;
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
