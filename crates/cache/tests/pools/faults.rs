//! Faults of the media under a pool: flipped bits wherever they can matter, lost pages, failed fences.
//! A fault is healed, survived or reported; never is a wrong byte served.

use std::sync::Arc;

use crate::fixtures::{BLOCK, LINE, Plan, Rig, block, get, lenient, open, put, quiet, tiny};
use forebay::{
    Backing, Error, ErrorKind, MemoryStore, Pool, PoolOptions, Region, RegionOptions, VerifyPolicy,
    Volume,
};
use forebay_pmem::shadow::FenceFailure;

const BLOCKS: u64 = 6;

/// Blocks 0 to 5 in the table, 0 to 2 of them clean; nothing in the log.
fn at_rest() -> (Rig, Volume) {
    let rig = Rig::new(&tiny(), 1);
    let volume = rig.attach();
    for number in 0..3 {
        put(&volume, number, &block(number, 1));
    }
    volume.flush().expect("flush");
    for number in 3..BLOCKS {
        put(&volume, number, &block(number, 1));
    }
    rig.pool.checkpoint().expect("checkpoint");
    (rig, volume)
}

fn flip(image: &mut [u8], bit: usize) {
    image[bit / 8] ^= 1 << (bit % 8);
}

/// Flips a bit under a running pool.
fn flip_live(rig: &Rig, bit: usize) {
    let region = Region::on_shadow(rig.shadows[0].clone());
    let mut byte = [0];
    region.read(bit as u64 / 8, &mut byte);
    region.store(bit as u64 / 8, &[byte[0] ^ 1 << (bit % 8)]);
}

fn attach(pool: &Pool, store: &Arc<MemoryStore>) -> Volume {
    pool.attach(Backing::from_store(store.clone()))
        .expect("attach")
}

/// Every block reads as it was written, or not at all; returns how many do not.
fn unreadable(volume: &Volume) -> u64 {
    let reads = (0..BLOCKS).map(|number| match get(volume, number) {
        Ok(bytes) => {
            assert!(bytes == block(number, 1), "block {number} reads wrong");
            0
        }
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::Corrupt { .. }), "{error}");
            1
        }
    });
    reads.sum()
}

#[test]
fn a_flipped_bit_in_a_slot_is_healed_where_the_backing_has_the_block() {
    let (rig, volume) = at_rest();
    let image = rig.images().remove(0);
    let plan = Plan::of(&image);
    for entry in plan.used_entries(&image) {
        let slot = plan.slot_of(&image, entry).expect("a data block");
        let number = plan.block_number(&image, entry);
        flip_live(&rig, (slot + 77) * 8 + 3);
        match get(&volume, number).map_err(Error::into_kind) {
            Ok(bytes) => {
                assert!(
                    plan.is_clean(&image, entry) && bytes == block(number, 1),
                    "{number}"
                );
            }
            Err(ErrorKind::Corrupt { block: bad, .. }) => {
                assert!(!plan.is_clean(&image, entry) && bad == number, "{number}");
                let (_, bad) = rig.pool.check(|_, _| {});
                assert!(bad.contains(&(volume.id(), number)));
            }
            Err(error) => panic!("{error}"),
        }
    }
    let totals = rig.pool.stats().totals;
    assert_eq!((totals.healed, totals.corrupt), (3, 3));
    let before = rig.store.snapshot();
    assert!(
        volume.flush().is_err() && rig.store.snapshot() == before,
        "bad bytes stay here"
    );
    for number in 3..BLOCKS {
        put(&volume, number, &block(number, 1));
    }
    assert_eq!(unreadable(&volume), 0, "overwritten blocks are good again");
}

#[test]
fn a_partial_update_never_covers_bad_bytes_with_a_good_check() {
    for policy in [VerifyPolicy::Always, VerifyPolicy::Never] {
        let (rig, volume) = at_rest();
        let image = rig.images().remove(0);
        let plan = Plan::of(&image);
        rig.pool.set_verify(policy);
        for entry in plan.used_entries(&image) {
            flip_live(&rig, (plan.slot_of(&image, entry).expect("data") + 100) * 8);
        }
        for (len, number) in [(4, 3), (120, 4), (4, 5)] {
            let mut transaction = volume.begin();
            transaction
                .write_at(number * BLOCK as u64, &vec![1; len])
                .expect("write");
            // A small one goes in place, bad check and all; a large one reads the block first.
            let committed = transaction.commit();
            assert!(
                committed.is_ok()
                    || matches!(
                        committed.as_ref().map_err(Error::kind),
                        Err(ErrorKind::Corrupt { .. })
                    )
            );
        }
        rig.pool.set_verify(VerifyPolicy::Always);
        for number in 3..BLOCKS {
            let read = get(&volume, number);
            assert!(
                matches!(
                    read.as_ref().map_err(Error::kind),
                    Err(ErrorKind::Corrupt { .. })
                ),
                "{policy:?}: block {number}"
            );
        }
    }
}

