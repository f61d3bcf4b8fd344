//! Threads that write small pieces to private files: at the end, anywhere, or by Zipf's law.
//!
//! Each write is followed by `fdatasync` before the next, unless told otherwise. The clock is read once a
//! write, so a latency includes reading it, some 20 ns.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use forebay_report::Row;

use crate::Result;
use crate::outcome::{Curve, Outcome};
use crate::worker::choice::{Choice, Law};

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

/// What to write.
#[derive(Debug)]
pub struct Plan {
    /// Where.
    pub directory: PathBuf,
    /// How long each pattern.
    pub seconds: f64,
    /// Most bytes appended by all threads together.
    pub append_bytes: u64,
    /// Bytes of a file that is written at random.
    pub file_bytes: u64,
    /// By how many threads.
    pub thread_counts: Vec<usize>,
    /// Whether each write is durable before the next.
    pub is_synced: bool,
}

/// All patterns, sizes and numbers of threads.
///
/// Errors: a write fails.
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

/// One pattern of one size by so many threads.
struct Cell<'a> {
    plan: &'a Plan,
    unit_bytes: usize,
    law: Option<Law>,
    threads: usize,
}

/// What a thread did.
struct Written {
    writes: u64,
    latencies_ns: Vec<u32>,
    elapsed: Duration,
}

impl Cell<'_> {
    fn run(&self, name: &str) -> Result<Outcome> {
        let barrier = Barrier::new(self.threads);
        let paths: Vec<PathBuf> = (0..self.threads)
            .map(|thread| self.plan.directory.join(format!("{name}-{thread}")))
            .collect();
        let written = std::thread::scope(|scope| {
            let work = paths.iter().enumerate().map(|(thread, path)| {
                let barrier = &barrier;
                scope.spawn(move || self.write(path, thread as u64, barrier))
            });
            let work: Vec<_> = work.collect();
            let joined = work.into_iter().map(|thread| match thread.join() {
                Ok(written) => written,
                Err(_) => Err("a writer panicked".into()),
            });
            joined.collect::<Result<Vec<Written>>>()
        })?;
        for path in &paths {
            std::fs::remove_file(path)?;
        }
        // Threads end at their own times: each counts by its own clock.
        let rate = |one: &Written| one.writes as f64 / one.elapsed.as_secs_f64();
        let rate = written.iter().map(rate).sum();
        let mut latencies: Vec<u32> = written
            .into_iter()
            .flat_map(|one| one.latencies_ns)
            .collect();
        let mut outcome = Outcome::rate(name, rate, "writes/s");
        if let Some(curve) = Curve::of(name.to_owned(), &mut latencies) {
            for (suffix, percent) in [("p50", 50.0), ("p99", 99.0)] {
                let row = Row::new(format!("{name}_{suffix}"), curve.at(percent), "ns");
                outcome.rows.push(row);
            }
            outcome.curves.push(curve);
        }
        Ok(outcome)
    }

    fn write(&self, path: &Path, thread: u64, barrier: &Barrier) -> Result<Written> {
        let prepared = self.prepare(path, thread);
        // Also where something failed: the others wait.
        barrier.wait();
        let (mut file, places) = prepared?;
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
            match places.get(writes as usize % PLACES) {
                Some(place) => file.write_all_at(&piece, *place)?,
                None => file.write_all(&piece)?,
            }
            if self.plan.is_synced {
                file.sync_data()?;
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
        })
    }

    /// The file, and where to write; nowhere is at the end.
    fn prepare(&self, path: &Path, thread: u64) -> Result<(File, Vec<u64>)> {
        let mut file = File::create_new(path)?;
        let Some(law) = self.law else {
            // The first sync of a file makes its name durable too.
            for _ in 0..WRITES_BEFORE {
                file.write_all(&vec![1; self.unit_bytes])?;
                file.sync_all()?;
            }
            return Ok((file, Vec::new()));
        };
        let file_bytes = self.plan.file_bytes;
        let piece = vec![1; 1 << 20];
        for _ in 0..file_bytes >> 20 {
            file.write_all(&piece)?;
        }
        for _ in 0..WRITES_BEFORE {
            file.write_all_at(&piece[..self.unit_bytes], 0)?;
            file.sync_all()?;
        }
        let units = file_bytes / self.unit_bytes as u64;
        let mut choice = Choice::new(law, units, thread)?;
        let places = (0..PLACES).map(|_| choice.next(units) * self.unit_bytes as u64);
        Ok((file, places.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_is_measured_and_no_file_is_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let plan = Plan {
            directory: folder.path().to_owned(),
            seconds: 0.01,
            append_bytes: 2 << 20,
            file_bytes: 1 << 20,
            thread_counts: vec![1, 2],
            is_synced: true,
        };
        let outcome = run(&plan).expect("it writes");
        // A rate, a median and a tail of 2 sizes, 3 patterns, 2 numbers of threads.
        assert_eq!(outcome.rows.len(), 3 * 12);
        assert_eq!(outcome.curves.len(), 12);
        assert!(
            outcome
                .rows
                .iter()
                .any(|row| row.name == "append_256b_threads2")
        );
        assert_eq!(std::fs::read_dir(folder.path()).expect("there").count(), 0);
    }
}
