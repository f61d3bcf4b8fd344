//! Halves of a mirror that are not right: what is read, what is repaired, and what a scrub finds.

use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use forebay::unstable::{BlockLocation, locate_block, table_bytes};
use forebay::{
    Backing, ErrorKind, MemoryStore, Pool, PoolOptions, Redundancy, Region, ScrubOptions,
    ScrubReport, Volume,
};
use forebay_pmem::Pause;
use forebay_pmem::shadow::{Fault, Shadow, ShadowEventKind, ShadowModel};

const BLOCK: usize = 4096;
const BLOCKS: u64 = 128;
const UNIT: u64 = 4096;

/// A mirrored pool in two shadows, with a volume over a store in memory.
struct Mirror {
    members: Vec<Arc<Shadow>>,
    store: Arc<MemoryStore>,
    pool: Pool,
    volume: Volume,
}

fn options() -> PoolOptions {
    PoolOptions::default()
        .volumes(2)
        .lanes(2)
        .lane_bytes(64 << 10)
        .background(false)
        .accept_stale(true)
        .always_compare(true)
        .redundancy(Redundancy::Mirror)
}

fn noise(seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..BLOCK).map(|_| random.u8(..)).collect()
}

impl Mirror {
    fn new() -> Mirror {
        let shadow = || Arc::new(Shadow::new(2 << 20, ShadowModel::Lines));
        let members = vec![shadow(), shadow()];
        let on = members.iter().cloned().map(Region::on_shadow).collect();
        let pool = Pool::create_on(on, &options()).expect("create");
        let store = Arc::new(MemoryStore::new(BLOCKS * BLOCK as u64));
        let volume = pool
            .attach(Backing::from_store(store.clone()))
            .expect("attach");
        Mirror {
            members,
            store,
            pool,
            volume,
        }
    }
    fn put(&self, block: u64, seed: u64) {
        self.volume.write(block, &noise(seed)).expect("write");
    }
    fn read(&self, block: u64) -> Vec<u8> {
        let mut out = vec![0; BLOCK];
        self.volume.read(block, &mut out).expect("read");
        out
    }
    fn locate(&self, block: u64) -> BlockLocation {
        locate_block(&self.volume, block).expect("cached")
    }
    /// The number of a half, 0 the one that is read first, of a slot of a block: where it is.
    fn half(&self, block: u64, slot: usize, half: usize) -> (&Arc<Shadow>, u64) {
        let (first, bytes) = self.locate(block).bytes[slot].clone();
        (&self.members[first ^ half], bytes.start)
    }
    fn flip(&self, (member, start): (&Arc<Shadow>, u64), at: u64) {
        let offset = start + at;
        member.inject(Fault::BitFlip { offset, bit: 3 });
    }
    fn scrub(&self) -> ScrubReport {
        let mut go_on = |_| ControlFlow::Continue(());
        let report = self.pool.scrub(&ScrubOptions::default(), &mut go_on);
        report.expect("scrub")
    }
    /// What was found and repaired, and that nothing is wrong any more.
    fn scrub_finds(&self, count: u64) {
        let report = self.scrub();
        assert!(report.is_whole);
        let counts = (report.found, report.repaired, report.lost, report.transient);
        assert_eq!(counts, (count, count, 0, 0), "{report:?}");
        let again = self.scrub();
        assert_eq!((again.found, again.slots), (0, report.slots), "{again:?}");
    }
    /// Opens a copy of each member alone, as a power cut leaves it, and reads.
    fn each_alone_reads(&self, expected: &[(u64, Vec<u8>)]) {
        for member in &self.members {
            let image = member.crash_state().durable().to_vec();
            let runtime = options().runtime_options().clone().without_missing(true);
            let pool = Pool::open_on(vec![Region::shadow_from(&image)], runtime).expect("open");
            let volume = pool
                .attach(Backing::from_store(self.store.clone()))
                .expect("attach");
            for (block, bytes) in expected {
                let mut out = vec![0; BLOCK];
                volume.read(*block, &mut out).expect("read");
                assert!(out == *bytes, "block {block}");
            }
        }
    }
    fn counts(&self) -> (u64, u64, u64) {
        let totals = self.pool.stats().totals;
        (totals.repaired, totals.transient, totals.lost)
    }
}

#[test]
fn a_read_repairs_the_half_that_is_read_first() {
    for at in [0, 77, BLOCK as u64 - 1] {
        let mirror = Mirror::new();
        let blocks: Vec<(u64, Vec<u8>)> = (0..4).map(|block| (block, noise(block + 1))).collect();
        for block in 0..4 {
            mirror.put(block, block + 1);
            mirror.flip(mirror.half(block, 0, 0), at);
        }
        for (block, bytes) in &blocks {
            assert!(mirror.read(*block) == *bytes, "block {block}");
        }
        assert_eq!(mirror.counts(), (4, 0, 0));
        mirror.each_alone_reads(&blocks);
        mirror.scrub_finds(0);
    }
}