#[test]
fn every_flipped_bit_of_a_live_entry_is_an_error_or_harmless() {
    let (rig, volume) = at_rest();
    let image = rig.images().remove(0);
    let plan = Plan::of(&image);
    for entry in plan.used_entries(&image) {
        for bit in entry * 8..entry * 8 + 128 {
            flip_live(&rig, bit);
            assert!(unreadable(&volume) >= 1, "bit {bit}");
            let (_, bad) = rig.pool.check(|_, _| {});
            assert_eq!(bad.len(), 1);
            drop(rig.pool.write_back_once());
            flip_live(&rig, bit);
        }
    }
    assert_eq!(unreadable(&volume), 0);
}

#[test]
fn a_flipped_zero_entry_never_zeroes_another_block() {
    let rig = Rig::new(&tiny(), 1);
    let volume = rig.attach();
    for number in 0..4 {
        put(&volume, number, &block(number, 1));
    }
    volume.flush().expect("flush");
    while rig.pool.reclaim_once(64).expect("reclaim") > 0 {}
    let mut transaction = volume.begin();
    transaction.discard(1..2).expect("discard");
    transaction.commit().expect("commit");
    let image = rig.images().remove(0);
    let entry = Plan::of(&image).used_entries(&image)[0];
    let before = rig.store.snapshot();
    // Block 1 becomes block 3, 0, 5, ...
    for bit in 8..20 {
        flip_live(&rig, entry * 8 + bit);
        drop(volume.flush());
        assert!(rig.store.snapshot() == before, "bit {bit}");
        flip_live(&rig, entry * 8 + bit);
    }
}

#[test]
fn flipped_entries_at_rest_are_reported_before_anything_is_served() {
    let (rig, _volume) = at_rest();
    let image = rig.images().remove(0);
    let plan = Plan::of(&image);
    for entry in plan.used_entries(&image) {
        for bit in (entry * 8..entry * 8 + 128).step_by(3) {
            let mut flipped = image.clone();
            flip(&mut flipped, bit);
            let error = open(&[flipped.clone()], quiet()).expect_err("damage");
            assert!(
                matches!(error.kind(), ErrorKind::Damaged { .. }),
                "bit {bit}: {error}"
            );
            let pool = open(&[flipped], lenient()).expect("what is left");
            assert_eq!(pool.recovery_report().blocks, BLOCKS - 1);
        }
    }
}

/// A pool whose log holds everything since the incarnation began (`checkpoints` = 0) or since the last of
/// some checkpoints.
fn logged(options: &PoolOptions, checkpoints: usize) -> Rig {
    let rig = Rig::new(options, 1);
    let volume = rig.attach();
    for round in 0..=checkpoints {
        for number in 0..BLOCKS {
            put(
                &volume,
                number,
                &block(number, (checkpoints - round) as u64 + 1),
            );
        }
        if round < checkpoints {
            rig.pool.checkpoint().expect("checkpoint");
        }
    }
    rig
}

#[test]
fn any_flipped_bit_of_life_and_checkpoint_lines_costs_nothing() {
    for (checkpoints, incarnations) in [(0, 1), (1, 1), (2, 2), (3, 3), (0, 2)] {
        let rig = logged(&tiny(), checkpoints);
        let mut image = rig.images().remove(0);
        for _ in 1..incarnations {
            // An incarnation that wrote something, and was killed.
            let shadow = Arc::new(forebay_pmem::shadow::Shadow::from_image(
                &image,
                forebay_pmem::shadow::ShadowModel::Lines,
            ));
            let region = Region::on_shadow(shadow.clone());
            let pool = Pool::open_on(vec![region], quiet()).expect("open");
            let volume = attach(&pool, &rig.store);
            for number in 0..BLOCKS {
                put(&volume, number, &block(number, 9));
                put(&volume, number, &block(number, 1));
            }
            drop((volume, pool));
            image = crate::fixtures::view(&shadow);
        }
        let plan = Plan::of(&image);
        for line in (0..2).flat_map(|n| [plan.incarnation_line(n), plan.checkpoint_line(n)]) {
            for bit in (line * 8..(line + LINE) * 8).step_by(5) {
                let mut flipped = image.clone();
                flip(&mut flipped, bit);
                let pool = open(&[flipped], quiet()).unwrap_or_else(|error| {
                    panic!("{checkpoints} {incarnations} bit {bit}: {error}")
                });
                assert_eq!(unreadable(&attach(&pool, &rig.store)), 0, "bit {bit}");
            }
        }
    }
}

