//! Throughput of commits beside raw memory and the C libraries.
//!
//! The raw reference is the faster of libpmem's `pmem_memcpy_persist` and our own non-temporal
//! stream with a fence, to uniformly random blocks of as much memory as the pool has, mapped in the
//! same way. libpmem's own mapping takes part too, and is reported beside. Raw copies run with the
//! best kernel always; ours with what the environment asks for, and once more with each AVX2 kernel.

#![allow(unsafe_code, reason = "libpmem writes to addresses")]

use forebay::{Region, Volume};
use forebay_pmem::Kernel;

use super::{Bench, kernels};
use crate::contest::{Contender, Outcome};
use crate::nvml::{BlkPool, ObjPool, Pmem, PmemFile};
use crate::payload::{BLOCK_BYTES, Blocks, Payload};
use crate::pools::{self, commit_one};
use crate::scratch::ScratchFile;
use forebay_harness::{Result, Row};

/// Operations between two looks at the clock.
const BATCH: u64 = 64;
/// Added to a seed for contenders with kernels of their own.
const FORCED_SEEDS: u64 = 1000;

/// Blocks of the large transactions.
const GROUP: usize = 16;

const OURS: &str = "forebay";
/// `Volume::write`, the same transaction in one call, as the front ends commit.
pub(super) const OURS_CALL: &str = "forebay, Volume::write";
const STREAM: &str = "stream + fence";
const PMEM: &str = "pmem_memcpy_persist";
const PMEM_FILE: &str = "pmem_memcpy_persist over pmem_map_file";
const BLK: &str = "libpmemblk";
const OBJ: &str = "libpmemobj";

/// Raw memory of a pool's size, and libpmem where it is installed.
struct Raw<'l> {
    region: &'l Region,
    pmem: Option<&'l Pmem>,
    pmem_file: Option<&'l PmemFile<'l>>,
}

/// Calls `measure` with raw memory; what is missing is said.
fn with_raw<T>(bench: &Bench, measure: impl FnOnce(&Raw) -> Result<T>) -> Result<T> {
    let (file, mapped_file) = (bench.scratch.file("raw"), bench.scratch.file("raw-libpmem"));
    let region = pools::raw_memory(file.path(), bench.pool_bytes)?;
    let pmem = present(bench, Pmem::load());
    let pmem_file = match &pmem {
        Some(pmem) => Some(pmem.map_file(mapped_file.path(), bench.pool_bytes as usize)?),
        None => None,
    };
    if let (Some(pmem), Some(file)) = (&pmem, &pmem_file) {
        let mut payload = Payload::new(3);
        for block in 0..bench.pool_bytes / BLOCK_BYTES as u64 {
            let to = file.address(block * BLOCK_BYTES as u64, BLOCK_BYTES);
            // SAFETY: inside the mapping, to which there are no references.
            unsafe { pmem.copy_persist(to, payload.next()) };
        }
    }
    measure(&Raw {
        region: &region,
        pmem: pmem.as_ref(),
        pmem_file: pmem_file.as_ref(),
    })
}

/// A reference that may be missing here: says so, and the row stays empty.
fn present<T>(bench: &Bench, loaded: Result<T>) -> Option<T> {
    loaded
        .inspect_err(|error| bench.say(&format!("reference left out: {error}")))
        .ok()
}

impl<'l> Raw<'l> {
    /// Copies of `N` blocks and one fence, by every means there is, within `share` of the memory
    /// (which of how many equal parts).
    fn contenders<const N: usize>(&self, share: (u64, u64), seed: u64) -> Vec<Contender<'l>> {
        let blocks = self.region.len() / BLOCK_BYTES as u64 / share.1;
        let numbers = move || Blocks::new(seed, share.0 * blocks, blocks);
        let region = self.region;
        let (mut payload, mut random) = (Payload::new(seed), numbers());
        let mut contenders = vec![
            Contender::new(STREAM, move || {
                for _ in 0..BATCH / N as u64 {
                    for block in random.next_distinct::<N>() {
                        region.stream(block * BLOCK_BYTES as u64, payload.next());
                    }
                    region.fence()?;
                }
                Ok(BATCH)
            })
            .with_kernel(Kernel::best()),
        ];
        let Some(pmem) = self.pmem else {
            return contenders;
        };
        contenders.push(copies::<N>(PMEM, pmem, seed, numbers(), move |offset| {
            assert!(offset + BLOCK_BYTES as u64 <= region.len());
            region.as_ptr().wrapping_add(offset as usize).cast_mut()
        }));
        if let Some(file) = self.pmem_file {
            let address = move |offset| file.address(offset, BLOCK_BYTES);
            contenders.push(copies::<N>(PMEM_FILE, pmem, seed, numbers(), address));
        }
        contenders
    }
}