#[test]
fn a_scrub_repairs_either_half() {
    let mirror = Mirror::new();
    let blocks: Vec<(u64, Vec<u8>)> = (0..8).map(|block| (block, noise(block + 1))).collect();
    for block in 0..8 {
        mirror.put(block, block + 1);
        mirror.flip(mirror.half(block, 0, block as usize % 2), 5 * block);
    }
    mirror.scrub_finds(8);
    mirror.each_alone_reads(&blocks);
    assert_eq!(mirror.counts(), (8, 0, 0));
}

#[test]
fn a_lost_write_is_found_once_caches_have_forgotten_it() {
    let mirror = Mirror::new();
    mirror.put(1, 1);
    let (member, offset) = mirror.half(1, 0, 0);
    // In place: the slot stays.
    for at in [0, 640] {
        let (offset, len) = (offset + at, 64);
        member.inject(Fault::LostWrite { offset, len });
        let mut change = mirror.volume.begin();
        change.write_at(BLOCK as u64 + at, &[9; 40]).expect("write");
        change.commit().expect("commit");
    }
    mirror.pool.checkpoint().expect("checkpoint");
    assert_eq!(member.struck(), 2);
    mirror.scrub_finds(1);
    let mut expected = noise(1);
    expected[..40].fill(9);
    expected[640..680].fill(9);
    assert!(mirror.read(1) == expected);
    mirror.each_alone_reads(&[(1, expected)]);
}

#[test]
fn a_partial_block_is_repaired_with_its_length() {
    let trailer = BLOCK as u64 - 8;
    for half in 0..2 {
        for at in [0, 99, trailer, trailer + 5] {
            let mirror = Mirror::new();
            let mut append = mirror.volume.begin();
            append.append(3, 0, &[7; 100]).expect("append");
            append.commit().expect("commit");
            mirror.flip(mirror.half(3, 0, half), at);
            let mut expected = vec![0; BLOCK];
            expected[..100].fill(7);
            assert!(mirror.read(3) == expected);
            match half {
                0 => assert_eq!(mirror.counts(), (1, 0, 0)),
                _ => mirror.scrub_finds(1),
            }
            mirror.each_alone_reads(&[(3, expected.clone())]);
            let mut append = mirror.volume.begin();
            append.append(3, 100, &[8; 50]).expect("append");
            append.commit().expect("commit");
            expected[100..150].fill(8);
            assert!(mirror.read(3) == expected);
            mirror.each_alone_reads(&[(3, expected)]);
            mirror.scrub_finds(0);
        }
    }
}

/// A block, and one that is packed on it: which differ in a few bytes of this piece.
fn packed(mirror: &Mirror) -> [(u64, Vec<u8>); 2] {
    mirror.put(1, 1);
    let mut like = noise(1);
    like[640..650].fill(3);
    mirror.volume.write(2, &like).expect("write");
    assert_eq!(mirror.pool.stats().totals.blocks_packed, 1);
    assert_eq!(mirror.locate(2).bytes.len(), 2);
    assert_eq!(mirror.locate(2).bytes[1], mirror.locate(1).bytes[0]);
    [(1, noise(1)), (2, like)]
}

#[test]
fn both_slots_of_a_packed_block_are_repaired() {
    for half in 0..2 {
        // Of its own slot the header, and the piece behind it; of the base a piece that it rests on.
        for (slot, at) in [(0, 9), (0, 70), (1, 0), (1, 4000)] {
            let mirror = Mirror::new();
            let blocks = packed(&mirror);
            mirror.flip(mirror.half(2, slot, half), at);
            assert!(mirror.read(2) == blocks[1].1);
            match half {
                0 => assert_eq!(mirror.counts(), (1, 0, 0)),
                _ => mirror.scrub_finds(1),
            }
            mirror.each_alone_reads(&blocks);
            mirror.scrub_finds(0);
        }
    }
}