#[test]
fn flipped_records_are_reported_but_in_the_stated_window_of_pools_that_are_not_strict() {
    for strict in [false, true] {
        let options = tiny().strict(strict).lanes(1);
        let rig = Rig::new(&options, 1);
        let volume = rig.attach();
        let count = 10;
        for number in 0..count {
            put(&volume, number, &block(number, 1));
        }
        let image = rig.images().remove(0);
        let plan = Plan::of(&image);
        let records = plan.records(&image, plan.salt(&image));
        assert_eq!(records.len() as u64, count);
        for (number, (at, bytes)) in records.iter().enumerate() {
            for bit in (at * 8..(at + bytes) * 8).step_by(7) {
                let mut flipped = image.clone();
                flip(&mut flipped, bit);
                let opened = open(&[flipped], quiet());
                if strict || number + 1 < records.len() {
                    assert!(
                        matches!(
                            opened.as_ref().map_err(Error::kind),
                            Err(ErrorKind::Damaged { .. })
                        ),
                        "record {number}"
                    );
                    continue;
                }
                // Without a commit word the last record of a lane looks like one that a crash tore.
                let pool = opened.expect("all but the last");
                let volume = attach(&pool, &rig.store);
                for before in 0..count - 1 {
                    assert!(get(&volume, before).expect("read") == block(before, 1));
                }
                // Its entry may have reached the table before the process was killed.
                let last = get(&volume, count - 1).expect("read");
                assert!(last == vec![0; BLOCK] || last == block(count - 1, 1));
            }
        }
    }
}

#[test]
fn a_flipped_commit_word_is_reported() {
    let options = tiny().strict(true);
    let rig = logged(&options, 0);
    let image = rig.images().remove(0);
    let plan = Plan::of(&image);
    let used = (0..plan.lanes).map(|lane| plan.commit_word(lane));
    let words: Vec<usize> = used
        .filter(|at| crate::fixtures::u64_at(&image, *at) != 0)
        .collect();
    assert_eq!(words.len(), 1, "one thread, one lane");
    for bit in words[0] * 8..words[0] * 8 + 64 {
        let mut flipped = image.clone();
        flip(&mut flipped, bit);
        let error = open(&[flipped.clone()], quiet()).expect_err("damage");
        assert!(error.to_string().contains("commit word"), "{error}");
        let pool = open(&[flipped], lenient()).expect("with loss");
        let volume = attach(&pool, &rig.store);
        for number in 0..BLOCKS - 1 {
            assert!(get(&volume, number).expect("proven") == block(number, 1));
        }
    }
}

#[test]
fn flipped_volume_lines_never_lend_blocks_to_another_volume() {
    let (rig, _volume) = at_rest();
    let image = rig.images().remove(0);
    let plan = Plan::of(&image);
    for bit in (plan.volume_table * 8..(plan.volume_table + 2 * 512) * 8).step_by(11) {
        let mut flipped = image.clone();
        flip(&mut flipped, bit);
        match open(&[flipped], quiet()) {
            // The second line was never written: it cannot matter.
            Ok(pool) => assert_eq!(unreadable(&attach(&pool, &rig.store)), 0),
            Err(error) => assert!(error.to_string().contains("volume"), "{error}"),
        }
    }
}

#[test]
fn after_a_failed_fence_writes_are_refused_and_reads_go_on() {
    let (rig, volume) = at_rest();
    while rig.pool.reclaim_once(64).expect("reclaim") > 0 {}
    rig.shadows[0].set_fence_failure(FenceFailure::After(0));
    // A miss whose fill cannot be fenced, then one after that.
    assert!(get(&volume, 0).expect("the backing has it") == block(0, 1));
    let mut transaction = volume.begin();
    let written = transaction
        .write(3, &block(3, 2))
        .and_then(|()| transaction.commit());
    let error = written.expect_err("refused");
    assert!(
        matches!(
            error.kind(),
            ErrorKind::Poisoned { .. } | ErrorKind::Media(_)
        ),
        "{error}"
    );
    for _ in 0..2 {
        assert!(matches!(
            rig.pool.checkpoint().as_ref().map_err(Error::kind),
            Err(ErrorKind::Poisoned { .. })
        ));
        assert!(matches!(
            volume.begin().commit().as_ref().map_err(Error::kind),
            Err(ErrorKind::Poisoned { .. })
        ));
        assert!(volume.discard(0..1).is_err());
        assert_eq!(unreadable(&volume), 0);
    }
    assert!(rig.pool.stats().poisoned);
    let image = rig.shadows[0].crash_state().durable().to_vec();
    let pool = open(&[image], quiet()).expect("reopening ends it");
    assert_eq!(unreadable(&attach(&pool, &rig.store)), 0);
}

