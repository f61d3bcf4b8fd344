//! What a scrub looks at, finds and repairs.

use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use forebay::unstable::{locate_block, table_bytes};
use forebay::{Backing, MemoryStore, Pool, Redundancy, Region, ScrubOptions, ScrubProgress};
use forebay_pmem::shadow::{Distribution, Fault, Shadow, ShadowModel};

use crate::halves::{BLOCK, BLOCKS, Mirror, noise, options, packed};

const UNIT: u64 = 4096;

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
fn a_crash_in_the_midst_of_a_scrub_loses_nothing() {
    for member in 0..2 {
        let mirror = Mirror::new();
        let mut blocks = packed(&mirror).to_vec();
        for block in 3..6 {
            mirror.put(block, block);
            blocks.push((block, noise(block)));
        }
        mirror.pool.checkpoint().expect("checkpoint");
        let wrong = mirror.members[member].clone();
        let flip = |offset| mirror.flip((&wrong, offset), 0);
        // Superblock, incarnation, checkpoint, roster, volume.
        [3, 2, 4, 6]
            .map(|line| line * UNIT + 17)
            .into_iter()
            .for_each(flip);
        [1, 3, 5]
            .map(|line| line * UNIT + 17)
            .into_iter()
            .for_each(flip);
        [9, 8 * UNIT + 60, 8 * UNIT + 572]
            .into_iter()
            .for_each(flip);
        used_lines(&mirror, table_bytes(&mirror.pool))
            .into_iter()
            .for_each(flip);
        for (block, _) in &blocks {
            let (_, bytes) = mirror.locate(*block).bytes[0].clone();
            flip(bytes.start + 64 + block);
        }
        let found = Arc::new(Mutex::new(Vec::new()));
        let (seen, told) = (found.clone(), wrong.clone());
        wrong.set_hook(Some(Arc::new(move |_| {
            seen.lock().expect("no panic").push(told.crash_state());
        })));
        let report = mirror.scrub();
        wrong.set_hook(None);
        assert_eq!(report.found, report.repaired, "{report:?}");
        assert!(report.found > 10, "{report:?}");
        let right = mirror.members[member ^ 1].crash_state().durable().to_vec();
        mirror.images_read(&[&right], &blocks);
        let mut random = fastrand::Rng::with_seed(member as u64);
        let mut image = Vec::new();
        let states = found.lock().expect("no panic");
        for state in states.iter().step_by(states.len() / 40 + 1) {
            for distribution in Distribution::ALL {
                state.sample_from(distribution, &mut random, &mut image);
                // Until its superblock is repaired nothing says whose it is.
                let crc = forebay_pmem::crc32c(&image[..252]).to_le_bytes();
                if image[252..256] == crc {
                    mirror.images_read(&[&right, &image], &blocks);
                }
            }
        }
        mirror.each_alone_reads(&blocks);
    }
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

/// Also by another process: what is told of it is beside the checkpoint.
#[test]
fn a_scrub_goes_on_where_one_ended() {
    for closes in [true, false] {
        let mirror = Mirror::new();
        (0..100).for_each(|block| mirror.put(block, block));
        assert_eq!(mirror.pool.stats().unverified, None);
        let mut ended_at = 0;
        let mut end_half_way = |progress: ScrubProgress| {
            ended_at = progress.done_slots;
            match progress.done_slots * 2 > progress.all_slots {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        let options = ScrubOptions::default();
        let report = mirror.pool.scrub(&options, &mut end_half_way);
        let first = report.expect("scrub");
        assert!(!first.is_whole && first.slots > 0, "{first:?}");
        assert_eq!(mirror.pool.stats().unverified, None);
        let Mirror {
            members,
            pool,
            volume,
            ..
        } = mirror;
        drop(volume);
        match closes {
            true => pool.close().expect("close"),
            false => drop(pool),
        }
        let image = |shadow: &Arc<Shadow>| Region::shadow_from(shadow.crash_state().durable());
        let on = members.iter().map(image).collect();
        let runtime = crate::halves::options().runtime_options().clone();
        let pool = Pool::open_on(on, runtime).expect("open");
        let mut began_at = None;
        let mut go_on = |progress: ScrubProgress| {
            began_at.get_or_insert(progress.done_slots);
            ControlFlow::Continue(())
        };
        let resumed = pool.scrub(&options.clone().resume(true), &mut go_on);
        let resumed = resumed.expect("scrub");
        assert!(began_at > Some(ended_at), "{began_at:?} {ended_at}");
        assert_eq!(resumed.slots + first.slots, 100);
        assert!(resumed.is_whole && pool.stats().unverified.is_some());
        // That one was whole, so the next one begins anew.
        let mut to_the_end = |_| ControlFlow::Continue(());
        let anew = pool.scrub(&options.resume(true), &mut to_the_end);
        assert_eq!(anew.expect("scrub").slots, 100);
    }
}
