//! Journal blocks are written back last, and not one byte is lost for it.

use std::ops::Range;

use crate::journal_disk::{Disk, HOME, RING_BLOCKS, Ring, seed_image};
use crate::rig::{BLOCK, bytes_of, get, wait_until};
use forebay::{Backing, Pool, RuntimeOptions};

/// What data=journal makes of random writes, each with an fsync: a transaction, and the block at home
/// when the journal needs its room. Returns the disk's blocks written, and how many are distinct.
fn journaled_writes(disk: &mut Disk, ring: &mut Ring, homes: Range<u64>, low: u64) -> (u64, u64) {
    const LAG: u64 = 200;
    let count = homes.end - homes.start;
    for number in 0..count + LAG {
        if number < count {
            ring.transaction(disk, 1);
        }
        if number >= LAG {
            let block = homes.start + (number - LAG) * 7919 % count;
            disk.write(block, bytes_of(block, number));
        }
        disk.write_back_down_to(low);
    }
    disk.check_drained();
    (disk.blocks_written(), disk.model.len() as u64)
}

#[test]
fn a_journal_that_fits_is_written_once_however_often_it_goes_round() {
    const APP_BLOCKS: u64 = 11_000;
    const LOW: u64 = 1200;
    let run = |defer_journal: bool| {
        let mut disk = Disk::new(32 << 20, 16 << 10, |options| {
            options.defer_journal(defer_journal)
        });
        let homes = HOME..HOME + APP_BLOCKS;
        let (written, distinct) =
            journaled_writes(&mut disk, &mut Ring::of_seed_disk(), homes, LOW);
        (written, distinct, disk.stats())
    };
    let (with, distinct, stats) = run(true);
    assert_eq!(stats.journal_blocks, 1040);
    assert_eq!(distinct, APP_BLOCKS + RING_BLOCKS);
    assert_eq!(with, distinct, "each block once");
    assert_eq!(stats.totals.journal_written, RING_BLOCKS);
    let (without, _, stats) = run(false);
    assert_eq!((stats.journal_blocks, stats.totals.journal_written), (0, 0));
    let ratio = |blocks: u64| blocks as f64 / APP_BLOCKS as f64;
    println!(
        "disk blocks per application block: {:.3}, {:.3} without",
        ratio(with),
        ratio(without)
    );
    assert!(
        ratio(with) <= 1.1 && ratio(without) >= 2.0,
        "{with} {without}"
    );
}

#[test]
fn the_same_on_a_disk_made_by_mkfs() {
    const APP_BLOCKS: u64 = 11_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    std::fs::File::create(&path)
        .and_then(|file| file.set_len(64 << 20))
        .unwrap();
    let made = std::process::Command::new("mkfs.ext4")
        .args(["-q", "-F", "-b", "4096", "-J", "size=4"])
        .arg(&path)
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .status();
    if !made.is_ok_and(|status| status.success()) {
        use std::io::Write;
        let _ = writeln!(
            std::io::stderr(),
            "skipped the_same_on_a_disk_made_by_mkfs: needs mkfs.ext4"
        );
        return;
    }
    let image = std::fs::read(&path).unwrap();
    let journal = forebay::unstable::journal::locate(&image.as_slice())
        .journals
        .remove(0);
    let ring: Vec<u64> = journal
        .runs
        .iter()
        .flat_map(|run| {
            run.disk_offset / BLOCK as u64..(run.disk_offset + run.bytes) / BLOCK as u64
        })
        .skip(1)
        .collect();
    let mut disk = Disk::of(image, 32 << 20, |options| options);
    let mut ring = Ring {
        blocks: ring,
        next: 0,
        sequence: 1,
    };
    let homes = 4096..4096 + APP_BLOCKS;
    assert!(ring.blocks.iter().all(|block| !homes.contains(block)));
    let (written, distinct) = journaled_writes(&mut disk, &mut ring, homes, 3000);
    assert_eq!(written, distinct, "each block once");
    assert_eq!(disk.stats().totals.journal_written, 1023);
}

#[test]
fn a_journal_that_does_not_fit_is_written_only_as_far_as_it_does_not() {
    const LOW: u64 = 400;
    const LAPS: u64 = 12;
    let run = |defer_journal: bool| {
        let mut disk = Disk::new(16 << 20, 4096, |options| {
            options.defer_journal(defer_journal)
        });
        let mut ring = Ring::of_seed_disk();
        let mut per_lap = Vec::new();
        for lap in 1..=LAPS {
            let before = disk.blocks_written();
            while (ring.next as u64) < lap * RING_BLOCKS {
                ring.transaction(&mut disk, 3);
                disk.write_back_down_to(LOW);
            }
            per_lap.push(disk.blocks_written() - before);
        }
        disk.check_drained();
        (per_lap[2..].iter().sum::<u64>() / (LAPS - 2), disk.stats())
    };
    let (with, stats) = run(true);
    let (without, _) = run(false);
    println!("blocks written a lap of {RING_BLOCKS}: {with}, {without} without");
    // What there is room for stays: a round is 64 blocks, a transaction 5.
    assert!(with <= RING_BLOCKS - LOW + 2 * 64 + 5, "{with}");
    assert!(without >= RING_BLOCKS - 64, "{without}");
    assert!(stats.totals.journal_overwritten > 0);
}

