//! Threads that write small pieces to private files: at the end, anywhere, or by Zipf's law.
//!
//! Each write is followed by `fdatasync` before the next, unless told otherwise. The clock is read once a
//! write, so a latency includes reading it, some 20 ns.

use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use forebay_harness::choice::{Choice, Law};
use forebay_harness::{OwnTime, Result, Row, processor_time};
use serde::{Deserialize, Serialize};

use crate::outcome::{Curve, Outcome};
use crate::worker::target::Target;

const UNITS: [(&str, usize); 2] = [("256b", 256), ("16k", 16 << 10)];
const PATTERNS: [(&str, Option<Law>); 3] = [
    ("append", None),
    ("uniform", Some(Law::Uniform)),
    ("zipf", Some(Law::Zipf)),
];
/// Places are chosen before the clock runs, and used again and again.
const PLACES: usize = 1 << 16;
/// Writes with their syncs before the clock runs.
const WRITES_BEFORE: u64 = 4;
/// More latencies than that are not kept.
const LATENCIES_MAX: usize = 1 << 21;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    pub directory: PathBuf,
    pub seconds: f64,
    pub append_bytes: u64,
    pub file_bytes: u64,
    pub thread_counts: Vec<usize>,
    pub is_synced: bool,
    pub is_raw: bool,
    /// A process whose time is part of what a write takes.
    pub server: Option<u32>,
}

impl Plan {
    /// What this process has used of the processors, and the server.
    fn processor_times(&self) -> Result<(OwnTime, u64)> {
        let server = self.server.map(processor_time).transpose()?;
        let server_ns = server.unwrap_or_default().as_nanos() as u64;
        Ok((OwnTime::now()?, server_ns))
    }
}

/// All patterns, sizes and numbers of threads.
pub fn run(plan: &Plan) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for (unit_name, unit_bytes) in UNITS {
        for (pattern, law) in PATTERNS {
            for threads in &plan.thread_counts {
                let name = format!("{pattern}_{unit_name}_threads{threads}");
                let cell = Cell {
                    plan,
                    unit_bytes,
                    law,
                    threads: *threads,
                };
                outcome = outcome.and(cell.run(&name)?);
            }
        }
    }
    Ok(outcome)
}

struct Cell<'a> {
    plan: &'a Plan,
    unit_bytes: usize,
    law: Option<Law>,
    threads: usize,
}

struct Written {
    writes: u64,
    latencies_ns: Vec<u32>,
    elapsed: Duration,
    /// Closed when the processors' time is known: what a close does is not part of it.
    _target: Target,
}

