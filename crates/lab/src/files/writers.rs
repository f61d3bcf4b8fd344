//! The threads of one measurement.

use std::io;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use forebay_harness::OwnTime;
use forebay_harness::choice::Choice;
use forebay_pmem::{Counters, thread_counters};

use super::content::Pieces;
use super::files_on_disk::FilesOnDisk;
use super::scope::{Cell, FilesScope};
use super::stand::{Stand, Target};

/// Places are chosen before the clock runs, and used again and again.
const PLACES: usize = 1 << 16;
/// Writes before the clock runs: names, segments and tables are made.
const WRITES_BEFORE: usize = 4;
/// More latencies than that are not kept.
const LATENCIES_MAX: usize = 1 << 20;

/// What one thread did.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) writes: u64,
    pub(super) elapsed: Duration,
    pub(super) latencies_ns: Vec<u32>,
    /// What the thread itself persisted.
    pub(super) persisted: Counters,
    target: Target,
}

/// What all of them did.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) written: Vec<Written>,
    /// What the region persisted, stages included.
    pub(super) persisted: Counters,
    /// Processors' time of this process, in its own code and in the kernel.
    pub(super) user_ns: f64,
    pub(super) kernel_ns: f64,
}

impl Round {
    pub(super) fn writes(&self) -> u64 {
        self.written.iter().map(|one| one.writes).sum()
    }
}

/// Runs the threads of a cell over a stand, and closes their files afterwards.
pub(super) fn run(
    stand: &Stand,
    files: &FilesOnDisk,
    scope: &FilesScope,
    cell: Cell,
) -> io::Result<Round> {
    // One more than write: the thread that looks at what there was before, when all are ready and none has begun.
    let barrier = Barrier::new(cell.threads + 1);
    let (written, before) = std::thread::scope(|threads| {
        let write = |thread| {
            let barrier = &barrier;
            threads.spawn(move || Writer::write(stand, files, scope, cell, thread, barrier))
        };
        let work: Vec<_> = (0..cell.threads).map(write).collect();
        barrier.wait();
        let before = (OwnTime::now(), stand.counters());
        barrier.wait();
        let joined = work.into_iter().map(|thread| match thread.join() {
            Ok(written) => written,
            Err(_) => Err(io::Error::other("a writer panicked")),
        });
        (joined.collect::<io::Result<Vec<Written>>>(), before)
    });
    let persisted = stand.counters() - before.1;
    let written = written?;
    let now = OwnTime::now().map_err(io::Error::other)?;
    let (user_ns, kernel_ns) = now.since(before.0.map_err(io::Error::other)?);
    Ok(Round {
        written,
        persisted,
        user_ns,
        kernel_ns,
    })
}

/// Brings the files of a round home.
pub(super) fn close(round: Round) -> io::Result<()> {
    let closed = round.written.into_iter().map(|one| one.target.close());
    closed.collect()
}

struct Writer;

impl Writer {
    fn write(
        stand: &Stand,
        files: &FilesOnDisk,
        scope: &FilesScope,
        cell: Cell,
        thread: usize,
        barrier: &Barrier,
    ) -> io::Result<Written> {
        let prepared = Writer::prepare(stand, files, cell, thread);
        // Ready, and then begun; also where something failed, since the others wait.
        barrier.wait();
        barrier.wait();
        let (mut target, places) = prepared?;
        let unit_bytes = cell.unit.bytes;
        let pieces = Pieces::new(unit_bytes, thread as u64);
        let limit = match places.is_empty() {
            true => scope.append_bytes / (unit_bytes * cell.threads) as u64,
            false => u64::MAX,
        };
        let mut latencies_ns = Vec::with_capacity(LATENCIES_MAX);
        let mut writes = 0;
        let persisted = thread_counters();
        let began = Instant::now();
        let mut before = began;
        while writes < limit && before - began < scope.length {
            let place = places.get(writes as usize % PLACES);
            target.write(place.copied(), pieces.of(writes))?;
            writes += 1;
            let now = Instant::now();
            if latencies_ns.len() < LATENCIES_MAX {
                let latency_ns = (now - before).as_nanos();
                latencies_ns.push(u32::try_from(latency_ns).unwrap_or(u32::MAX));
            }
            before = now;
        }
        Ok(Written {
            writes,
            elapsed: before - began,
            latencies_ns,
            persisted: thread_counters() - persisted,
            target,
        })
    }

    /// What to write to, and where; nowhere is at the end.
    fn prepare(
        stand: &Stand,
        files: &FilesOnDisk,
        cell: Cell,
        thread: usize,
    ) -> io::Result<(Target, Vec<u64>)> {
        let piece = vec![1; cell.unit.bytes];
        let Some(law) = cell.pattern.law() else {
            let mut target = stand.open(&files.fresh(thread))?;
            for _ in 0..WRITES_BEFORE {
                target.write(None, &piece)?;
            }
            return Ok((target, Vec::new()));
        };
        let mut target = stand.open(&files.filled(thread))?;
        let units = files.share_bytes(cell.threads) / cell.unit.bytes as u64;
        let choice = Choice::new(law, units, thread as u64);
        let mut choice = choice.map_err(io::Error::other)?;
        let places = (0..PLACES).map(|_| choice.next(units) * cell.unit.bytes as u64);
        let places: Vec<u64> = places.collect();
        for place in &places[..WRITES_BEFORE] {
            target.write(Some(*place), &piece)?;
        }
        Ok((target, places))
    }
}
