//! Pools with rows: what one transaction writes shares a parity, and any one member may be lost, or wrong.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use forebay::unstable::{locate_block, medium_areas};
use forebay::{
    Backing, ErrorKind, MemberState, Pool, PoolOptions, Redundancy, Region, RuntimeOptions, Volume,
};
use forebay_pmem::shadow::{FenceFailure, Shadow, ShadowModel};

use crate::halves::{BLOCK, BLOCKS, Mirror, noise};

fn options() -> PoolOptions {
    crate::halves::options()
        .always_compare(false)
        .redundancy(Redundancy::Parity)
}

fn runtime() -> RuntimeOptions {
    options().runtime_options().clone()
}

fn rows(members: usize) -> Mirror {
    Mirror::with(&options(), members)
}

/// One transaction of blocks that are noise of these seeds.
fn put(volume: &Volume, blocks: Range<u64>, seed: u64) {
    let data: Vec<u8> = blocks
        .clone()
        .flat_map(|block| noise(seed + block))
        .collect();
    volume.write(blocks.start, &data).expect("write");
}

fn reads(volume: &Volume, blocks: Range<u64>, seed: u64) {
    let mut out = vec![0; BLOCK];
    for block in blocks {
        volume.read(block, &mut out).expect("read");
        assert!(out == noise(seed + block), "block {block}");
    }
}

/// How many places a block has of its own: two halves, or a column.
fn places(volume: &Volume, block: u64) -> usize {
    locate_block(volume, block).expect("cached").bytes.len()
}

fn in_rows(volume: &Volume, blocks: Range<u64>) -> usize {
    blocks.filter(|block| places(volume, *block) == 1).count()
}

fn members_out(pool: &Pool) -> Vec<u32> {
    let members = pool.members().into_iter();
    let out = members.filter(|member| member.state != MemberState::In);
    out.map(|member| member.number).collect()
}

/// Opens what a power cut leaves of the members, all but one of them, and reads.
fn each_lacking_reads(mirror: &Mirror, blocks: Range<u64>, seed: u64) {
    let states = mirror.members.iter().map(|member| member.crash_state());
    let states: Vec<_> = states.collect();
    for gone in 0..=states.len() {
        let left = (0..states.len()).filter(|member| *member != gone);
        let on = left.map(|member| Region::shadow_from(states[member].durable()));
        let pool = Pool::open_on(on.collect(), runtime()).expect("open");
        let volume = pool
            .attach(Backing::from_store(mirror.store.clone()))
            .expect("attach");
        reads(&volume, blocks.clone(), seed);
    }
}

#[test]
fn a_transaction_fills_rows_of_its_own_and_the_rest_is_on_two_members() {
    for members in 3..=8 {
        let mirror = rows(members);
        let width = members as u64 - 1;
        let before = mirror.pool.counters();
        put(&mirror.volume, 0..2 * width + 1, 7);
        let spent = mirror.pool.counters() - before;
        assert_eq!(spent.fences, 1);
        let lines_a_block = BLOCK as u64 / 64;
        let data = (2 * members as u64 + 2) * lines_a_block;
        let record = (32 + 24 * (2 * width + 1)).div_ceil(64) * members as u64;
        assert_eq!(spent.lines_streamed, data + record);
        assert_eq!(in_rows(&mirror.volume, 0..2 * width + 1) as u64, 2 * width);
        reads(&mirror.volume, 0..2 * width + 1, 7);
        each_lacking_reads(&mirror, 0..2 * width + 1, 7);
        mirror.scrub_finds(0);
        // A single block, and what is one too few for a row, are on two members.
        put(&mirror.volume, 60..61, 7);
        put(&mirror.volume, 62..62 + width - 1, 7);
        assert_eq!(in_rows(&mirror.volume, 60..61), 0);
        assert_eq!(in_rows(&mirror.volume, 62..62 + width - 1), 0);
    }
}

#[test]
fn columns_and_their_parity_are_where_the_format_says() {
    for members in 3..=8 {
        let mirror = rows(members);
        let width = members as u64 - 1;
        put(&mirror.volume, 0..3 * width, 7);
        let areas = medium_areas(&mirror.pool);
        let (_, slots) = areas.last().expect("slots come last");
        let states = mirror.members.iter().map(|member| member.crash_state());
        let states: Vec<_> = states.collect();
        for first in (0..3 * width).step_by(width as usize) {
            let mut parity = vec![0; BLOCK];
            let start = mirror.locate(first).bytes[0].1.start;
            let row = ((start - slots.start) / BLOCK as u64) as usize;
            for (column, block) in (first..first + width).enumerate() {
                let member = (row % members + 1 + column) % members;
                let place = (member, start..start + BLOCK as u64);
                assert_eq!(mirror.locate(block).bytes, [place]);
                let bytes = noise(7 + block);
                parity
                    .iter_mut()
                    .zip(bytes)
                    .for_each(|(sum, byte)| *sum ^= byte);
            }
            let found = states[row % members].durable();
            assert!(found[start as usize..][..BLOCK] == parity, "row {row}");
        }
    }
}

