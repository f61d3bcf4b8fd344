//! The block cache study's jobs: threads that read and write blocks of raw memory or of an engine
//! for a moment, and how fast that went.
//!
//! The study's requests are asynchronous in the kernel; a library has no queue, so each thread here
//! has one request on its way. What is written always differs from what was there, throughout, so
//! that no design can save itself the copy.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use super::Scope;
use crate::Engine;
use crate::disk::EmulatedDisk;
use crate::virtual_time::{VirtualClock, keep_to_one_processor};
use forebay::{Region, Result};

const BLOCK_BYTES: usize = 4096;

/// Blocks of noise from which a payload may begin.
const NOISE_BLOCKS: usize = 16;

/// What a job reads and writes.
pub trait Target: Sync {
    /// Reads from byte `offset`, a multiple of the block size.
    ///
    /// # Errors
    /// The engine's own.
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()>;

    /// Makes the bytes durable at byte `offset`, a multiple of the block size.
    ///
    /// # Errors
    /// The engine's own; the fence failed.
    fn write(&self, offset: u64, data: &[u8]) -> Result<()>;
}

/// Memory without a cache over it: what there is to reach.
pub struct RawTarget(pub Region);

impl Target for RawTarget {
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.0.read(offset, out);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.0.stream(offset, data);
        // The write is durable before it counts as done.
        Ok(self.0.fence()?)
    }
}

/// An engine. A request larger than one transaction takes several.
pub struct EngineTarget(pub Box<dyn Engine>);

impl Target for EngineTarget {
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.0.read(offset / BLOCK_BYTES as u64, out)
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        let blocks = self.0.transaction_blocks_max().max(1);
        let mut block = offset / BLOCK_BYTES as u64;
        for part in data.chunks(blocks.saturating_mul(BLOCK_BYTES)) {
            self.0.write(block, part)?;
            block += (part.len() / BLOCK_BYTES) as u64;
        }
        Ok(())
    }
}

/// Which blocks a thread goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pattern {
    /// Anywhere.
    Random,
    /// One after the other, each thread in its own part.
    Sequential,
}

/// One job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockJob {
    /// Threads, each with one request on its way.
    pub threads: usize,
    /// Bytes of a request, a multiple of the block size.
    pub request_bytes: usize,
    /// Bytes from the start that are used.
    pub span_bytes: u64,
    /// Requests in a hundred that write.
    pub write_percent: u8,
    /// Which blocks.
    pub pattern: Pattern,
    /// In the time of one processor that skips waits for the disk, not in the host's: for what waits more than it computes.
    pub skips_waits: bool,
}

/// How fast a job went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockOutcome {
    /// Requests done.
    pub requests: u64,
    /// Requests a second, all threads together.
    pub requests_per_s: f64,
    /// Bytes a second, all threads together.
    pub bytes_per_s: f64,
    /// Nanoseconds of one request as its thread saw it, on average.
    pub response_ns: f64,
}

/// Where waits are skipped a turn lasts so much longer: an engine that waits for one block after the other reads few in a moment.
const SKIPPING_LONGER: u32 = 4;

impl BlockJob {
    /// Runs as often as the scope says, together for its duration, or until `is_called_off`.
    ///
    /// # Errors
    /// The first of what the target refused.
    pub fn run(
        &self,
        target: &dyn Target,
        disk: Option<&EmulatedDisk>,
        scope: &Scope,
        is_called_off: &AtomicBool,
    ) -> Result<Vec<BlockOutcome>> {
        let turns = u32::try_from(scope.runs.max(1)).unwrap_or(u32::MAX);
        let turns = (0..turns).map(|turn| {
            let seed = scope.seed.wrapping_add(u64::from(turn) << 16);
            let duration = scope.job_duration / turns;
            if !self.skips_waits {
                let began = Instant::now();
                let now = || began.elapsed();
                return self.turn(target, &now, duration, seed, is_called_off);
            }
            let (clock, _keeper) = VirtualClock::start();
            let duration = SKIPPING_LONGER * duration;
            let set_clock = |clock| {
                if let Some(disk) = disk {
                    disk.set_clock(clock);
                }
            };
            set_clock(Some(Arc::clone(&clock)));
            let outcome = self.turn(target, &|| clock.now(), duration, seed, is_called_off);
            set_clock(None);
            outcome
        });
        turns.collect()
    }

