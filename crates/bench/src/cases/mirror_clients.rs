//! The slowest of the clients' commits while a mirror is scrubbed or a member rebuilt, beside those while it is not.
//!
//! One thread commits one block after the other, at 70 % of the rate that it reaches alone. A row counts how long commits
//! took; another one how long after they were due they had been done, where each waits behind a slow one. On a machine that others use,
//! too, that one says when the thread had no processor.

use std::ops::ControlFlow;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use forebay::{RebuildOptions, RebuildProgress, ScrubOptions};

use super::Bench;
use crate::payload::{BLOCK_BYTES, Blocks, Payload};
use crate::pools::{self, CachedPool, Members, commit_one};
use forebay_harness::{Result, Row, check_interrupt, median};

/// Share of their peak at which clients commit.
const LOAD: f64 = 0.7;
/// Slices of the other cases that a window lasts.
const SLICES: u32 = 5;
/// Of the blocks, the share that clients change: a rebuild has nothing to do for what they changed since it began.
const CHANGED_SHARE: u64 = 4;
const MIB: f64 = (1 << 20) as f64;
/// Bytes that a scrub reads a second.
const SCRUB_BYTES_S: u64 = 24 << 20;
/// Bytes that a rebuild copies a second.
const REBUILD_BYTES_S: u64 = 128 << 20;

/// Commits of blocks at random.
struct Client<'p> {
    cached: &'p CachedPool,
    payload: Payload,
    blocks: Blocks,
    /// How long commits took.
    took: Vec<Duration>,
    /// How long after they were due they had been done.
    took_queued: Vec<Duration>,
}