/// libpmem's copies. `address` gives the place of a block's offset, which it has checked.
fn copies<'l, const N: usize>(
    name: &'static str,
    pmem: &'l Pmem,
    seed: u64,
    mut random: Blocks,
    address: impl Fn(u64) -> *mut u8 + 'l,
) -> Contender<'l> {
    let mut payload = Payload::new(seed);
    Contender::new(name, move || {
        for _ in 0..BATCH / N as u64 {
            for block in random.next_distinct::<N>() {
                let to = address(block * BLOCK_BYTES as u64);
                // SAFETY: a block inside a mapping to which there are no references.
                unsafe {
                    if N == 1 {
                        pmem.copy_persist(to, payload.next());
                    } else {
                        pmem.copy_without_drain(to, payload.next());
                    }
                }
            }
            if N > 1 {
                pmem.drain();
            }
        }
        Ok(BATCH)
    })
}

/// Forebay's transactions of `N` blocks among `blocks`.
fn ours<'v, const N: usize>(
    name: &'static str,
    volume: &'v Volume,
    mut blocks: Blocks,
    seed: u64,
) -> Contender<'v> {
    let mut payload = Payload::new(seed);
    Contender::new(name, move || {
        for _ in 0..BATCH / N as u64 {
            if N == 1 {
                commit_one(volume, blocks.next(), payload.next())?;
                continue;
            }
            let mut transaction = volume.begin();
            for block in blocks.next_distinct::<N>() {
                transaction.write(block, payload.next())?;
            }
            transaction.commit()?;
        }
        Ok(BATCH)
    })
}

/// The same with each kernel that has rows of its own, named by it.
fn ours_forced<const N: usize>(
    volume: &Volume,
    blocks: impl Fn() -> Blocks,
    seed: u64,
) -> impl Iterator<Item = Contender<'_>> {
    // Bytes of their own: what another contender has written would be found in the pool, and shared.
    (seed + FORCED_SEEDS..)
        .zip(kernels::forced())
        .map(move |(seed, kernel)| {
            ours::<N>(kernel.name(), volume, blocks(), seed).with_kernel(kernel)
        })
}

/// The same of one block, without a copy on the way.
pub(super) fn our_calls(volume: &Volume, mut blocks: Blocks, seed: u64) -> Contender<'_> {
    let mut payload = Payload::new(seed);
    Contender::new(OURS_CALL, move || {
        for _ in 0..BATCH {
            volume.write(blocks.next(), payload.next())?;
        }
        Ok(BATCH)
    })
}

/// The rows that commits of any size have: ours ÷ the faster raw copy, with every kernel that has rows of its own,
/// and the same of `Volume::write` where it has a name; noisy where pool or raw memory has small pages.
fn vs_raw(
    name: &str,
    call: Option<&str>,
    outcome: &Outcome,
    note: Option<&'static str>,
) -> Vec<Row> {
    let raw = outcome.fastest(&[STREAM, PMEM]);
    let ratio = |ours| outcome.ratio(ours, raw?);
    let mut rows = vec![Row::new(name, ratio(OURS), "ratio")];
    rows.extend(call.map(|call| Row::new(call, ratio(OURS_CALL), "ratio")));
    rows.extend(kernels::rows_of_forced(name, |kernel| ratio(kernel.name())));
    rows.into_iter().map(|row| row.with_note(note)).collect()
}

fn note(pool: &ScratchFile, raw: &Raw) -> Option<&'static str> {
    pools::note_of_pages(&[pool.path(), raw.region.path()])
}

fn raw_rate(outcome: &Outcome) -> Option<f64> {
    outcome.rate(outcome.fastest(&[STREAM, PMEM])?)
}

/// One block a transaction.
pub fn one_block(bench: &Bench) -> Result<Vec<Row>> {
    let file = bench.scratch.file("pool");
    let pool = pools::half_full(&pools::options(file.path(), bench.pool_bytes))?;
    let blk_file = bench.scratch.file("libpmemblk");
    let blk = present(bench, BlkPool::create(blk_file.path(), bench.pool_bytes));
    if let Some(blk) = &blk {
        let mut payload = Payload::new(4);
        for block in 0..blk.blocks() / 2 {
            blk.write(block, payload.next())?;
        }
    }
    let (outcome, note) = with_raw(bench, |raw| {
        let outcome = bench.contest("1 x 4 KiB", 1, |_| {
            let blocks = || Blocks::new(5, 0, pool.blocks);
            let mut contenders = vec![
                ours::<1>(OURS, &pool.volume, blocks(), 5),
                our_calls(&pool.volume, Blocks::new(12, 0, pool.blocks), 12),
            ];
            contenders.extend(ours_forced::<1>(&pool.volume, blocks, 5));
            contenders.extend(raw.contenders::<1>((0, 1), 6));
            contenders.extend(blk.as_ref().map(|blk| blk_writes(blk, 7)));
            contenders
        });
        Ok((outcome?, note(&file, raw)))
    })?;
    let call = Some("write_1x4k_vs_raw");
    let mut rows = vs_raw("commit_1x4k_vs_raw", call, &outcome, note);
    rows.extend([
        Row::new(
            "commit_1x4k_vs_libpmemblk",
            outcome.ratio(OURS, BLK),
            "ratio",
        ),
        Row::new(
            "commit_1x4k_vs_raw_pmem_map_file",
            outcome.ratio(OURS, PMEM_FILE),
            "ratio",
        ),
        Row::new("commit_1x4k_per_second", outcome.rate(OURS), "1/s"),
        Row::new("raw_1x4k_per_second", raw_rate(&outcome), "1/s"),
    ]);
    Ok(rows)
}