#[test]
fn a_failed_fence_in_a_commit_publishes_nothing() {
    let (rig, volume) = at_rest();
    rig.shadows[0].set_fence_failure(FenceFailure::From(0));
    let mut transaction = volume.begin();
    transaction.write(3, &block(3, 2)).expect("write");
    transaction
        .write_at(4 * BLOCK as u64, b"delta")
        .expect("write");
    assert!(matches!(
        transaction.commit().as_ref().map_err(Error::kind),
        Err(ErrorKind::Media(_))
    ));
    assert_eq!(unreadable(&volume), 0, "old bytes for every reader");
    // A clean copy that goes bad now can no longer be replaced, but the backing has the block.
    let image = rig.images().remove(0);
    let plan = Plan::of(&image);
    for entry in plan.used_entries(&image) {
        if plan.is_clean(&image, entry) {
            flip_live(&rig, plan.slot_of(&image, entry).expect("data") * 8);
        }
    }
    assert_eq!(unreadable(&volume), 0);
}

/// A pool on a file in /dev/shm that is cut short while the pool is open, as a bad page of real
/// persistent memory would appear: an access raises SIGBUS.
fn with_lost_pages(checksums: bool, check: impl Fn(&Pool, &Volume)) {
    let folder = tempfile::tempdir_in("/dev/shm").expect("/dev/shm");
    let options = PoolOptions::new(folder.path().join("pool"), 2 << 20)
        .checksums(checksums)
        .runtime(quiet())
        .region(RegionOptions::default().huge_pages(false));
    let pool = Pool::create(&options).expect("create");
    let store = Arc::new(MemoryStore::new(64 * 4096));
    let volume = attach(&pool, &store);
    let large = |number| crate::fixtures::block_of(4096, number, 1);
    for number in 0..32 {
        put(&volume, number, &large(number));
        if number == 15 {
            volume.flush().expect("flush");
        }
    }
    let image = std::fs::read(&options.paths()[0]).expect("read");
    let plan = Plan::of(&image);
    let slots = plan.used_entries(&image);
    let mut slots: Vec<usize> = slots
        .iter()
        .map(|entry| plan.slot_of(&image, *entry).expect("data"))
        .collect();
    slots.sort_unstable();
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(&options.paths()[0])
        .expect("open");
    file.set_len(slots[slots.len() / 2] as u64).expect("cut");
    let (mut good, mut lost) = (0, 0);
    for number in 0..32 {
        match get(&volume, number) {
            Ok(bytes) => {
                assert!(bytes == large(number), "block {number} reads wrong");
                good += 1;
            }
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::Corrupt { .. }), "{error}");
                assert!(number >= 16, "block {number} is clean: {error}");
                lost += 1;
            }
        }
    }
    assert!(good >= 16 && lost > 0, "{good} good, {lost} lost");
    check(&pool, &volume);
    file.set_len(2 << 20).expect("so that nothing else faults");
}

#[test]
fn lost_pages_are_errors_and_not_the_death_of_the_process() {
    for checksums in [true, false] {
        with_lost_pages(checksums, |pool, volume| {
            let mut transaction = volume.begin();
            let written = transaction
                .write(1, &vec![1; 4096])
                .and_then(|()| transaction.commit());
            assert!(written.is_err(), "no fence can be trusted any more");
            let (_, bad) = pool.check(|_, _| {});
            assert!(!bad.is_empty());
            assert!(pool.checkpoint().is_err());
        });
    }
}

#[test]
fn a_lost_page_of_the_table_is_no_miss() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("/dev/shm");
    let options = PoolOptions::new(folder.path().join("pool"), 2 << 20)
        .runtime(quiet())
        .region(RegionOptions::default().huge_pages(false));
    let pool = Pool::create(&options).expect("create");
    let store = Arc::new(MemoryStore::new(64 * 4096));
    let volume = attach(&pool, &store);
    for number in 0..32 {
        put(&volume, number, &crate::fixtures::block_of(4096, number, 1));
    }
    let image = std::fs::read(&options.paths()[0]).expect("read");
    let table = Plan::of(&image).entry_table as u64;
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(&options.paths()[0])
        .expect("open");
    file.set_len(table).expect("cut");
    for number in 0..32 {
        // What the backing has is older than what was acknowledged.
        let error = get(&volume, number).expect_err("its entry is lost");
        assert!(matches!(error.kind(), ErrorKind::Damaged { .. }), "{error}");
    }
    assert!(volume.flush().is_err(), "the dirty blocks cannot be found");
    assert!(volume.block_states(0..32, |_, _| true).is_err());
    assert!(volume.discard(0..1).is_err());
    file.set_len(2 << 20).expect("so that nothing else faults");
}
