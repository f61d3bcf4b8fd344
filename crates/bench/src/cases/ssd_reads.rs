//! Reads of cached blocks of a pool on an SSD beside the disk's own, on files of the same size on one file system.
//!
//! Blocks lie in the pool in an order of their own, so neighbours are pages far apart. At depth one a block at a random place is read by
//! one call on both sides. At depth 32 one thread reads runs of 256 blocks of the pool from a random one on, of which 32 are under way at a
//! time; the bare side keeps 32 reads of random pages under way in an io_uring, and hands over eight by one call, as the pool does. Beside it stand
//! 32 threads that read one block of the pool at a time, as front ends do.

#![allow(
    unsafe_code,
    reason = "the bare side gives the kernel pointers to its own memory"
)]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_harness::{Result, Row, median};
use forebay_log::{Device, PAGE_BYTES, Pages, Transaction};
use io_uring::{IoUring, opcode, types};
use rustix::fs::OFlags;

use super::Bench;
use super::ssd::{Sides, in_turn, sides};
use crate::payload::{Blocks, Payload};

/// Blocks of a transaction that fills the pool.
const FILL_BLOCKS: usize = 64;
/// Reads under way.
const DEPTH: usize = 32;
/// Reads of the bare side that are handed over by one call.
const AT_ONCE: usize = 8;
/// Blocks of one read of the pool.
const RUN_BLOCKS: u64 = 256;

/// Every block is written once, so that reads hit.
fn fill(sides: &Sides) -> Result<()> {
    let mut payload = Payload::new(40);
    let mut blocks: Vec<u64> = (0..sides.blocks).collect();
    fastrand::Rng::with_seed(41).shuffle(&mut blocks);
    for some in blocks.chunks(FILL_BLOCKS) {
        sides.rest()?;
        let mut transaction = Transaction::new();
        for block in some {
            transaction.write(1, *block, payload.next())?;
        }
        sides.log.commit(transaction)?;
    }
    Ok(())
}

/// The median of the rounds' ratios.
fn row(
    sides: &Sides,
    name: &str,
    ours: impl Fn(u64) -> Result<f64>,
    bare: impl Fn(u64) -> Result<f64>,
) -> Result<Row> {
    let mut ratios = Vec::new();
    for round in 0..sides.rounds {
        let seed = 50 + round as u64;
        let (ours, bare) = in_turn(round, || ours(seed), || bare(seed))?;
        ratios.push(ours / bare);
    }
    Ok(Row::new(name, median(ratios), "ratio"))
}

/// How many blocks a second threads read, each of them one at a time.
fn one_by_one(
    sides: &Sides,
    (threads, seed): (usize, u64),
    read: impl Fn(u64, &mut [u8]) -> Result<()> + Sync,
) -> Result<f64> {
    sides.rate(threads, |thread, is_over| {
        let mut random = Blocks::new(seed + thread as u64, 0, sides.blocks);
        let (mut page, mut done) = (Pages::zeroed(1), 0);
        while !is_over.load(Ordering::Relaxed) {
            read(random.next(), &mut page)?;
            done += 1;
        }
        Ok(done)
    })
}

/// How many blocks a second one thread reads of the pool, a run at a time.
fn runs(sides: &Sides, seed: u64) -> Result<f64> {
    sides.rate(1, |_, is_over| {
        let mut random = Blocks::new(seed, 0, sides.blocks - RUN_BLOCKS);
        let (mut out, mut done) = (Pages::zeroed(RUN_BLOCKS as usize), 0);
        while !is_over.load(Ordering::Relaxed) {
            let readings = sides.log.begin_reads(1, random.next(), RUN_BLOCKS);
            for read in sides.log.finish_reads(&readings, &mut out) {
                done += u64::from(read?.is_some());
            }
        }
        Ok(done)
    })
}

/// How many pages a second one thread reads of the bare file with 32 under way.
fn bare(sides: &Sides, seed: u64) -> Result<f64> {
    let file = sides.direct.open_for_bytes()?;
    rustix::fs::fcntl_setfl(&file, OFlags::DIRECT)?;
    sides.rate(1, |_, is_over| {
        bare_until(&file, is_over, Blocks::new(seed, 0, sides.blocks))
    })
}

fn bare_until(file: &File, is_over: &AtomicBool, mut random: Blocks) -> Result<u64> {
    let mut ring = IoUring::new(DEPTH as u32)?;
    let mut memory = Pages::zeroed(DEPTH);
    let mut places: Vec<*mut u8> = memory
        .chunks_exact_mut(PAGE_BYTES)
        .map(<[u8]>::as_mut_ptr)
        .collect();
    let (mut under_way, mut done) = (0, 0);
    loop {
        let ends = is_over.load(Ordering::Relaxed);
        while !ends && let Some(place) = places.pop() {
            let fd = types::Fd(file.as_raw_fd());
            let read = opcode::Read::new(fd, place, PAGE_BYTES as u32);
            let read = read.offset(random.next() * PAGE_BYTES as u64);
            let read = read.build().user_data(place.addr() as u64);
            // SAFETY: the page and the file live until the loop has ended, which it does when no read is under way.
            unsafe { ring.submission().push(&read) }?;
            under_way += 1;
        }
        if under_way == 0 {
            return Ok(done);
        }
        let awaited = if ends { under_way } else { AT_ONCE };
        ring.submit_and_wait(awaited)?;
        for back in ring.completion() {
            assert_eq!(back.result(), PAGE_BYTES as i32, "a whole page");
            let place = back.user_data() as usize;
            places.push(memory.as_mut_ptr().with_addr(place));
            (under_way, done) = (under_way - 1, done + 1);
        }
    }
}

/// Reads of cached blocks, at depth one and at depth 32.
pub fn reads(bench: &Bench) -> Result<Vec<Row>> {
    let sides = &sides(bench)?;
    fill(sides)?;
    let pool = |block, page: &mut [u8]| Ok(sides.log.read(1, block, page).map(drop)?);
    let file = |block, page: &mut [u8]| Ok(sides.direct.read(block, page)?);
    let (name, many) = ("ssd_read_qd1_vs_pread", "ssd_read_qd32_vs_uring");
    let by_threads = "ssd_read_32threads_vs_uring";
    let one = |seed| one_by_one(sides, (1, seed), pool);
    let each_one = |seed| one_by_one(sides, (DEPTH, seed), pool);
    Ok(vec![
        row(sides, name, one, |seed| one_by_one(sides, (1, seed), file))?,
        row(
            sides,
            many,
            |seed| runs(sides, seed),
            |seed| bare(sides, seed),
        )?,
        row(sides, by_threads, each_one, |seed| bare(sides, seed))?,
    ])
}