/// The base's half that is right for the packed block is wrong elsewhere, and the other way round.
#[test]
fn of_a_base_nothing_is_copied_that_the_packed_block_does_not_vouch_for() {
    for half in 0..2 {
        let mirror = Mirror::new();
        let blocks = packed(&mirror);
        // Another block that rests on the same: the base itself is gone.
        mirror.put(1, 5);
        mirror.flip(mirror.half(2, 1, half), 640);
        mirror.flip(mirror.half(2, 1, half ^ 1), 0);
        assert!(mirror.read(2) == blocks[1].1);
        mirror.scrub();
        mirror.each_alone_reads(&[(1, noise(5)), (2, blocks[1].1.clone())]);
    }
    for half in 0..2 {
        let mirror = Mirror::new();
        let blocks = packed(&mirror);
        mirror.flip(mirror.half(2, 1, half), 640);
        assert!(mirror.read(2) == blocks[1].1);
        // The plain block is right in the other half alone; recovery of the packed one leaves that alone.
        let images: Vec<Vec<u8>> = mirror
            .members
            .iter()
            .map(|member| member.crash_state().durable().to_vec())
            .collect();
        let on = images.iter().map(|image| Region::shadow_from(image));
        let runtime = options().runtime_options().clone();
        let pool = Pool::open_on(on.collect(), runtime).expect("open");
        let backing = Backing::from_store(mirror.store.clone());
        let volume = pool.attach(backing).expect("attach");
        for (block, bytes) in &blocks {
            let mut out = vec![0; BLOCK];
            volume.read(*block, &mut out).expect("read");
            assert!(out == *bytes, "block {block}");
        }
    }
}

#[test]
fn two_wrong_halves_are_an_error_until_the_block_is_written_anew_and_a_clean_block_is_fetched() {
    let mirror = Mirror::new();
    mirror.put(1, 1);
    mirror.put(2, 2);
    assert_eq!(mirror.pool.write_back_once().expect("write back"), 2);
    mirror.put(1, 3);
    for block in [1, 2] {
        for half in 0..2 {
            mirror.flip(mirror.half(block, 0, half), 100 + half as u64);
        }
    }
    let report = mirror.scrub();
    let counts = (report.found, report.repaired, report.lost, report.dropped);
    assert_eq!(counts, (2, 0, 1, 1), "{report:?}");
    assert_eq!(mirror.read(2), noise(2));
    let mut out = vec![0; BLOCK];
    let error = mirror.volume.read(1, &mut out).expect_err("lost");
    assert!(matches!(error.kind(), ErrorKind::Corrupt { .. }), "{error}");
    assert!(mirror.pool.write_back_once().is_err());
    assert_eq!(mirror.counts(), (0, 0, 3));
    mirror.put(1, 4);
    assert_eq!(mirror.read(1), noise(4));
    mirror.scrub_finds(0);
}

#[test]
fn a_misread_that_is_over_is_no_repair() {
    let mirror = Mirror::new();
    mirror.put(1, 1);
    mirror.put(2, 2);
    let (member, offset) = mirror.half(1, 0, 0);
    let (_, source) = mirror.half(2, 0, 0);
    let len = BLOCK as u64;
    let is_once = true;
    member.inject(Fault::MisdirectedRead {
        offset,
        len,
        source,
        is_once,
    });
    assert!(mirror.read(1) == noise(1));
    assert_eq!(mirror.counts(), (0, 1, 0));
    mirror.scrub_finds(0);
}

#[test]
fn write_back_and_changes_in_place_repair_what_they_meet() {
    let mirror = Mirror::new();
    for block in 0..2 {
        mirror.put(block, block);
        mirror.flip(mirror.half(block, 0, 0), 1000);
    }
    let mut change = mirror.volume.begin();
    change.write_at(1002, &[1; 8]).expect("write");
    change.commit().expect("commit");
    let mut expected = noise(0);
    expected[1002..1010].fill(1);
    // The bad byte is not among those that were replaced.
    assert!(mirror.read(0) == expected);
    assert_eq!(mirror.counts().0, 1);
    assert_eq!(mirror.pool.write_back_once().expect("write back"), 2);
    assert_eq!(mirror.counts(), (2, 0, 0));
    let behind = mirror.store.snapshot();
    assert!(behind[..BLOCK] == expected && behind[BLOCK..2 * BLOCK] == noise(1));
    // One that is among them.
    mirror.put(5, 5);
    mirror.flip(mirror.half(5, 0, 0), 1000);
    let mut change = mirror.volume.begin();
    change
        .write_at(5 * BLOCK as u64 + 998, &[1; 8])
        .expect("write");
    change.commit().expect("commit");
    mirror.flip(mirror.half(5, 0, 0), 1200);
    mirror.pool.checkpoint().expect("checkpoint");
    assert_eq!(mirror.counts(), (3, 0, 0));
    let mut changed = noise(5);
    changed[998..1006].fill(1);
    mirror.each_alone_reads(&[(0, expected), (5, changed)]);
}

