//! The engine as a whole: against a model, in exact counts, and through crashes.

mod moved;

use std::sync::{Arc, Mutex};

use crate::Engine;
use forebay::{Backing, Error, ErrorKind, Region};
use forebay_pmem::Counters;
use forebay_pmem::shadow::{Shadow, ShadowModel};

use crate::engines::{EngineName, open};
use crate::testing::{Content, Rig, TestStep, VolatileDisk, disk_holding, set_broken};

/// A region of 8 KiB over a disk that is larger: 47 data blocks of 128 bytes, 5 metadata blocks.
fn tiny() -> Rig {
    Rig::new(EngineName::Spindle, 8 << 10, 80)
}

/// A region with few blocks, so that everything is evicted soon.
fn cramped() -> Rig {
    let mut rig = Rig::new(EngineName::Spindle, 3 << 10, 20);
    rig.options.ring_elements = Some(8);
    rig
}

/// Blocks and inodes of the usual size.
fn usual() -> Rig {
    let mut rig = Rig::new(EngineName::Spindle, 4 << 20, 64);
    rig.options.block_bytes = 4096;
    rig.options.inode_bytes = 256;
    rig.options.ring_elements = Some(1024);
    rig
}

fn printed(mut rig: Rig) -> Rig {
    rig.options.as_printed = true;
    rig
}

/// What the persistent memory was given meanwhile.
fn counted(engine: &dyn Engine, act: impl FnOnce()) -> (u64, u64) {
    let before = engine.stats().memory;
    act();
    let spent: Counters = engine.stats().memory - before;
    (spent.lines(), spent.fences)
}

fn write(blocks: impl IntoIterator<Item = u64>, seed: u64) -> TestStep {
    TestStep::Commit(
        blocks
            .into_iter()
            .map(|block| (block, seed + block))
            .collect(),
    )
}

fn reopened(rig: &Rig, shadow: &Shadow, disk: &Arc<VolatileDisk>) -> Result<Content, Error> {
    let image = shadow.crash_state().durable().to_vec();
    let (_shadow, engine) = rig.open(&image, disk)?;
    Ok(rig.content(&*engine))
}

#[test]
fn random_operations_leave_what_a_model_says() {
    for seed in 0..4 {
        tiny().run_against_model(2000, 8, seed);
        cramped().run_against_model(2000, 3, seed);
        let mut unfilled = cramped();
        unfilled.options.fill_on_read = false;
        unfilled.run_against_model(1000, 3, seed);
    }
}

#[test]
fn the_smallest_caches_evict_and_count() {
    let (_shadow, engine) = cramped().run_against_model(500, 3, 9);
    let stats = engine.stats();
    assert!(stats.slots < 20 && stats.evictions > 100, "{stats:?}");
    assert!(stats.write_hits > 0 && stats.read_hits > 0 && stats.read_misses > 0);
    assert!(stats.write_hits < stats.blocks_committed, "{stats:?}");
}

#[test]
fn a_data_block_costs_three_lines_more_than_its_bytes_and_two_fences() {
    let (rig, mut truth) = (usual(), usual().first_content());
    let (_shadow, engine) = rig.create(&rig.disk());
    for seed in [1, 100] {
        // Missed first, then hit. Element, block, entry, Tail; the last Tail moves with Head.
        let one = counted(&*engine, || {
            rig.act(&*engine, &write([3], seed), &mut truth)
        });
        assert_eq!(one, (67, 3));
        let eight = write(8..16, seed);
        let eight = counted(&*engine, || rig.act(&*engine, &eight, &mut truth));
        assert_eq!(eight, (8 * 67, 2 * 8 + 1));
    }
    let stats = engine.stats();
    assert_eq!((stats.commits, stats.blocks_committed), (4, 18));
    assert_eq!((stats.write_hits, stats.dirty_blocks), (9, 9));
}