    /// Runs for `duration` of the time that `now` tells, or until `is_called_off`.
    fn turn(
        &self,
        target: &dyn Target,
        now: &(dyn Fn() -> Duration + Sync),
        duration: Duration,
        seed: u64,
        is_called_off: &AtomicBool,
    ) -> Result<BlockOutcome> {
        let is_over = AtomicBool::new(false);
        let start = Barrier::new(self.threads + 1);
        let (counts, elapsed) = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads)
                .map(|number| {
                    let (start, is_over) = (&start, &is_over);
                    scope.spawn(move || {
                        if self.skips_waits {
                            keep_to_one_processor();
                        }
                        let mut worker = Worker::new(self, number, seed);
                        start.wait();
                        worker.run(target, is_over)
                    })
                })
                .collect();
            start.wait();
            let began = now();
            let elapsed = || now().saturating_sub(began);
            while elapsed() < duration && !is_called_off.load(Ordering::Relaxed) {
                std::thread::sleep(duration.min(Duration::from_millis(10)));
            }
            is_over.store(true, Ordering::Relaxed);
            let counts: Vec<Result<u64>> = threads
                .into_iter()
                .map(|thread| thread.join().expect("a worker does not panic"))
                .collect();
            (counts, elapsed())
        });
        let requests = counts.into_iter().sum::<Result<u64>>()?;
        let seconds = elapsed.as_secs_f64();
        let requests_per_s = requests as f64 / seconds;
        Ok(BlockOutcome {
            requests,
            requests_per_s,
            bytes_per_s: requests_per_s * self.request_bytes as f64,
            response_ns: seconds * 1e9 * self.threads as f64 / requests.max(1) as f64,
        })
    }
}

/// One thread of a job.
struct Worker {
    job: BlockJob,
    random: fastrand::Rng,
    payload: Payload,
    buffer: Vec<u8>,
    /// Requests that fit into the span.
    places: u64,
    next_place: u64,
}

impl Worker {
    fn new(job: &BlockJob, number: usize, seed: u64) -> Worker {
        let places = (job.span_bytes / job.request_bytes as u64).max(1);
        Worker {
            job: *job,
            random: fastrand::Rng::with_seed(seed ^ (number as u64) << 32),
            payload: Payload::new(job.request_bytes, seed ^ number as u64),
            buffer: vec![0; job.request_bytes],
            places,
            next_place: places * number as u64 / job.threads as u64,
        }
    }

    /// Requests until it is over, at least one; how many there were.
    fn run(&mut self, target: &dyn Target, is_over: &AtomicBool) -> Result<u64> {
        let mut requests = 0;
        while requests == 0 || !is_over.load(Ordering::Relaxed) {
            let place = match self.job.pattern {
                Pattern::Random => self.random.u64(0..self.places),
                Pattern::Sequential => {
                    self.next_place = (self.next_place + 1) % self.places;
                    self.next_place
                }
            };
            let offset = place * self.job.request_bytes as u64;
            if self.random.u8(0..100) < self.job.write_percent {
                target.write(offset, self.payload.next(&mut self.random))?;
            } else {
                target.read(offset, &mut self.buffer)?;
            }
            requests += 1;
        }
        Ok(requests)
    }
}

/// Bytes unlike all that were given before: noise under another key each time. A block that differs
/// from a cached one in a few words only would be packed with it by Forebay.
struct Payload {
    noise: Vec<u8>,
    request: Vec<u8>,
}

impl Payload {
    fn new(request_bytes: usize, seed: u64) -> Payload {
        let mut noise = vec![0; request_bytes + NOISE_BLOCKS * BLOCK_BYTES];
        fastrand::Rng::with_seed(seed).fill(&mut noise);
        Payload {
            noise,
            request: vec![0; request_bytes],
        }
    }

    /// A piece of the noise from some block on, under a new key.
    fn next(&mut self, random: &mut fastrand::Rng) -> &[u8] {
        let first = random.usize(0..NOISE_BLOCKS) * BLOCK_BYTES;
        let key = random.u64(..).to_le_bytes();
        let words = self.noise[first..].as_chunks::<8>().0;
        for (word, noise) in self.request.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *word = (u64::from_le_bytes(*noise) ^ u64::from_le_bytes(key)).to_le_bytes();
        }
        &self.request
    }
}