#[test]
fn transactions_that_are_begun_and_written_block_by_block_fill_rows_too() {
    let mirror = rows(4);
    let mut transaction = mirror.volume.begin();
    for block in 0..10 {
        transaction.write(block, &noise(block)).expect("staged");
    }
    transaction.write(3, &noise(3)).expect("again");
    transaction.commit().expect("commit");
    assert_eq!(in_rows(&mirror.volume, 0..10), 9);
    each_lacking_reads(&mirror, 0..10, 0);
}

#[test]
fn a_change_of_part_of_a_block_in_a_row_takes_it_to_two_members_once() {
    let mirror = rows(4);
    put(&mirror.volume, 0..3, 7);
    let change = |at: usize| {
        let mut transaction = mirror.volume.begin();
        let byte_offset = BLOCK as u64 + at as u64;
        transaction.write_at(byte_offset, &[9; 10]).expect("staged");
        transaction.commit().expect("commit");
    };
    change(100);
    assert_eq!(places(&mirror.volume, 1), 2);
    assert_eq!(mirror.pool.stats().totals.deltas_written, 0);
    let pair = locate_block(&mirror.volume, 1).expect("cached").bytes;
    change(300);
    assert_eq!(mirror.pool.stats().totals.deltas_written, 1);
    let still = locate_block(&mirror.volume, 1).expect("cached").bytes;
    assert_eq!(pair, still, "changed in place");
    let mut changed = noise(8);
    changed[100..110].fill(9);
    changed[300..310].fill(9);
    let all = [(0, noise(7)), (1, changed), (2, noise(9))];
    mirror.each_alone_reads(&all);
}

#[test]
fn a_wrong_column_reads_right_and_is_repaired_from_the_others() {
    for members in 3..6 {
        let mirror = rows(members);
        let width = members as u64 - 1;
        put(&mirror.volume, 0..2 * width, 7);
        for block in 0..2 * width {
            let (member, bytes) = mirror.locate(block).bytes[0].clone();
            mirror.flip((&mirror.members[member], bytes.start), 77);
            reads(&mirror.volume, block..block + 1, 7);
        }
        assert_eq!(mirror.counts(), (2 * width, 0, 0));
        mirror.scrub_finds(0);
        let (member, bytes) = mirror.locate(1).bytes[0].clone();
        mirror.flip((&mirror.members[member], bytes.start), 9);
        mirror.scrub_finds(1);
        each_lacking_reads(&mirror, 0..2 * width, 7);
    }
}

/// The place of the row of blocks that has none of them: its parity.
fn parity_of(mirror: &Mirror, blocks: Range<u64>) -> (usize, u64) {
    let columns: Vec<_> = blocks
        .map(|block| mirror.locate(block).bytes[0].clone())
        .collect();
    let mut free = (0..mirror.members.len())
        .filter(|member| !columns.iter().any(|(column, _)| column == member));
    let member = free.next().expect("one has the parity");
    (member, columns[0].1.start)
}

#[test]
fn a_scrub_finds_a_wrong_parity_and_a_wrong_column_that_nobody_needs() {
    let mirror = rows(4);
    put(&mirror.volume, 0..3, 7);
    let (member, start) = parity_of(&mirror, 0..3);
    mirror.flip((&mirror.members[member], start), 77);
    mirror.scrub_finds(1);
    each_lacking_reads(&mirror, 0..3, 7);
    // A column that no entry names any more is part of the others' parity all the same.
    let (dead, bytes) = mirror.locate(2).bytes[0].clone();
    put(&mirror.volume, 2..3, 7);
    mirror.flip((&mirror.members[dead], bytes.start), 5);
    mirror.scrub_finds(1);
    each_lacking_reads(&mirror, 0..3, 7);
}

#[test]
fn a_wrong_column_is_not_made_right_by_the_parity_of_it() {
    let mirror = rows(4);
    put(&mirror.volume, 0..3, 7);
    // Its first column is right; the look at the row's parity with that must not take the third for right.
    let mut order: Vec<u64> = (0..3).collect();
    order.sort_by_key(|block| mirror.locate(*block).bytes[0].1.start);
    let (member, bytes) = mirror.locate(2).bytes[0].clone();
    mirror.flip((&mirror.members[member], bytes.start), 5);
    mirror.scrub_finds(1);
    reads(&mirror.volume, 0..3, 7);
}