#[test]
fn an_inode_costs_ten_lines_and_three_fences() {
    let (rig, mut truth) = (usual(), usual().first_content());
    let (_shadow, engine) = rig.create(&rig.disk());
    let mut update = |steps: &[TestStep]| {
        counted(&*engine, || {
            for step in steps {
                rig.act(&*engine, step, &mut truth);
            }
        })
    };
    // The block comes in: log header, block, entry, Head.
    assert_eq!(update(&[TestStep::Update(5, 1)]), (67, 3));
    // Log and its header, in place, Head.
    assert_eq!(update(&[TestStep::Update(5, 18)]), (4 + 1 + 4 + 1, 3));
    update(&[TestStep::Flush]);
    // The entry says from now on that the disk does not have the block.
    assert_eq!(update(&[TestStep::Update(5, 35)]), (11, 3));
    // Five inodes have headers in two lines.
    let five = TestStep::Mixed {
        data: Vec::new(),
        inodes: vec![(5, 0), (5, 1), (5, 2), (5, 3), (5, 4)],
    };
    assert_eq!(update(&[five]), (5 * 4 + 2 + 5 * 4 + 1, 3));
    // With data, the metadata's fences are the data's.
    let mixed = TestStep::Mixed {
        data: vec![(20, 1), (21, 1)],
        inodes: vec![(5, 6)],
    };
    assert_eq!(update(&[mixed]), (2 * 67 + 4 + 1 + 4, 5));
    // Dirty data that becomes metadata is copied first: block, entry, its old entry, and then in place.
    assert_eq!(update(&[TestStep::Update(20, 1)]), (64 + 1 + 1 + 10, 5));
    // Metadata that is written as data: the metadata entry goes afterwards.
    assert_eq!(update(&[write([5], 7)]), (67 + 1, 4));
    assert!(rig.content(&*engine) == truth);
}

#[test]
fn a_fill_costs_a_line_more_than_its_bytes_and_an_eviction_one() {
    let (rig, mut truth) = (cramped(), cramped().first_content());
    let (_shadow, engine) = rig.create(&rig.disk());
    let mut read = |block| {
        counted(&*engine, || {
            rig.act(&*engine, &TestStep::Read(block), &mut truth)
        })
    };
    // A block has two lines. The first blocks fill the data cache, the next one has to evict.
    let evicting = (0..20).find(|&block| read(block) != (2 + 1, 1));
    let block = evicting.expect("fewer blocks than the disk has");
    assert_eq!(engine.stats().evictions, 1);
    assert_eq!(read(block), (0, 0));
    assert_eq!(read(0), (2 + 1 + 1, 2));
    let commit = write([19], 1);
    let commit = counted(&*engine, || rig.act(&*engine, &commit, &mut truth));
    assert_eq!(
        commit,
        (2 + 3 + 1, 3),
        "the element's fence is the eviction's too"
    );
}

#[test]
fn threads_take_turns() {
    let rig = cramped();
    let disk = rig.disk();
    let (shadow, engine) = rig.create(&disk);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (rig, engine) = (&rig, &*engine);
            scope.spawn(move || {
                let mut truth = rig.first_content();
                for step in 0..200 {
                    let block = thread * 5 + step % 5;
                    rig.act(engine, &write([block], step), &mut truth);
                    rig.act(engine, &TestStep::Update(block, step + 1), &mut truth);
                    rig.act(engine, &TestStep::Read(thread * 5), &mut truth);
                }
            });
        }
    });
    let found = rig.content(&*engine);
    assert_eq!(engine.stats().commits, 1600);
    assert!(reopened(&rig, &shadow, &disk).unwrap() == found);
    engine.flush().unwrap();
    assert!(disk.bytes() == found.concat());
}

