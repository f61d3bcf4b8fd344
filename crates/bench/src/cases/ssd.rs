//! Commits of the engine of pools on an SSD beside the disk's own durable writes, on files of the same size on one file
//! system, the one that the report goes to.
//!
//! Both sides take turns in slices, in rounds whose order alternates; the ratio is that within a round. The bare side is one
//! 4 KiB write at a random place of a prefilled file, by `pwritev2` with `RWF_DSYNC` or by `pwrite` and `fdatasync`, whichever was faster
//! in the round. A round in which it is slower than a third of its best is a slow spell of the disk and is left out; if too few are
//! left, the row says `noisy` and no number. Segments are recycled between the slices: write-back rests.
//!
//! A goal beside a bar is the bar of devices whose flush takes 100 µs or more (`ssd_bare_write_us`): on faster ones the processor's
//! part of a commit has nothing to hide behind.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use forebay_harness::{Result, Row, check_interrupt, median};
use forebay_log::{
    Backing, Device, DeviceCounters, FileDevice, Log, LogError, Options, PAGE_BYTES, Pages,
    Transaction, create,
};

use super::Bench;
use crate::payload::{Blocks, Payload};

/// Slices of quick runs are shorter than this.
const SLICE_MIN: Duration = Duration::from_millis(100);
const ROUNDS: usize = 10;
const ROUNDS_QUICK: usize = 2;
/// With fewer rounds left the row is noise.
const ROUNDS_LEFT_PERCENT: usize = 60;
const SLICE: Duration = Duration::from_millis(300);
const SLICE_QUICK: Duration = Duration::from_millis(20);
/// Blocks that the commits go to: a quarter of the pool, so that the tail is mostly dead.
const BLOCKS_SHARE: u64 = 4;
/// Segments that are free before a slice, of the ring's, in per cent.
const FREE_PERCENT: u64 = 70;
/// Devices with a flush as slow as this are held to the goals.
const SLOW_FLUSH_US: f64 = 100.0;
/// Commits whose device pages are counted.
const COUNTED: u64 = 2_000;
const COUNTED_QUICK: u64 = 50;
/// Bytes of an append that is counted, and the block with which these begin: behind all others.
const APPENDED_BYTES: u64 = 256;
const APPENDED_FROM: u64 = 1 << 30;

/// A disk that takes everything and holds nothing: what is written back is not measured.
struct Nowhere;

impl Backing for Nowhere {
    fn read(&self, _block: u64, out: &mut [u8]) -> std::io::Result<()> {
        out.fill(0);
        Ok(())
    }
    fn write(&self, _block: u64, _bytes: &[u8]) -> std::io::Result<()> {
        Ok(())
    }
    fn zero(&self, _first: u64, _count: u64) -> std::io::Result<()> {
        Ok(())
    }
    fn sync(&self) -> std::io::Result<()> {
        Ok(())
    }
}

fn is_quick(bench: &Bench) -> bool {
    bench.pace.slice < SLICE_MIN
}

/// The pool, the bare file, and how long and how often.
pub(super) struct Sides {
    device: Arc<FileDevice>,
    pub(super) log: Log,
    pub(super) direct: FileDevice,
    buffered: File,
    pub(super) blocks: u64,
    slice: Duration,
    pub(super) rounds: usize,
    /// What a bare write of one thread takes.
    bare_write_us: f64,
}

impl Sides {
    fn new(bench: &Bench, pool: &Path, direct: &Path, buffered: &Path) -> Result<Sides> {
        let (slice, rounds) = match is_quick(bench) {
            true => (SLICE_QUICK, ROUNDS_QUICK),
            false => (SLICE, ROUNDS),
        };
        let bytes = bench.pool_bytes;
        let device = Arc::new(FileDevice::create(pool, bytes)?);
        let log = create(device.clone(), Options::default())?;
        log.attach(1, Arc::new(Nowhere));
        // Written once, both of them, as the pool is.
        let bare = FileDevice::create(direct, bytes)?;
        drop(FileDevice::create(buffered, bytes)?);
        let mut sides = Sides {
            device,
            log,
            direct: bare,
            buffered: File::options().write(true).open(buffered)?,
            blocks: bytes / PAGE_BYTES as u64 / BLOCKS_SHARE,
            slice,
            rounds,
            bare_write_us: 0.0,
        };
        let rates = (0..rounds).map(|round| sides.bare(1, true, 89 + round as u64));
        let rates = rates.collect::<Result<Vec<f64>>>()?;
        sides.bare_write_us = median(rates).map_or(0.0, |rate| 1e6 / rate);
        Ok(sides)
    }