#[test]
fn a_stale_superblock_costs_no_byte_and_neither_does_a_restart() {
    // The disk is used for something else: all of it is data, and all of it is written once.
    let mut disk = Disk::new(16 << 20, 4096, |options| options);
    disk.rig.pool.write_back_once().unwrap();
    assert_eq!(disk.stats().journal_blocks, 1040);
    for block in (17..1100).chain(3000..3500) {
        disk.write(block, bytes_of(block, 1));
    }
    disk.write_back_down_to(1500);
    let stats = disk.stats();
    assert!(stats.journal_deferred_blocks >= 1040 - 64, "{stats:?}");
    for block in 17..1100 {
        assert_eq!(get(&disk.volume, block), bytes_of(block, 1));
    }
    disk.volume.discard(30..40).unwrap();
    for block in 30..40 {
        disk.model.insert(block, vec![0; BLOCK]);
    }
    // Closed with most of them dirty, and opened again.
    let Disk {
        rig,
        store,
        model,
        volume,
        ..
    } = disk;
    drop(volume);
    let held_dirty = rig.pool.stats().dirty_blocks;
    rig.pool.close().unwrap();
    let options = RuntimeOptions::default().background(false);
    let pool = Pool::open_with(&[&rig.path], options).unwrap();
    assert_eq!(pool.stats().dirty_blocks, held_dirty);
    let volume = pool.attach(Backing::from_store(store.clone())).unwrap();
    while pool.write_back_once().unwrap() > 0 {}
    assert_eq!(
        pool.stats().dirty_blocks,
        0,
        "rounds alone write all of it, too"
    );
    pool.detach(volume).unwrap();
    let bytes = store.snapshot();
    for (block, expected) in &model {
        let at = *block as usize * BLOCK;
        assert!(bytes[at..at + BLOCK] == expected[..], "block {block}");
    }
}

#[test]
fn a_file_system_that_is_made_or_goes_is_noticed() {
    let image = seed_image(4096);
    let mut disk = Disk::of(vec![0; 4096 * BLOCK], 16 << 20, |options| options);
    disk.write(HOME, bytes_of(HOME, 1));
    disk.rig.pool.write_back_once().unwrap();
    assert_eq!(disk.stats().journal_blocks, 0);
    for (block, bytes) in image.chunks_exact(BLOCK).enumerate().take(128) {
        if bytes.iter().any(|byte| *byte != 0) {
            disk.write(block as u64, bytes.to_vec());
        }
    }
    disk.rig.pool.write_back_once().unwrap();
    assert_eq!(disk.stats().journal_blocks, 1040);
    let mut ring = Ring::of_seed_disk();
    ring.transaction(&mut disk, 100);
    disk.write(HOME, bytes_of(HOME, 2));
    disk.rig.pool.write_back_once().unwrap();
    // The journal's superblock is one of them.
    assert_eq!(disk.stats().journal_deferred_blocks, 103);
    // A few bytes of its superblock change: the feature that says there is a journal.
    let mut transaction = disk.volume.begin();
    transaction.write_at(1024 + 92, &[0]).unwrap();
    transaction.commit().unwrap();
    disk.model.get_mut(&0).unwrap()[1024 + 92] = 0;
    disk.rig.pool.write_back_once().unwrap();
    assert_eq!(disk.stats().journal_blocks, 0);
    disk.check_drained();
}

#[test]
fn the_switch_lets_everything_go_at_once_and_holds_again() {
    let mut disk = Disk::new(16 << 20, 4096, |options| options);
    assert!(disk.rig.pool.tuning().defer_journal);
    let mut ring = Ring::of_seed_disk();
    disk.write(HOME, bytes_of(HOME, 1));
    ring.transaction(&mut disk, 300);
    disk.rig.pool.write_back_once().unwrap();
    assert_eq!(disk.stats().journal_deferred_blocks, 302);
    disk.rig.pool.set_defer_journal(false);
    disk.rig.pool.write_back_once().unwrap();
    let stats = disk.stats();
    assert_eq!((stats.journal_deferred_blocks, stats.dirty_blocks), (0, 0));
    disk.rig.pool.set_defer_journal(true);
    ring.transaction(&mut disk, 50);
    disk.write(HOME, bytes_of(HOME, 2));
    disk.rig.pool.write_back_once().unwrap();
    assert_eq!(disk.stats().journal_deferred_blocks, 52);
    disk.check_drained();
}