fn blk_writes(blk: &BlkPool, seed: u64) -> Contender<'_> {
    let (mut payload, mut blocks) = (Payload::new(seed), Blocks::new(seed, 0, blk.blocks() / 2));
    Contender::new(BLK, move || {
        for _ in 0..BATCH {
            blk.write(blocks.next(), payload.next())?;
        }
        Ok(BATCH)
    })
}

/// Sixteen blocks a transaction.
pub fn sixteen_blocks(bench: &Bench) -> Result<Vec<Row>> {
    let file = bench.scratch.file("pool");
    let pool = pools::half_full(&pools::options(file.path(), bench.pool_bytes))?;
    let obj_file = bench.scratch.file("libpmemobj");
    let object_bytes = bench.pool_bytes / 2;
    let obj = present(
        bench,
        ObjPool::create(obj_file.path(), bench.pool_bytes, object_bytes),
    );
    let (outcome, note) = with_raw(bench, |raw| {
        let outcome = bench.contest("16 x 4 KiB", 1, |_| {
            let blocks = || Blocks::new(8, 0, pool.blocks);
            let mut contenders = vec![ours::<GROUP>(OURS, &pool.volume, blocks(), 8)];
            contenders.extend(ours_forced::<GROUP>(&pool.volume, blocks, 8));
            contenders.extend(raw.contenders::<GROUP>((0, 1), 9));
            let obj = obj.as_ref();
            contenders.extend(obj.map(|obj| obj_transactions(obj, object_bytes, 10)));
            contenders
        });
        Ok((outcome?, note(&file, raw)))
    })?;
    let mut rows = vs_raw("commit_16x4k_vs_raw", None, &outcome, note);
    rows.extend([
        Row::new(
            "commit_16x4k_vs_libpmemobj",
            outcome.ratio(OURS, OBJ),
            "ratio",
        ),
        Row::new(
            "commit_16x4k_vs_raw_pmem_map_file",
            outcome.ratio(OURS, PMEM_FILE),
            "ratio",
        ),
        Row::new("commit_16x4k_blocks_per_second", outcome.rate(OURS), "1/s"),
        Row::new("raw_16x4k_blocks_per_second", raw_rate(&outcome), "1/s"),
    ]);
    Ok(rows)
}

fn obj_transactions(obj: &ObjPool, object_bytes: u64, seed: u64) -> Contender<'_> {
    let mut payload = Payload::new(seed);
    let mut blocks = Blocks::new(seed, 0, object_bytes / BLOCK_BYTES as u64);
    Contender::new(OBJ, move || {
        let chosen: [u64; GROUP] = blocks.next_distinct();
        obj.overwrite(
            &chosen.map(|block| block * BLOCK_BYTES as u64),
            &mut payload,
        )?;
        Ok(GROUP as u64)
    })
}

/// Two threads, each with half of the blocks to itself, beside two threads of raw copies.
pub fn two_threads(bench: &Bench) -> Result<Vec<Row>> {
    const THREADS: usize = 2;
    let file = bench.scratch.file("pool");
    let pool = pools::half_full(&pools::options(file.path(), bench.pool_bytes))?;
    let share = pool.blocks / THREADS as u64;
    let (outcome, note) = with_raw(bench, |raw| {
        let outcome = bench.contest("2 threads x 1 x 4 KiB", THREADS, |thread| {
            let (thread, seed) = (thread as u64, 11 + thread as u64);
            let blocks = |seed| Blocks::new(seed, thread * share, share);
            let mut contenders = vec![
                ours::<1>(OURS, &pool.volume, blocks(seed), seed),
                our_calls(&pool.volume, blocks(seed + 2), seed + 2),
            ];
            contenders.extend(ours_forced::<1>(&pool.volume, || blocks(seed), seed));
            contenders.extend(raw.contenders::<1>((thread, THREADS as u64), seed));
            contenders
        });
        Ok((outcome?, note(&file, raw)))
    })?;
    let call = Some("write_2threads_vs_raw_2threads");
    let mut rows = vs_raw("commit_2threads_vs_raw_2threads", call, &outcome, note);
    rows.extend([
        Row::new("commit_2threads_per_second", outcome.rate(OURS), "1/s"),
        Row::new("raw_2threads_per_second", raw_rate(&outcome), "1/s"),
    ]);
    Ok(rows)
}
