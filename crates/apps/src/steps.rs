//! What is measured once, whatever the place.

use std::fs::File;
use std::process::Command;
use std::time::Duration;

use forebay_files::{FileBuffer, FileBufferOptions, SyncKind};
use forebay_harness::{PoolMedium, Result, Row, TestEnv, rows};

use crate::context::Context;

const APPEND_BYTES: usize = 256;
const APPENDS: u64 = 200_000;
/// The file becomes one that is synced.
const APPENDS_BEFORE: u64 = 1000;
/// So much that nothing is written back for want of room.
const POOL_BYTES: u64 = 512 << 20;

const DEADLINE: Duration = Duration::from_secs(900);

#[derive(Debug)]
pub struct Step {
    pub name: &'static str,
    pub run: fn(&Context) -> Result<Measured>,
}

#[derive(Debug)]
pub struct Measured {
    pub rows: Vec<Row>,
    /// What is wrong nevertheless.
    pub complaint: Option<String>,
}

pub const STEPS: &[Step] = &[
    Step {
        name: "append-counts",
        run: append_counts,
    },
    Step {
        name: "torture",
        run: torture,
    },
];

/// What a durable append of 256 bytes costs the memory: cache lines and fences, counted exactly, with everything that
/// the pool does beside it. By the buffer itself, in this process: what is counted does not depend on the caller.
fn append_counts(context: &Context) -> Result<Measured> {
    let env = TestEnv::with_memory(&context.forebay, &context.memory, &context.disk)?;
    let pool = env.path("pool");
    env.create_pool((&pool, PoolMedium::Memory), POOL_BYTES, &[])?;
    let buffer = FileBuffer::open(&FileBufferOptions::new(pool))?;
    let path = env.disk().join("appended");
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

/// What `forebay-verify torture` counts: file operations compared with a model, POSIX checks, kills without a loss.
///
/// Errors: it says nothing that is a report.
fn torture(context: &Context) -> Result<Measured> {
    let mut command = Command::new(&context.own);
    command
        .args(["torture", "--json", "--forebay"])
        .arg(&context.forebay)
        .arg("--disk")
        .arg(&context.disk)
        .arg("--report")
        .arg(context.workshop.path().join("torture.json"));
    if context.pace.is_quick {
        command.arg("--quick");
    }
    let ended = forebay_harness::run(&mut command, DEADLINE)?;
    let rows = rows::parse(&ended.printed)
        .map_err(|error| format!("no report: {error}\n{}", ended.told()))?;
    Ok(Measured {
        rows,
        complaint: (!ended.status.success()).then(|| ended.told()),
    })
}