/// Bytes of the requests that fill a target.
const FILL_BYTES: usize = 64 * BLOCK_BYTES;

/// Writes every block of the span once, so that reads find something.
///
/// # Errors
/// The target's own.
pub fn fill(target: &dyn Target, span_bytes: u64, seed: u64) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut payload = Payload::new(FILL_BYTES, seed);
    let mut offset = 0;
    while offset < span_bytes {
        let bytes = (span_bytes - offset).min(FILL_BYTES as u64) as usize;
        target.write(offset, &payload.next(&mut random)[..bytes])?;
        offset += bytes as u64;
    }
    Ok(())
}

/// Reads every block of the span once.
///
/// # Errors
/// The target's own.
pub fn read_all(target: &dyn Target, span_bytes: u64) -> Result<()> {
    let mut buffer = vec![0; FILL_BYTES];
    let mut offset = 0;
    while offset < span_bytes {
        let bytes = (span_bytes - offset).min(FILL_BYTES as u64) as usize;
        target.read(offset, &mut buffer[..bytes])?;
        offset += bytes as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Notes which bytes were asked for.
    #[derive(Default)]
    struct Recorder {
        reads: Mutex<Vec<u64>>,
        writes: Mutex<Vec<(u64, Vec<u8>)>>,
    }

    impl Target for Recorder {
        fn read(&self, offset: u64, _out: &mut [u8]) -> Result<()> {
            self.reads.lock().expect("unpoisoned").push(offset);
            Ok(())
        }

        fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
            let write = (offset, data.to_vec());
            self.writes.lock().expect("unpoisoned").push(write);
            Ok(())
        }
    }

    fn job(write_percent: u8, pattern: Pattern) -> BlockJob {
        BlockJob {
            threads: 2,
            request_bytes: 2 * BLOCK_BYTES,
            span_bytes: 64 * BLOCK_BYTES as u64,
            write_percent,
            pattern,
            skips_waits: false,
        }
    }

    fn run(job: BlockJob, target: &dyn Target) -> BlockOutcome {
        let never = AtomicBool::new(false);
        let began = Instant::now();
        job.turn(
            target,
            &|| began.elapsed(),
            Duration::from_millis(5),
            1,
            &never,
        )
        .expect("it ran")
    }

    #[test]
    fn requests_stay_within_the_span_and_are_counted() {
        let recorder = Recorder::default();
        let outcome = run(job(50, Pattern::Random), &recorder);
        let reads = recorder.reads.into_inner().expect("unpoisoned");
        let writes = recorder.writes.into_inner().expect("unpoisoned");
        assert_eq!(outcome.requests, (reads.len() + writes.len()) as u64);
        let offsets = writes.iter().map(|(offset, _)| offset).chain(&reads);
        for offset in offsets {
            assert!(offset % (2 * BLOCK_BYTES as u64) == 0 && *offset < 64 * BLOCK_BYTES as u64);
        }
    }

    #[test]
    fn no_two_writes_carry_anything_of_each_other() {
        let recorder = Recorder::default();
        fill(&recorder, 130 * BLOCK_BYTES as u64, 3).expect("filled");
        let writes = recorder.writes.into_inner().expect("unpoisoned");
        let blocks = writes.iter().flat_map(|(_, data)| data.chunks(BLOCK_BYTES));
        let words = blocks.flat_map(|block| block.chunks(8));
        let distinct: std::collections::HashSet<&[u8]> = words.collect();
        assert_eq!(distinct.len(), 130 * BLOCK_BYTES / 8, "not even a word");
    }

    #[test]
    fn sequential_threads_go_through_parts_of_their_own() {
        let recorder = Recorder::default();
        let one = BlockJob {
            threads: 1,
            ..job(0, Pattern::Sequential)
        };
        run(one, &recorder);
        let reads = recorder.reads.into_inner().expect("unpoisoned");
        let step = 2 * BLOCK_BYTES as u64;
        for pair in reads.windows(2) {
            assert_eq!(pair[1], (pair[0] + step) % (64 * BLOCK_BYTES as u64));
        }
    }
}