/// Between the look that finds a half wrong and its repair the block is written anew, and another takes its slot: whose
/// first half is there, and whose second half is still what the repair would have been made from.
#[test]
fn nothing_is_repaired_in_a_slot_that_another_block_has_by_now() {
    let mirror = Mirror::new();
    mirror.put(1, 1);
    let slot = mirror.locate(1).bytes;
    mirror.flip(mirror.half(1, 0, 0), 50);
    let (second, offset) = mirror.half(1, 0, 1);
    let (is_paused, paused) = channel();
    let (go_on, may_go_on) = channel::<()>();
    let (is_done, done) = channel();
    let volume = mirror.volume.clone();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            forebay_pmem::set_yield_hook(Some(Box::new(move |pause| {
                if pause == Pause::Recheck {
                    // Fails the second time, when there is nothing to wait for.
                    let _ = is_paused.send(());
                    let _ = may_go_on.recv();
                }
            })));
            let mut out = vec![0; BLOCK];
            volume.read(1, &mut out).expect("read");
            assert!(out == noise(1));
            forebay_pmem::set_yield_hook(None);
            is_done.send(()).expect("it is waited for");
        });
        paused.recv().expect("a half is wrong");
        mirror.put(1, 2);
        let meanwhile = Mutex::new(Some((go_on, done)));
        second.set_hook(Some(Arc::new(move |event| {
            let is_met = event.kind == ShadowEventKind::Stream && event.offset == offset;
            let meanwhile = meanwhile.lock().expect("no panic").take_if(|_| is_met);
            if let Some((go_on, done)) = meanwhile {
                drop(go_on);
                done.recv().expect("it ends");
            }
        })));
        mirror.put(9, 9);
        second.set_hook(None);
    });
    assert_eq!(mirror.locate(9).bytes, slot);
    assert_eq!(mirror.counts(), (0, 0, 0));
    mirror.each_alone_reads(&[(1, noise(2)), (9, noise(9))]);
    mirror.scrub_finds(0);
}

#[test]
fn a_scrub_makes_the_members_metadata_the_same() {
    for member in 0..2 {
        let mirror = Mirror::new();
        let blocks: Vec<(u64, Vec<u8>)> = (0..40).map(|block| (block, noise(block))).collect();
        (0..40).for_each(|block| mirror.put(block, block));
        mirror.pool.checkpoint().expect("checkpoint");
        let flip = |offset| mirror.flip((&mirror.members[member], offset), 0);
        let both = |line: u64| [line * UNIT + 17, (line + 1) * UNIT + 17];
        // Of each pair of lines one counts: incarnation, checkpoint, roster.
        both(1).into_iter().for_each(flip);
        both(3).into_iter().for_each(flip);
        both(5).into_iter().for_each(flip);
        mirror.scrub_finds(3);
        // The superblock: magic, number, uuid, geometry, CRC.
        for at in [3, 12, 40, 45, 72, 254] {
            flip(at);
            mirror.scrub_finds(1);
        }
        // The volume's lines.
        let volume_table = 8 * UNIT;
        flip(volume_table + 60);
        flip(volume_table + 512 + 60);
        mirror.scrub_finds(1);
        let table = table_bytes(&mirror.pool);
        let used = used_lines(&mirror, table);
        for (at, line) in (0..).zip(&used) {
            flip(line + at % 64);
        }
        mirror.scrub_finds(used.len() as u64);
        mirror.each_alone_reads(&blocks);
    }
}

/// The lines of the table that have an entry, by the first member.
fn used_lines(mirror: &Mirror, table: Range<u64>) -> Vec<u64> {
    let durable = mirror.members[0].crash_state().durable().to_vec();
    let lines = table.step_by(64).filter(|line| {
        let line = *line as usize;
        durable[line..line + 64].iter().any(|byte| *byte != 0)
    });
    lines.collect()
}

#[test]
fn a_lost_table_line_is_written_again_also_where_dram_has_gone_on() {
    let mirror = Mirror::new();
    mirror.put(1, 1);
    mirror.pool.checkpoint().expect("checkpoint");
    let table = table_bytes(&mirror.pool);
    let (offset, len) = (table.start, table.end - table.start);
    mirror.members[1].inject(Fault::LostWrite { offset, len });
    mirror.put(1, 2);
    mirror.put(60, 3);
    mirror.pool.checkpoint().expect("checkpoint");
    assert_eq!(mirror.members[1].struck(), 1);
    let mut calls = 0;
    let mut write_once = |_| {
        calls += 1;
        if calls == 1 {
            mirror.put(1, 4);
        }
        ControlFlow::Continue(())
    };
    let report = mirror.pool.scrub(&ScrubOptions::default(), &mut write_once);
    let report = report.expect("scrub");
    assert_eq!((report.found, report.repaired), (2, 2), "{report:?}");
    mirror.each_alone_reads(&[(1, noise(4)), (60, noise(3))]);
    mirror.scrub_finds(0);
}