#[test]
fn a_backing_that_fails_gets_what_was_held_back_when_it_returns() {
    let mut disk = Disk::new(16 << 20, 4096, |options| options);
    let mut ring = Ring::of_seed_disk();
    disk.write(HOME, bytes_of(HOME, 1));
    ring.transaction(&mut disk, 200);
    disk.rig.pool.write_back_once().unwrap();
    disk.faults.fail_writes(u64::MAX);
    assert!(
        disk.rig.pool.write_back_once().is_err(),
        "a journal block was due"
    );
    assert!(disk.stats().volumes[0].degraded);
    ring.transaction(&mut disk, 200);
    assert!(disk.rig.pool.write_back_once().is_err());
    assert_eq!(disk.stats().dirty_blocks, 404);
    disk.faults.fail_writes(0);
    while disk.rig.pool.write_back_once().unwrap() > 0 {}
    assert_eq!(disk.stats().dirty_blocks, 0);
    disk.check_drained();
}

#[test]
fn corrupt_blocks_do_not_keep_others_from_going() {
    const CORRUPT: u64 = 150;
    let mut disk = Disk::new(16 << 20, 4096, |options| options);
    let mut ring = Ring::of_seed_disk();
    ring.transaction(&mut disk, 500);
    // The youngest, which would go first.
    let block = |ring: &Ring, number: u64| ring.blocks[ring.next - 1 - number as usize];
    for number in 0..CORRUPT {
        disk.rig
            .pool
            .flip_bit(&disk.volume, block(&ring, number), 77)
            .unwrap();
    }
    for _ in 0..40 {
        drop(disk.rig.pool.write_back_once());
    }
    assert_eq!(
        disk.stats().dirty_blocks,
        CORRUPT,
        "all that can be written was"
    );
    for number in 0..CORRUPT {
        let block = block(&ring, number);
        disk.write(block, bytes_of(block, 9));
    }
    disk.check_drained();
}

#[test]
fn writers_do_not_starve_where_the_pool_is_smaller_than_the_journal() {
    let mut disk = Disk::new(3 << 20, 8192, |options| options.background(true));
    let slots = disk.stats().slots;
    assert!(slots < RING_BLOCKS, "{slots} slots");
    let mut ring = Ring::of_seed_disk();
    for number in 0..2000 {
        ring.transaction(&mut disk, 4);
        let home = HOME + number % 3000;
        disk.write(home, bytes_of(home, number));
    }
    wait_until("the level falls to the low watermark", || {
        let stats = disk.stats();
        stats.dirty_per_mille <= u64::from(disk.rig.pool.tuning().dirty_low_per_mille)
    });
    let stats = disk.stats();
    assert_eq!(stats.journal_blocks, 1040);
    assert!(stats.totals.journal_overwritten > 0, "{:?}", stats.totals);
    println!("{:?}", stats.totals);
    disk.check_drained();
}

/// Whatever is done in whatever order, the disk ends up with what was written last.
#[test]
fn random_histories_lose_nothing() {
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut disk = Disk::new(4 << 20, 4096, |options| options);
        let mut ring = Ring::of_seed_disk();
        for step in 0..600_u64 {
            match random.u32(0..100) {
                0..50 => ring.transaction(&mut disk, random.u64(0..6)),
                50..70 => {
                    let block = random.u64(16..4096);
                    disk.write(block, bytes_of(block, step));
                }
                70..80 => {
                    let first = random.u64(16..4000);
                    let blocks = first..first + random.u64(1..40);
                    disk.volume.discard(blocks.clone()).unwrap();
                    for block in blocks {
                        disk.model.insert(block, vec![0; BLOCK]);
                    }
                }
                80..90 => drop(disk.rig.pool.write_back_once().unwrap()),
                90..93 => drop(disk.rig.pool.reclaim_once(64).unwrap()),
                93..95 => disk.rig.pool.set_defer_journal(random.bool()),
                95..97 => {
                    let mut transaction = disk.volume.begin();
                    let features = [random.u8(0..2) * 4];
                    transaction.write_at(1024 + 92, &features).unwrap();
                    transaction.commit().unwrap();
                }
                97..98 => disk.volume.flush().unwrap(),
                _ => {
                    disk.faults.fail_writes(1);
                    drop(disk.rig.pool.write_back_once());
                    disk.faults.fail_writes(0);
                }
            }
            let some = *disk
                .model
                .keys()
                .nth(random.usize(0..disk.model.len().max(1)))
                .unwrap_or(&0);
            if let Some(expected) = disk.model.get(&some) {
                assert!(
                    get(&disk.volume, some) == *expected,
                    "seed {seed} step {step} block {some}"
                );
            }
        }
        let stats = disk.stats();
        assert!(stats.journal_deferred_blocks <= stats.dirty_blocks);
        disk.check_drained();
    }
}