impl Cell<'_> {
    fn run(&self, name: &str) -> Result<Outcome> {
        let paths: Vec<PathBuf> = (0..self.threads)
            .map(|thread| self.plan.directory.join(format!("{name}-{thread}")))
            .collect();
        // One more than write: the thread that reads the processors' time.
        let barrier = Barrier::new(self.threads + 1);
        let (written, before) = std::thread::scope(|scope| {
            let work = paths.iter().enumerate().map(|(thread, path)| {
                let barrier = &barrier;
                scope.spawn(move || self.write(path, thread as u64, barrier))
            });
            let work: Vec<_> = work.collect();
            barrier.wait();
            let before = self.plan.processor_times();
            let joined = work.into_iter().map(|thread| match thread.join() {
                Ok(written) => written,
                Err(_) => Err("a writer panicked".into()),
            });
            (joined.collect::<Result<Vec<Written>>>(), before)
        });
        let (written, before) = (written?, before?);
        let after = self.plan.processor_times()?;
        let mut outcome = speed(name, &written);
        // Of the patterns that wait for no place, where the time of a write goes.
        if self.law.is_none() {
            let writes: u64 = written.iter().map(|one| one.writes).sum();
            let (user_ns, kernel_ns) = after.0.since(before.0);
            let mut row = |part: &str, time_ns: f64| {
                let per_write_ns = time_ns / writes as f64;
                let row = Row::new(format!("{name}_{part}"), per_write_ns, "ns");
                outcome.rows.push(row);
            };
            row("user", user_ns);
            row("kernel", kernel_ns);
            if self.plan.server.is_some() {
                // Threads of it that ended meanwhile take their time with them.
                row("server", after.1.saturating_sub(before.1) as f64);
            }
        }
        drop(written);
        for path in &paths {
            std::fs::remove_file(path)?;
        }
        Ok(outcome)
    }

    fn write(&self, path: &Path, thread: u64, barrier: &Barrier) -> Result<Written> {
        let prepared = self.prepare(path, thread);
        // Also where something failed: the others wait.
        barrier.wait();
        let (mut target, places) = prepared?;
        let piece = vec![0x5a_u8.wrapping_add(thread as u8); self.unit_bytes];
        let limit = match places.is_empty() {
            true => self.plan.append_bytes / (self.unit_bytes * self.threads) as u64,
            false => u64::MAX,
        };
        let length = Duration::from_secs_f64(self.plan.seconds);
        let mut latencies_ns = Vec::with_capacity(LATENCIES_MAX);
        let mut writes = 0;
        let began = Instant::now();
        let mut before = began;
        while writes < limit && before - began < length {
            let place = places.get(writes as usize % PLACES);
            target.write(&piece, place.copied())?;
            if self.plan.is_synced {
                target.sync(false)?;
            }
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
            latencies_ns,
            elapsed: before - began,
            _target: target,
        })
    }

    /// What to write to, and where; nowhere is at the end.
    fn prepare(&self, path: &Path, thread: u64) -> Result<(Target, Vec<u64>)> {
        let file_bytes = self.plan.file_bytes;
        let is_filled = self.law.is_some();
        let mut target = Target::create(path, self.plan.is_raw, file_bytes, is_filled)?;
        let piece = vec![1; self.unit_bytes];
        // The first sync of a file makes its name durable too.
        for _ in 0..WRITES_BEFORE {
            target.write(&piece, self.law.map(|_| 0))?;
            target.sync(true)?;
        }
        let Some(law) = self.law else {
            return Ok((target, Vec::new()));
        };
        let units = file_bytes / self.unit_bytes as u64;
        let mut choice = Choice::new(law, units, thread)?;
        let places = (0..PLACES).map(|_| choice.next(units) * self.unit_bytes as u64);
        Ok((target, places.collect()))
    }
}

fn speed(name: &str, written: &[Written]) -> Outcome {
    // Threads end at their own times: each counts by its own clock.
    let rate = |one: &Written| one.writes as f64 / one.elapsed.as_secs_f64();
    let mut outcome = Outcome::rate(name, written.iter().map(rate).sum(), "writes/s");
    let latencies = written.iter().flat_map(|one| &one.latencies_ns);
    let mut latencies_ns: Vec<u32> = latencies.copied().collect();
    if let Some(curve) = Curve::of(name.to_owned(), &mut latencies_ns) {
        for (suffix, percent) in [("p50", 50.0), ("p99", 99.0)] {
            let row = Row::new(format!("{name}_{suffix}"), curve.at(percent), "ns");
            outcome.rows.push(row);
        }
        outcome.curves.push(curve);
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_is_measured_and_no_file_is_left() {
        let folder = tempfile::tempdir().expect("a folder");
        for is_raw in [false, true] {
            let plan = Plan {
                directory: folder.path().to_owned(),
                seconds: 0.01,
                append_bytes: 2 << 20,
                file_bytes: 1 << 20,
                thread_counts: vec![1, 2],
                is_synced: true,
                is_raw,
                server: Some(std::process::id()),
            };
            let outcome = run(&plan).expect("it writes");
            // A rate, a median and a tail of 2 sizes, 3 patterns, 2 numbers of threads; of the appends
            // three shares of time too.
            assert_eq!(outcome.rows.len(), 3 * 12 + 3 * 4);
            assert_eq!(outcome.curves.len(), 12);
            for name in ["append_256b_threads2", "append_16k_threads1_server"] {
                assert!(outcome.rows.iter().any(|row| row.name == name), "{name}");
            }
            let left = std::fs::read_dir(folder.path()).expect("there").count();
            assert_eq!(left, 0);
        }
    }
}
