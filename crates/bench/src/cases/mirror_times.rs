//! A mirror, and a pool whose table has seals, beside a pool without redundancy over two members of the same size, and how long a member takes to go and
//! to come back.

use std::ops::ControlFlow;
use std::time::Instant;

use forebay::{Pool, PoolOptions, RebuildOptions, Redundancy, Volume};

use super::Bench;
use super::mirror::{Appends, GROUP};
use crate::contest::{Contender, Outcome};
use crate::payload::{BLOCK_BYTES, Blocks, Payload};
use crate::pools::{self, CachedPool, Members, commit_one};
use forebay_harness::{Result, Row, median};

/// Operations between two looks at the clock.
const BATCH: u64 = 64;
/// Commits between the last opening and the next, which may find their records.
const COMMITS_BEFORE: u64 = 20_000;
const OURS: &str = "ours";
const NONE: &str = "none";

/// A pool of either kind, with the same blocks.
struct Both {
    ours: CachedPool,
    none: CachedPool,
    // After the pools.
    _members: [Members; 2],
}

impl Both {
    fn new(bench: &Bench, redundancy: Redundancy) -> Result<Both> {
        let members = [
            Members::new(&bench.scratch),
            Members::named(&bench.scratch, "none"),
        ];
        let ours = pools::half_full(&members[0].with(redundancy, bench.pool_bytes))?;
        let none = pools::with_blocks(&members[1].none(bench.pool_bytes), ours.blocks)?;
        Ok(Both {
            ours,
            none,
            _members: members,
        })
    }

    fn ratio<'a>(
        &'a self,
        bench: &Bench,
        what: &str,
        contender: impl Fn(&'static str, &'a CachedPool) -> Contender<'a> + Sync,
    ) -> Result<Option<f64>> {
        let outcome: Outcome = bench.contest(what, 1, |_| {
            vec![contender(OURS, &self.ours), contender(NONE, &self.none)]
        })?;
        Ok(outcome.ratio(OURS, NONE))
    }

    fn ones(&self, bench: &Bench) -> Result<Option<f64>> {
        self.ratio(bench, "1 x 4 KiB", |name, pool| {
            pools::overwrites(name, pool, 71)
        })
    }

    fn sixteens(&self, bench: &Bench) -> Result<Option<f64>> {
        self.ratio(bench, "16 x 4 KiB", |name, pool| {
            let (mut payload, mut blocks) = (Payload::new(72), Blocks::new(72, 0, pool.blocks));
            Contender::new(name, move || {
                for _ in 0..BATCH / GROUP as u64 {
                    groups(&pool.volume, &mut blocks, &mut payload)?;
                }
                Ok(BATCH)
            })
        })
    }
}

fn groups(volume: &Volume, blocks: &mut Blocks, payload: &mut Payload) -> Result<()> {
    let mut transaction = volume.begin();
    for block in blocks.next_distinct::<GROUP>() {
        transaction.write(block, payload.next())?;
    }
    Ok(transaction.commit()?)
}

/// Commits of one block, and of sixteen, where lines of the table have seals.
pub fn checksum_commits(bench: &Bench) -> Result<Vec<Row>> {
    let both = Both::new(bench, Redundancy::Checksum)?;
    Ok(vec![
        Row::new("checksum_1x4k_vs_none", both.ones(bench)?, "ratio"),
        Row::new("checksum_16x4k_vs_none", both.sixteens(bench)?, "ratio"),
    ])
}

/// Commits of one block, of sixteen, and of appends.
pub fn commits(bench: &Bench) -> Result<Vec<Row>> {
    let both = Both::new(bench, Redundancy::Mirror)?;
    let (one, sixteen) = (both.ones(bench)?, both.sixteens(bench)?);
    let appends = both.ratio(bench, "append of 256 B", |name, pool| {
        let (mut payload, mut appends) = (Payload::new(73), Appends::new(pool));
        Contender::new(name, move || {
            for _ in 0..BATCH {
                appends.next(payload.next())?;
            }
            Ok(BATCH)
        })
    })?;
    Ok(vec![
        Row::new("mirror_1x4k_vs_none", one, "ratio"),
        Row::new("mirror_16x4k_vs_none", sixteen, "ratio"),
        Row::new("mirror_append_256b_vs_none", appends, "ratio"),
    ])
}

/// How long the opening of a dirty pool takes that was not closed, and how many dirty blocks it has.
fn opening(
    bench: &Bench,
    members: &Members,
    options: PoolOptions,
    blocks: Option<u64>,
) -> Result<(f64, u64)> {
    let options = pools::idle(options);
    let cached = match blocks {
        Some(blocks) => pools::with_blocks(&options, blocks)?,
        None => pools::half_full(&options)?,
    };
    let (mut payload, mut random) = (Payload::new(74), Blocks::new(74, 0, cached.blocks));
    for _ in 0..COMMITS_BEFORE {
        commit_one(&cached.volume, random.next(), payload.next())?;
    }
    let blocks = cached.blocks;
    // Not closed: the next opening recovers.
    drop(cached);
    let start = Instant::now();
    let pool = Pool::open_with(&members.paths(), options.runtime_options().clone())?;
    let elapsed_s = start.elapsed().as_secs_f64();
    bench.say(&format!(
        "  opened in {:.1} ms: {} dirty blocks, {} records",
        elapsed_s * 1e3,
        pool.stats().dirty_blocks,
        pool.recovery_report().records
    ));
    Ok((elapsed_s, blocks))
}

/// Recovery of a mirror beside that of a pool without, of the same blocks over members of the same size.
pub fn recovery(bench: &Bench) -> Result<Vec<Row>> {
    let mut ratios = Vec::new();
    for _ in 0..bench.repeats {
        let members = Members::new(&bench.scratch);
        let mirror = members.mirror(bench.pool_bytes);
        let (mirror_s, blocks) = opening(bench, &members, mirror, None)?;
        drop(members);
        let members = Members::new(&bench.scratch);
        let none = members.none(bench.pool_bytes);
        let (none_s, _) = opening(bench, &members, none, Some(blocks))?;
        ratios.push(mirror_s / none_s);
    }
    Ok(vec![Row::new(
        "recovery_mirror_vs_none",
        median(ratios),
        "ratio",
    )])
}

/// How long a member takes to go, with the next write, and to come back.
pub fn rebuild(bench: &Bench) -> Result<Vec<Row>> {
    let (mut failures_ms, mut rebuilds_s) = (Vec::new(), Vec::new());
    let options = RebuildOptions::default();
    for _ in 0..bench.repeats {
        let members = Members::new(&bench.scratch);
        let cached = pools::half_full(&members.mirror(bench.pool_bytes))?;
        let mut payload = Payload::new(75);
        let start = Instant::now();
        cached.pool.fail_member(1)?;
        commit_one(&cached.volume, 0, payload.next())?;
        failures_ms.push(start.elapsed().as_secs_f64() * 1e3);
        let replacement = bench.scratch.file("replacement");
        let start = Instant::now();
        cached
            .pool
            .replace_member(1, replacement.path(), &options, &mut |_| {
                ControlFlow::Continue(())
            })?;
        let gib = (cached.blocks * BLOCK_BYTES as u64) as f64 / f64::from(1 << 30);
        let took_s = start.elapsed().as_secs_f64();
        bench.say(&format!("  {gib:.2} GiB of dirty blocks in {took_s:.2} s"));
        rebuilds_s.push(took_s / gib);
    }
    Ok(vec![
        Row::new("member_fail_to_ack_ms", median(failures_ms), "ms"),
        Row::new("rebuild_1gib_s", median(rebuilds_s), "s"),
    ])
}