    /// Recycles until most of the ring is free.
    pub(super) fn rest(&self) -> Result<()> {
        let segments = self.device.pages() / u64::from(self.log.segment_pages());
        while self.log.free_segments() * 100 < segments * FREE_PERCENT && self.log.recycle()? {}
        Ok(())
    }

    /// Transactions of so many blocks by so many threads; how many a second.
    fn commits(&self, threads: usize, blocks: u64, seed: u64) -> Result<f64> {
        self.rest()?;
        self.rate(threads, |thread, is_over| {
            let seed = seed + thread as u64;
            let (mut payload, mut random) = (Payload::new(seed), Blocks::new(seed, 0, self.blocks));
            let mut done = 0;
            while !is_over.load(Ordering::Relaxed) {
                commit(&self.log, blocks, &mut payload, &mut random)?;
                done += 1;
            }
            Ok(done)
        })
    }

    /// 4 KiB writes at random places, durable when they return.
    fn bare(&self, threads: usize, is_direct: bool, seed: u64) -> Result<f64> {
        self.rate(threads, |thread, is_over| {
            let seed = seed + thread as u64;
            let mut random = Blocks::new(seed, 0, self.direct.pages());
            let mut page = Pages::zeroed(1);
            page.copy_from_slice(Payload::new(seed).next());
            let mut done = 0;
            while !is_over.load(Ordering::Relaxed) {
                let block = random.next();
                if is_direct {
                    self.direct.write_durable(block, &[&page])?;
                } else {
                    self.buffered
                        .write_all_at(&page, block * PAGE_BYTES as u64)?;
                    self.buffered.sync_data()?;
                }
                done += 1;
            }
            Ok(done)
        })
    }

    pub(super) fn rate(
        &self,
        threads: usize,
        work: impl Fn(usize, &AtomicBool) -> Result<u64> + Sync,
    ) -> Result<f64> {
        check_interrupt()?;
        let (is_over, done) = (AtomicBool::new(false), AtomicU64::new(0));
        let start = Instant::now();
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|thread| {
                    let (work, is_over, done) = (&work, &is_over, &done);
                    scope.spawn(move || {
                        let count = work(thread, is_over).map_err(|error| error.to_string())?;
                        done.fetch_add(count, Ordering::Relaxed);
                        Ok::<(), String>(())
                    })
                })
                .collect();
            std::thread::sleep(self.slice);
            is_over.store(true, Ordering::Relaxed);
            let mut ends = workers.into_iter().map(|worker| worker.join());
            ends.try_for_each(|end| end.unwrap_or_else(|_| Err("a thread died".into())))
        })?;
        Ok(done.into_inner() as f64 / start.elapsed().as_secs_f64())
    }

    /// How many times as fast a bare write of one page is done as one of seventeen, which is what sixteen blocks are with their
    /// record: the device's own limit for those.
    fn seventeen_pages(&self) -> Result<Option<f64>> {
        let mut ratios = Vec::new();
        for round in 0..self.rounds {
            let one = self.bare(1, true, 70 + round as u64)?;
            let pages = Pages::zeroed(17);
            let most = self.direct.pages() - 17;
            let seventeen = self.rate(1, |_, is_over| {
                let mut done = 0;
                while !is_over.load(Ordering::Relaxed) {
                    self.direct.write_durable(done * 17 % most, &[&pages])?;
                    done += 1;
                }
                Ok(done)
            })?;
            ratios.push(seventeen / one);
        }
        Ok(median(ratios))
    }

    /// The row of transactions of so many blocks by so many threads; slow devices are held to the goal.
    fn row(&self, bench: &Bench, name: &str, goal: f64, shape: (usize, u64)) -> Result<Row> {
        let (threads, blocks) = shape;
        let mut rounds = Vec::new();
        for round in 0..self.rounds {
            let seed = 90 + (round * threads) as u64 * 3;
            let ours = || self.commits(threads, blocks, seed);
            let bare = || -> Result<f64> {
                let direct = self.bare(threads, true, seed)?;
                Ok(direct.max(self.bare(threads, false, seed)?))
            };
            rounds.push(in_turn(round, ours, bare)?);
        }
        let best = rounds.iter().map(|(_, bare)| *bare).fold(0.0, f64::max);
        rounds.retain(|(_, bare)| *bare * 3.0 >= best);
        let mut ratios: Vec<f64> = rounds.iter().map(|(ours, bare)| ours / bare).collect();
        ratios.sort_by(f64::total_cmp);
        let left = ratios.len();
        if left * 100 < self.rounds * ROUNDS_LEFT_PERCENT {
            bench.say(&format!(
                "  {name}: noisy: {left} of {} rounds left",
                self.rounds
            ));
            return Ok(Row::new(name, None, "ratio (noisy)"));
        }
        let quartiles = (ratios[left / 4], ratios[left * 3 / 4]);
        bench.say(&format!(
            "  {name}: quartiles {:.2} and {:.2}, {left} of {} rounds, bare at best {best:.0}/s",
            quartiles.0, quartiles.1, self.rounds
        ));
        let ratio = median(ratios);
        let is_held_to_goal = self.bare_write_us >= SLOW_FLUSH_US;
        let is_short = is_held_to_goal && ratio.is_some_and(|ratio| ratio < goal);
        let note = is_short.then_some("SHORT of the goal, the bar of such a slow flush");
        Ok(Row::new(name, ratio, "ratio").with_note(note))
    }

    /// What so many commits ask of the device, for each.
    fn counted(&self, blocks: u64, commits: u64) -> Result<(f64, f64)> {
        let before: DeviceCounters = self.device.counters();
        let (mut payload, mut random) = (Payload::new(91), Blocks::new(91, 0, self.blocks));
        for _ in 0..commits {
            commit(&self.log, blocks, &mut payload, &mut random)?;
        }
        let counted = self.device.counters().since(&before);
        let commits = commits as f64;
        Ok((
            counted.pages_written as f64 / commits,
            counted.flushes as f64 / commits,
        ))
    }
}