impl<'p> Client<'p> {
    fn new(cached: &'p CachedPool) -> Client<'p> {
        Client {
            cached,
            payload: Payload::new(91),
            blocks: Blocks::new(91, 0, cached.blocks / CHANGED_SHARE),
            took: Vec::new(),
            took_queued: Vec::new(),
        }
    }

    /// Commits a second without a pause.
    fn peak(&mut self, window: Duration) -> Result<f64> {
        let (start, mut commits) = (Instant::now(), 0);
        loop {
            commit_one(&self.cached.volume, self.blocks.next(), self.payload.next())?;
            commits += 1;
            let elapsed = start.elapsed();
            if elapsed >= window {
                return Ok(f64::from(commits) / elapsed.as_secs_f64());
            }
        }
    }

    /// Commits so many a second until it has ended.
    fn paced(&mut self, rate: f64, has_ended: impl Fn(Duration) -> bool) -> Result<Slowest> {
        let period_ns = 1e9 / rate;
        let start = Instant::now();
        for number in 0_u64.. {
            let due = Duration::from_nanos((number as f64 * period_ns) as u64);
            let mut now = start.elapsed();
            if has_ended(now) {
                break;
            }
            while now < due {
                std::hint::spin_loop();
                now = start.elapsed();
            }
            commit_one(&self.cached.volume, self.blocks.next(), self.payload.next())?;
            let end = start.elapsed();
            self.took.push(end - now);
            self.took_queued.push(end - due);
        }
        Ok(Slowest {
            us: p99_us(&mut self.took),
            queued_us: p99_us(&mut self.took_queued),
        })
    }
}

fn p99_us(took: &mut Vec<Duration>) -> f64 {
    if took.is_empty() {
        return 0.0;
    }
    let slowest = took.len() * 99 / 100;
    let (_, p99, _) = took.select_nth_unstable(slowest);
    let p99_us = p99.as_secs_f64() * 1e6;
    took.clear();
    p99_us
}

/// The 99th percentile of commits, from their beginning, and from when they were due.
#[derive(Clone, Copy, Default)]
struct Slowest {
    us: f64,
    queued_us: f64,
}

/// Clients alone, and beside work that does so many MiB a second.
struct Pair {
    idle: Slowest,
    loaded: Slowest,
    work_mib_s: f64,
}

fn rows_of(
    bench: &Bench,
    what: &str,
    cached: &CachedPool,
    loaded: impl Fn(&mut Client<'_>, f64, Duration) -> Result<(Slowest, f64)>,
) -> Result<Vec<Row>> {
    let window = bench.pace.slice * SLICES;
    let mut client = Client::new(cached);
    client.peak(window)?;
    let mut pairs = Vec::new();
    bench.progress.set_length(bench.repeats as u64);
    for number in 0..bench.repeats {
        check_interrupt()?;
        bench.progress.set_position(number as u64);
        let rate = client.peak(window / SLICES)? * LOAD;
        // What a window leaves behind is not always the same one's.
        let mut idle = Slowest::default();
        if number % 2 == 0 {
            idle = client.paced(rate, |elapsed| elapsed >= window)?;
        }
        let (loaded, work_mib_s) = loaded(&mut client, rate, window)?;
        if number % 2 == 1 {
            idle = client.paced(rate, |elapsed| elapsed >= window)?;
        }
        bench.say(&format!(
            "  {rate:.0} commits/s: p99 {:.1} µs, {:.1} µs beside a {what} of {work_mib_s:.0} MiB/s; from when \
             they were due {:.0} µs and {:.0} µs",
            idle.us, loaded.us, idle.queued_us, loaded.queued_us
        ));
        pairs.push(Pair {
            idle,
            loaded,
            work_mib_s,
        });
    }
    let of = |value: fn(&Pair) -> f64| median(pairs.iter().map(value).collect());
    let queued = of(|pair| pair.loaded.queued_us / pair.idle.queued_us);
    Ok(vec![
        Row::new(
            format!("p99_{what}_vs_idle"),
            of(|pair| pair.loaded.us / pair.idle.us),
            "ratio",
        ),
        Row::new(
            format!("{what}_loaded_mib_s"),
            of(|pair| pair.work_mib_s),
            "MiB/s",
        ),
        Row::new(format!("p99_{what}_queued_vs_idle"), queued, "ratio"),
    ])
}

/// Beside a scrub.
pub fn beside_scrub(bench: &Bench) -> Result<Vec<Row>> {
    let members = Members::new(&bench.scratch);
    let cached = pools::half_full(&members.mirror(bench.pool_bytes / 4))?;
    let options = ScrubOptions::default().rate_bytes_s(Some(SCRUB_BYTES_S));
    rows_of(bench, "scrub", &cached, |client, rate, window| {
        let start = Instant::now();
        let end = start + window;
        std::thread::scope(|scope| {
            let scrubbing = scope.spawn(|| {
                let report = cached
                    .pool
                    .scrub(&options, &mut |_| match Instant::now() < end {
                        true => ControlFlow::Continue(()),
                        false => ControlFlow::Break(()),
                    });
                (report, start.elapsed())
            });
            let slowest = client.paced(rate, |_| scrubbing.is_finished())?;
            let (report, took) = scrubbing.join().map_err(|_| "the scrub panicked")?;
            let bytes = 2 * report?.slots * BLOCK_BYTES as u64;
            Ok((slowest, bytes as f64 / MIB / took.as_secs_f64()))
        })
    })
}

/// Beside the rebuilding of a member.
pub fn beside_rebuild(bench: &Bench) -> Result<Vec<Row>> {
    let members = Members::new(&bench.scratch);
    let cached = pools::half_full(&members.mirror(bench.pool_bytes / 4))?;
    let options = RebuildOptions::default().rate_bytes_s(Some(REBUILD_BYTES_S));
    rows_of(bench, "rebuild", &cached, |client, rate, _| {
        cached.pool.fail_member(1)?;
        // The new member's file is made before that.
        let began = OnceLock::new();
        std::thread::scope(|scope| {
            let rebuilding = scope.spawn(|| {
                let mut bytes = 0;
                let mut watcher = |progress: RebuildProgress| {
                    began.get_or_init(Instant::now);
                    bytes = bytes.max(progress.done_bytes);
                    ControlFlow::Continue(())
                };
                let path = members.paths()[1];
                let rebuilt = cached.pool.replace_member(1, path, &options, &mut watcher);
                rebuilt.map(|()| (bytes, began.get_or_init(Instant::now).elapsed()))
            });
            let has_begun = || began.get().is_some() || rebuilding.is_finished();
            client.paced(rate, |_| has_begun())?;
            let slowest = client.paced(rate, |_| rebuilding.is_finished())?;
            let (bytes, took) = rebuilding.join().map_err(|_| "the rebuild panicked")??;
            Ok((slowest, bytes as f64 / MIB / took.as_secs_f64()))
        })
    })
}