#[test]
fn a_flush_writes_neighbours_at_once_and_marks_lines_once() {
    let (rig, mut truth) = (usual(), usual().first_content());
    let disk = rig.disk();
    let (shadow, engine) = rig.create(&disk);
    rig.act(&*engine, &write([1, 2, 3, 9], 1), &mut truth);
    rig.act(&*engine, &TestStep::Update(4, 1), &mut truth);
    let marks = counted(&*engine, || engine.flush().unwrap());
    assert_eq!(
        marks,
        (2, 1),
        "a line of four data entries, one of metadata"
    );
    let stats = engine.stats();
    assert_eq!((stats.backing.writes, stats.backing.syncs), (2, 1));
    assert_eq!(stats.dirty_blocks, 0);
    assert_eq!(counted(&*engine, || engine.flush().unwrap()), (0, 0));
    let image = shadow.crash_state().durable().to_vec();
    let (_shadow, engine) = rig.open(&image, &disk).unwrap();
    let stats = engine.stats();
    assert_eq!((stats.cached_blocks, stats.dirty_blocks), (5, 0));
}

#[test]
fn a_broken_disk_leaves_everything_as_it_was() {
    let rig = cramped();
    let (disk, mut truth) = (rig.disk(), rig.first_content());
    let (shadow, engine) = rig.create(&disk);
    let slots = engine.stats().slots;
    for step in rig.random_script(200, 3, 3) {
        rig.act(&*engine, &step, &mut truth);
    }
    for block in 0..slots {
        rig.act(&*engine, &write([block], 5), &mut truth);
    }
    set_broken(&disk, true);
    let refusals = (0..20).filter(|block| {
        let mut transaction = engine.begin();
        transaction.write(*block, &rig.bytes_of(1)).unwrap();
        let other = (block + 7) % 20;
        transaction.write(other, &rig.bytes_of(2)).unwrap();
        match transaction.commit() {
            Ok(()) => {
                truth[*block as usize] = rig.bytes_of(1);
                truth[other as usize] = rig.bytes_of(2);
                false
            }
            Err(error) => matches!(error.kind(), ErrorKind::Backing { .. }),
        }
    });
    assert!(refusals.count() > 5);
    assert!(
        rig.content(&*engine) == truth,
        "reads work without write-back"
    );
    assert!(engine.flush().is_err());
    set_broken(&disk, false);
    assert!(reopened(&rig, &shadow, &disk).unwrap() == truth);
    engine.flush().unwrap();
    assert!(disk.bytes() == truth.concat());
}

#[test]
fn other_options_and_garbage_are_refused() {
    let rig = tiny();
    rig.open_garbage(300);
    printed(tiny()).open_garbage(100);
    let (disk, truth) = (rig.disk(), rig.first_content());
    let (shadow, _engine) = rig.create(&disk);
    assert!(reopened(&rig, &shadow, &disk).unwrap() == truth);
    let refusal = |change: &dyn Fn(&mut Rig)| {
        let mut other = tiny();
        change(&mut other);
        let error = reopened(&other, &shadow, &disk).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Refused { .. }), "{error}");
    };
    refusal(&|other| other.options.block_bytes = 256);
    refusal(&|other| other.options.inode_bytes = 128);
    refusal(&|other| other.options.ring_elements = Some(17));
    refusal(&|other| other.options.as_printed = true);
}

#[test]
fn what_is_not_on_the_disk_is_refused() {
    let rig = tiny();
    let (_shadow, engine) = rig.create(&rig.disk());
    assert!(engine.read(80, &mut [0; 128]).is_err());
    assert!(engine.read(79, &mut [0; 256]).is_err());
    assert!(engine.read(0, &mut [0; 100]).is_err());
    assert!(rig.content(&*engine) == rig.first_content());
}

/// Transactions of data and metadata, some of which want more than the metadata cache has.
fn mixed_script(rig: &Rig, steps: usize, seed: u64) -> Vec<TestStep> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut steps = rig.random_script(steps, 3, seed);
    for step in &mut steps {
        if rng.u8(..3) == 0 {
            let block = rng.u64(..rig.disk_blocks as u64 - 3);
            *step = TestStep::Mixed {
                data: vec![(block, rng.u64(..))],
                inodes: (1..3).map(|more| (block + more, rng.u64(..))).collect(),
            };
        }
    }
    steps
}

#[test]
fn a_crash_anywhere_leaves_whole_transactions() {
    let mut images = 0;
    for seed in 0..3 {
        for rig in [tiny(), cramped()] {
            let script = mixed_script(&rig, 60, seed);
            images += rig.crash_everywhere(&script, 4, seed).unwrap();
        }
    }
    assert!(images > 5000, "{images}");
}