#[test]
fn a_pool_without_copies_is_scrubbed_too() {
    let shadow = Arc::new(Shadow::new(2 << 20, ShadowModel::Lines));
    let options = options().redundancy(Redundancy::None);
    let pool = Pool::create_on(vec![Region::on_shadow(shadow.clone())], &options).expect("create");
    let store = Arc::new(MemoryStore::new(BLOCKS * BLOCK as u64));
    let volume = pool.attach(Backing::from_store(store)).expect("attach");
    for block in 0..3 {
        volume.write(block, &noise(block)).expect("write");
    }
    assert_eq!(pool.write_back_once().expect("write back"), 3);
    volume.write(0, &noise(9)).expect("write");
    for block in 0..2 {
        let (_, bytes) = locate_block(&volume, block).expect("cached").bytes[0].clone();
        let offset = bytes.start + 5;
        shadow.inject(Fault::BitFlip { offset, bit: 0 });
    }
    let mut calls = 0;
    let mut count = |_| {
        calls += 1;
        ControlFlow::Continue(())
    };
    let report = pool.scrub(&ScrubOptions::default(), &mut count);
    let report = report.expect("scrub");
    let counts = (report.slots, report.found, report.dropped, report.lost);
    assert_eq!(counts, (3, 2, 1, 1), "{report:?}");
    assert!(calls > 1 && report.is_whole);
    let mut out = vec![0; BLOCK];
    volume.read(1, &mut out).expect("fetched again");
    assert!(out == noise(1));
    assert!(volume.read(0, &mut out).is_err());
}

#[test]
fn a_scrub_keeps_its_rate_and_ends_when_it_is_told_to() {
    let mirror = Mirror::new();
    (0..32).for_each(|block| mirror.put(block, block));
    // 32 blocks with two halves in a quarter of a second.
    let rate = 32 * 2 * BLOCK as u64 * 4;
    let options = ScrubOptions::default().rate_bytes_s(Some(rate));
    let started = std::time::Instant::now();
    let mut go_on = |_| ControlFlow::Continue(());
    let report = mirror.pool.scrub(&options, &mut go_on).expect("scrub");
    assert!(started.elapsed().as_millis() >= 240 && report.is_whole);
    let slow = ScrubOptions::default().rate_bytes_s(Some(1));
    let mut calls = 0;
    let mut end = |_| {
        calls += 1;
        match calls {
            3 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    };
    let report = mirror.pool.scrub(&slow, &mut end).expect("scrub");
    assert!(!report.is_whole && report.found == 0);
}

#[test]
fn blocks_are_scrubbed_while_others_write_them() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let members = ["a", "b"].map(|name| folder.path().join(name));
    let options = options().members(&members).member_bytes(4 << 20);
    let pool = Pool::create(&options.background(true)).expect("create");
    let store = Arc::new(MemoryStore::new(BLOCKS * BLOCK as u64));
    let volume = pool.attach(Backing::from_store(store)).expect("attach");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let (volume, is_over) = (volume.clone(), &is_over);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                let mut out = vec![0; BLOCK];
                while !is_over.load(Ordering::Relaxed) {
                    let block = random.u64(..BLOCKS / 3) * 3 + thread;
                    let seed = random.u64(..4);
                    match random.u8(..4) {
                        0 => volume.read(block, &mut out).expect("read"),
                        1 => {
                            let mut change = volume.begin();
                            let at = block * BLOCK as u64 + random.u64(..4000);
                            change.write_at(at, &[seed as u8; 60]).expect("write");
                            change.commit().expect("commit");
                        }
                        _ => {
                            volume.write(block, &noise(seed)).expect("write");
                            volume.read(block, &mut out).expect("read");
                            assert!(out == noise(seed));
                        }
                    }
                }
            });
        }
        let mut go_on = |_| ControlFlow::Continue(());
        for _ in 0..30 {
            let report = pool.scrub(&ScrubOptions::default(), &mut go_on);
            let report = report.expect("scrub");
            assert_eq!((report.found, report.transient), (0, 0), "{report:?}");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let totals = pool.stats().totals;
    let counts = [
        totals.repaired,
        totals.transient,
        totals.lost,
        totals.unrepaired,
    ];
    assert_eq!(counts, [0; 4]);
    drop(volume);
    pool.close().expect("close");
}