#[test]
fn a_member_leaves_and_another_one_takes_its_place_while_rows_are_read_and_written() {
    for members in 3..6 {
        for gone in 0..members {
            let mut mirror = rows(members);
            let width = members as u64 - 1;
            put(&mirror.volume, 0..4 * width, 7);
            put(&mirror.volume, 1..2, 7);
            mirror
                .pool
                .fail_member(gone as u32)
                .expect("the others are left");
            reads(&mirror.volume, 0..4 * width, 7);
            put(&mirror.volume, 40..40 + 2 * width, 7);
            assert_eq!(in_rows(&mirror.volume, 40..40 + 2 * width), 0);
            mirror.volume.flush().expect("flush");
            put(&mirror.volume, 2..4, 7);
            let blank = Arc::new(Shadow::new(2 << 20, ShadowModel::Lines));
            mirror.members[gone] = blank.clone();
            mirror
                .pool
                .replace_member_on(gone as u32, Region::on_shadow(blank), &mut |_| {
                    ControlFlow::Continue(())
                })
                .expect("rebuilt");
            reads(&mirror.volume, 0..4 * width, 7);
            mirror.scrub_finds(0);
            each_lacking_reads(&mirror, 0..4 * width, 7);
            each_lacking_reads(&mirror, 40..40 + 2 * width, 7);
        }
    }
}

#[test]
fn a_commit_whose_fence_fails_on_one_member_goes_on_with_its_rows() {
    for gone in 0..4 {
        let mirror = rows(4);
        mirror.members[gone].set_fence_failure(FenceFailure::From(0));
        put(&mirror.volume, 0..7, 7);
        assert_eq!(members_out(&mirror.pool), [gone as u32]);
        assert_eq!(in_rows(&mirror.volume, 0..7), 6);
        reads(&mirror.volume, 0..7, 7);
        let left = (0..4).filter(|member| *member != gone);
        let on =
            left.map(|member| Region::shadow_from(mirror.members[member].crash_state().durable()));
        let pool = Pool::open_on(on.collect(), runtime()).expect("open");
        let volume = pool
            .attach(Backing::from_store(mirror.store.clone()))
            .expect("attach");
        reads(&volume, 0..7, 7);
        let other = (gone + 1) % 4;
        mirror.members[other].set_fence_failure(FenceFailure::From(0));
        let refused = mirror.volume.write(0, &noise(1)).expect_err("two are gone");
        assert!(matches!(refused.kind(), ErrorKind::Media(_)), "{refused}");
    }
}

#[test]
fn a_page_that_a_member_lost_takes_it_out_and_its_columns_are_read_from_the_others() {
    let mirror = rows(4);
    put(&mirror.volume, 0..3, 7);
    let (member, bytes) = mirror.locate(1).bytes[0].clone();
    mirror.members[member].lose_page(bytes.start);
    reads(&mirror.volume, 0..3, 7);
    put(&mirror.volume, 9..10, 7);
    assert_eq!(members_out(&mirror.pool), [member as u32]);
    reads(&mirror.volume, 0..3, 7);
}

#[test]
fn rooms_come_back_whatever_was_in_them() {
    for members in 3..6 {
        let shadow = |_| Arc::new(Shadow::new(640 << 10, ShadowModel::Lines));
        let shadows: Vec<Arc<Shadow>> = (0..members).map(shadow).collect();
        let on = shadows.iter().cloned().map(Region::on_shadow).collect();
        let pool = Pool::create_on(on, &options()).expect("create");
        let store = Arc::new(forebay::MemoryStore::new(4 * BLOCKS * BLOCK as u64));
        let volume = pool.attach(Backing::from_store(store)).expect("attach");
        let mut random = fastrand::Rng::with_seed(members as u64);
        let mut seeds = vec![0; 4 * BLOCKS as usize];
        let mut has_filled = (0, 0);
        for round in 1..400 {
            let count = [1, 2, 5, 9, 12][random.usize(..5)];
            let first = random.u64(..4 * BLOCKS - count);
            put(&volume, first..first + count, round * 1000);
            seeds[first as usize..(first + count) as usize].fill(round * 1000);
            let columns = in_rows(&volume, first..first + count);
            has_filled.0 += columns;
            has_filled.1 += count as usize - columns;
            if random.u8(..4) == 0 {
                let block = random.u64(..4 * BLOCKS);
                let mut out = vec![0; BLOCK];
                volume.read(block, &mut out).expect("read");
                let seed = seeds[block as usize];
                assert!(seed == 0 || out == noise(seed + block), "block {block}");
            }
        }
        assert!(has_filled.0 > 100 && has_filled.1 > 100, "{has_filled:?}");
        for (block, seed) in (0..).zip(&seeds).filter(|(_, seed)| **seed != 0) {
            reads(&volume, block..block + 1, *seed);
        }
        let report = pool
            .scrub(&forebay::ScrubOptions::default(), &mut |_| {
                ControlFlow::Continue(())
            })
            .expect("scrub");
        assert_eq!((report.found, report.is_whole), (0, true));
        volume.flush().expect("flush");
        let stats = pool.stats();
        assert_eq!(stats.dirty_blocks, 0);
    }
}

#[test]
fn two_members_are_too_few_for_rows() {
    let shadow = |_| Region::on_shadow(Arc::new(Shadow::new(1 << 20, ShadowModel::Lines)));
    let refused = Pool::create_on((0..2).map(shadow).collect(), &options());
    let told = refused.expect_err("two members").to_string();
    assert!(told.contains("3 to 8"), "{told}");
    let mirror = rows(3);
    assert_eq!(mirror.pool.redundancy(), Redundancy::Parity);
}