/// Reads that miss evict and fill, with no commit between them.
#[test]
fn a_crash_in_a_fill_leaves_every_block_its_own_bytes() {
    let rig = cramped();
    let mut script: Vec<TestStep> = (0..16).map(|block| write([block], 3)).collect();
    script.push(TestStep::Flush);
    script.extend((0..40).map(|step| TestStep::Read(step % 20)));
    rig.crash_everywhere(&script, 10, 1).unwrap();
}

type Images = Arc<Mutex<Vec<(Vec<u8>, Vec<u8>)>>>;

/// Has every event of a region add what a power cut then may leave of it and of its disk.
fn collect(shadow: &Arc<Shadow>, disk: &Arc<VolatileDisk>, seed: u64) -> Images {
    let images = Images::default();
    let (all, disk, of) = (images.clone(), disk.clone(), Arc::downgrade(shadow));
    let rng = Mutex::new(fastrand::Rng::with_seed(seed));
    shadow.set_hook(Some(Arc::new(move |_| {
        let shadow = of.upgrade().expect("its own hook");
        let mut rng = rng.lock().unwrap();
        let state = shadow.crash_state();
        for medium in [state.sample(&mut rng), state.durable().to_vec()] {
            all.lock()
                .unwrap()
                .push((medium, disk.crash_state().sample_bytes(&mut rng)));
        }
    })));
    images
}

#[test]
fn a_recovery_that_is_cut_off_is_begun_again() {
    let mut cuts = 0;
    for seed in 0..3 {
        let rig = cramped();
        let disk = rig.disk();
        let (shadow, engine) = rig.create(&disk);
        let images = collect(&shadow, &disk, seed);
        let mut truth = rig.first_content();
        for step in mixed_script(&rig, 30, seed) {
            rig.act(&*engine, &step, &mut truth);
        }
        shadow.set_hook(None);
        for (medium, bytes) in std::mem::take(&mut *images.lock().unwrap()) {
            let disk = disk_holding(&bytes);
            let shadow = Arc::new(Shadow::from_image(&medium, ShadowModel::Lines));
            let cut = collect(&shadow, &disk, seed);
            let region = Region::on_shadow(shadow.clone());
            let backing = Backing::from_store(disk.clone());
            let engine = open(rig.name, region, backing, &rig.options).unwrap();
            shadow.set_hook(None);
            let found = rig.content(&*engine);
            for (medium, bytes) in std::mem::take(&mut *cut.lock().unwrap()) {
                let (_shadow, engine) = rig.open(&medium, &disk_holding(&bytes)).unwrap();
                assert!(rig.content(&*engine) == found);
                cuts += 1;
            }
        }
    }
    assert!(cuts > 2000, "{cuts}");
}

#[test]
fn a_power_cut_after_a_kill_takes_nothing_back() {
    let rig = cramped();
    let mut script = rig.random_script(40, 3, 5);
    script.extend((0..16).map(|block| write([block], 9)));
    let mixed = TestStep::Mixed {
        data: vec![(16, 16), (17, 17)],
        inodes: vec![(18, 1), (19, 2)],
    };
    let next = rig.random_script(4, 3, 6);
    for step in [mixed, TestStep::Read(17), TestStep::Flush] {
        let cuts = rig.crash_after_kills(&script, &step, &next, 2).unwrap();
        assert!(cuts > 200, "{cuts}");
    }
}

/// As printed, the element past Tail counts, whichever lap it is of.
#[test]
fn finding_1_a_stale_element_past_tail_revokes_a_committed_block() {
    for (rig, survives) in [(tiny(), true), (printed(tiny()), false)] {
        let (disk, mut truth) = (rig.disk(), rig.first_content());
        let (shadow, engine) = rig.create(&disk);
        // Once round the ring (by default positions start at 1), so that the element past Tail is the
        // first one written: block 0 was not cached then.
        let commits = rig.options.ring_elements.unwrap() - u64::from(survives);
        for block in 0..commits {
            rig.act(&*engine, &write([block], 1), &mut truth);
        }
        // Nothing is pending: this is no crash, but an orderly end.
        assert_eq!(shadow.crash_state().pending_units(), 0);
        let found = reopened(&rig, &shadow, &disk);
        assert_eq!(found.is_ok_and(|found| found == truth), survives);
    }
}

