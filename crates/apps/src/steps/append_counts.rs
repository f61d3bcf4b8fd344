//! What a durable append of 256 bytes costs the memory: cache lines and fences, counted exactly, with
//! everything that the pool does beside it.

use std::fs::File;
use std::process::Command;
use std::time::Duration;

use forebay::RuntimeOptions;
use forebay_files::{FileBuffer, FileBufferOptions, Marking, SyncKind};
use forebay_harness::Row;

use crate::Result;
use crate::context::Context;
use crate::place::directory;
use crate::steps::Measured;

const APPEND_BYTES: usize = 256;
const APPENDS: u64 = 200_000;
/// The file becomes one that is synced.
const APPENDS_BEFORE: u64 = 1000;
/// So much that nothing is written back for want of room.
const POOL_BYTES: u64 = 512 << 20;
const DEADLINE: Duration = Duration::from_secs(60);

/// The buffer itself, in this process: what is counted does not depend on the caller.
pub fn lacks(_context: &Context) -> Option<String> {
    None
}

/// Errors: the pool cannot be made, or an append fails.
pub fn run(context: &Context) -> Result<Measured> {
    let (memory, disk) = (directory(&context.memory)?, directory(&context.disk)?);
    let pool = memory.path().join("pool");
    let mut create = Command::new(&context.forebay);
    create
        .arg("create")
        .arg(&pool)
        .args(["--size", &POOL_BYTES.to_string()]);
    forebay_harness::output(&mut create, DEADLINE)?;
    let buffer = FileBuffer::open(&FileBufferOptions {
        pool,
        root: None,
        runtime: RuntimeOptions::default(),
        mark: Marking::EachTime,
    })?;
    let path = disk.path().join("appended");
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)?;
    let file = buffer.adopt(file.into())?;
    let append = || -> Result<()> {
        file.append(&[0x44; APPEND_BYTES], false)?;
        Ok(file.sync(SyncKind::Data)?)
    };
    for _ in 0..APPENDS_BEFORE {
        append()?;
    }
    let before = buffer.counters();
    for _ in 0..APPENDS {
        append()?;
    }
    let counted = buffer.counters() - before;
    buffer.close()?;
    let share = |count: u64| count as f64 / APPENDS as f64;
    Ok(Measured {
        rows: vec![
            Row::new("append_256b_lines", share(counted.lines()), "lines"),
            Row::new("append_256b_fences", share(counted.fences), "fences"),
        ],
        complaint: None,
    })
}