/// Pages a commit of 256 bytes behind the last ones, by one thread, of which each block is new.
fn pages_of_appends(log: &Log, device: &dyn Device, commits: u64) -> Result<f64> {
    let before = device.counters();
    let mut payload = Payload::new(92);
    for number in 0..commits {
        let at = number * APPENDED_BYTES;
        let (block, within) = (
            APPENDED_FROM + at / PAGE_BYTES as u64,
            at % PAGE_BYTES as u64,
        );
        let bytes = &payload.next()[..APPENDED_BYTES as usize];
        loop {
            let mut transaction = Transaction::new();
            transaction.append(1, block, within as usize, bytes)?;
            match log.commit(transaction) {
                Err(LogError::NoRoom { .. }) => drop(log.recycle()?),
                committed => break committed?,
            }
        }
    }
    let counted = device.counters().since(&before);
    Ok(counted.pages_written as f64 / commits as f64)
}

/// What both sides reach, in an order that changes from round to round.
pub(super) fn in_turn(
    round: usize,
    ours: impl FnOnce() -> Result<f64>,
    bare: impl FnOnce() -> Result<f64>,
) -> Result<(f64, f64)> {
    if round.is_multiple_of(2) {
        return Ok((ours()?, bare()?));
    }
    let bare = bare()?;
    Ok((ours()?, bare))
}

fn commit(log: &Log, blocks: u64, payload: &mut Payload, random: &mut Blocks) -> Result<()> {
    loop {
        let mut transaction = Transaction::new();
        for _ in 0..blocks {
            transaction.write(1, random.next(), payload.next())?;
        }
        match log.commit(transaction) {
            Err(LogError::NoRoom { .. }) => drop(log.recycle()?),
            committed => return Ok(committed?),
        }
    }
}

/// Both sides on files of their own.
pub(super) fn sides(bench: &Bench) -> Result<Sides> {
    let files = ["pool", "direct", "buffered"].map(|name| bench.scratch.disk_file(name));
    Sides::new(bench, files[0].path(), files[1].path(), files[2].path())
}

/// All rows of commits.
pub fn commits(bench: &Bench) -> Result<Vec<Row>> {
    let sides = sides(bench)?;
    let commits = if is_quick(bench) {
        COUNTED_QUICK
    } else {
        COUNTED
    };
    let (pages, flushes) = sides.counted(1, commits)?;
    let (pages_of_sixteen, _) = sides.counted(16, commits)?;
    let pages_of_append = pages_of_appends(&sides.log, &*sides.device, commits)?;
    Ok(vec![
        Row::new("ssd_append_256_device_pages", pages_of_append, "pages"),
        Row::new("ssd_1x4k_device_pages", pages, "pages"),
        Row::new("ssd_1x4k_flushes", flushes, "flushes"),
        Row::new(
            "ssd_16x4k_pages_per_block",
            pages_of_sixteen / 16.0,
            "pages",
        ),
        Row::new("ssd_bare_write_us", sides.bare_write_us, "µs"),
        Row::new("ssd_bare_17_pages_vs_1", sides.seventeen_pages()?, "ratio"),
        sides.row(bench, "ssd_commit_1x4k_vs_bare", 0.90, (1, 1))?,
        sides.row(bench, "ssd_commit_16x4k_vs_bare_4k", 0.85, (1, 16))?,
        sides.row(bench, "ssd_commit_4threads_vs_bare", 1.1, (4, 1))?,
        sides.row(bench, "ssd_commit_16threads_vs_bare", 2.0, (16, 1))?,
    ])
}