/// As printed, an entry is written as 16 bytes, of which a power cut may keep 8.
#[test]
fn finding_2_a_torn_entry_gives_a_block_the_bytes_of_another() {
    for (mut rig, survives) in [(cramped(), true), (printed(cramped()), false)] {
        // A ring that the script does not go round: finding 1 is not at work.
        rig.options.ring_elements = Some(64);
        rig.region_bytes += 64 * 16;
        let script: Vec<TestStep> = (0..50).map(|step| write([step % 20], step)).collect();
        let result = rig.crash_everywhere(&script, 6, 1);
        assert_eq!(result.is_ok(), survives, "{result:?}");
    }
}

/// As printed, data commits when Head moves and metadata when its records are gone.
#[test]
fn finding_3_data_is_committed_without_its_metadata() {
    for (mut rig, survives) in [(tiny(), true), (printed(tiny()), false)] {
        // No fills, whose entries could tear: finding 2 is not at work.
        rig.options.fill_on_read = false;
        let warm = TestStep::Update(3, 0);
        let mixed = TestStep::Mixed {
            data: vec![(1, 1)],
            inodes: vec![(3, 1)],
        };
        let result = rig.crash_everywhere(&[warm, mixed], 20, 1);
        assert_eq!(result.is_ok(), survives, "{result:?}");
        if let Err(wrong) = result {
            assert!(wrong.contains("in part"), "{wrong}");
        }
    }
}

/// As printed, records are removed one after another.
#[test]
fn finding_4_half_of_the_records_of_a_transaction_are_removed() {
    for (mut rig, survives) in [(tiny(), true), (printed(tiny()), false)] {
        // No fills, whose entries could tear: finding 2 is not at work.
        rig.options.fill_on_read = false;
        let inodes: Vec<(u64, u64)> = (0..4).map(|block| (block, 0)).collect();
        let update = |seed| TestStep::Mixed {
            data: Vec::new(),
            inodes: inodes.iter().map(|(block, _)| (*block, seed)).collect(),
        };
        let result = rig.crash_everywhere(&[update(0), update(2), update(4)], 40, 1);
        assert_eq!(result.is_ok(), survives, "{result:?}");
    }
}

/// As printed, recovery believes what a killed process stored and did not flush.
#[test]
fn finding_5_a_power_cut_after_a_kill_brings_an_evicted_block_back() {
    for (rig, survives) in [(cramped(), true), (printed(cramped()), false)] {
        let mut losses = 0;
        for event in 0..20 {
            let disk = rig.disk();
            let (shadow, engine) = rig.create(&disk);
            // The cache is full of clean blocks, the last ones of the disk.
            let mut truth = rig.content(&*engine);
            // Killed at some event of an eviction and a fill.
            if !rig.is_killed_at(event, &shadow, engine, &TestStep::Read(0), &mut truth) {
                break;
            }
            let region = Region::on_shadow(shadow.clone());
            let backing = Backing::from_store(disk.clone());
            let engine = open(rig.name, region, backing, &rig.options).unwrap();
            let images = collect(&shadow, &disk, event);
            rig.act(&*engine, &TestStep::Read(1), &mut truth);
            shadow.set_hook(None);
            // Every second image is what was durable: in it nothing is torn.
            for (medium, _) in images.lock().unwrap().iter().skip(1).step_by(2) {
                let found = rig
                    .open(medium, &disk)
                    .map(|(_shadow, engine)| rig.content(&*engine));
                losses += usize::from(!found.is_ok_and(|found| found == truth));
            }
        }
        assert_eq!(losses == 0, survives, "{losses}");
    }
}
