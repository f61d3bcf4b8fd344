//! What a round does whose writes or whose sync fail, and what the next one does.

use std::sync::Arc;

use forebay_pmem::shadow::FenceFailure;

use super::{DESIGNS, at_next, rig};
use crate::EngineStats;
use crate::engines::EngineName;
use crate::testing::Rig;
use forebay_volatile::DiskEvent;

/// All that is dirty goes at a wakeup, and nothing before.
fn eager(name: EngineName) -> Rig {
    let mut rig = rig(name, (0, 1000, 2));
    rig.region_bytes = 32 << 10;
    rig.options.set_blocks = 64;
    rig
}

/// What the disk was given meanwhile: bytes, and syncs.
fn given(before: &EngineStats, after: &EngineStats) -> (u64, u64) {
    let given = after.backing - before.backing;
    (given.bytes_written, given.syncs)
}

#[test]
fn a_round_whose_sync_failed_is_written_again_and_counts_after_a_sync_of_its_own() {
    for name in DESIGNS {
        let rig = eager(name);
        let (disk, mut truth) = (rig.disk(), rig.first_content());
        let (_shadow, engine) = rig.create(&disk);
        for block in [3, 4, 9] {
            truth[block as usize] = rig.bytes_of(block);
            engine.write(block, &rig.bytes_of(block)).expect("write");
        }
        let before = engine.stats();
        disk.fail_next(0, 1);
        let error = engine.background_turn().expect_err("the sync fails");
        let failed = engine.stats();
        assert_eq!(failed.dirty_blocks, before.dirty_blocks, "{name}");
        assert!(
            failed.is_degraded && failed.write_back_errors == 1,
            "{name}"
        );
        assert_eq!(engine.last_error(), Some(error.to_string()), "{name}");
        // It may have forgotten any of them: served is what the memory has.
        assert!(rig.content(&*engine) == truth, "{name}");
        engine.background_turn().expect("the disk is well again");
        let after = engine.stats();
        assert_eq!(given(&failed, &after), given(&before, &failed), "{name}");
        assert_eq!(after.dirty_blocks, 0, "{name}");
        assert!(!after.is_degraded && after.write_back_errors == 1, "{name}");
        assert_eq!(engine.last_error(), None, "{name}");
        engine.flush().expect("flush");
        assert!(
            rig.disk_holds(&disk.crash_state().durable(), &truth),
            "{name}"
        );
    }
}

#[test]
fn a_round_of_which_a_write_failed_is_not_synced() {
    for name in DESIGNS {
        let rig = eager(name);
        let (disk, mut truth) = (rig.disk(), rig.first_content());
        let (_shadow, engine) = rig.create(&disk);
        // Two runs.
        for block in [3, 9] {
            truth[block as usize] = rig.bytes_of(block);
            engine.write(block, &rig.bytes_of(block)).expect("write");
        }
        let before = engine.stats();
        disk.fail_next(1, 0);
        engine.background_turn().expect_err("a write fails");
        let failed = engine.stats();
        assert_eq!(given(&before, &failed).1, 0, "{name}");
        assert_eq!(failed.dirty_blocks, before.dirty_blocks, "{name}");
        assert!(
            failed.is_degraded && failed.write_back_errors == 1,
            "{name}"
        );
        engine.background_turn().expect("the disk is well again");
        assert_eq!(engine.stats().dirty_blocks, 0, "{name}");
        engine.flush().expect("flush");
        assert!(
            rig.disk_holds(&disk.crash_state().durable(), &truth),
            "{name}"
        );
    }
}

/// A flush of more than a round has: the second one's sync fails.
#[test]
fn a_flush_that_fails_keeps_what_its_earlier_rounds_made_clean() {
    const BLOCKS: u64 = 1500;
    for name in DESIGNS {
        let mut rig = eager(name);
        rig.region_bytes = 16 << 20;
        rig.disk_blocks = BLOCKS as usize;
        rig.options.block_bytes = 4096;
        rig.options.inode_bytes = 256;
        rig.options.ring_elements = Some(1024);
        rig.options.set_blocks = 512;
        let disk = rig.disk();
        let (_shadow, engine) = rig.create(&disk);
        let mut truth = rig.first_content();
        for block in 0..BLOCKS {
            truth[block as usize] = vec![block as u8; 4096];
            engine.write(block, &truth[block as usize]).expect("write");
        }
        let failing = Arc::clone(&disk);
        at_next(&disk, DiskEvent::Synced, move || failing.fail_next(0, 1));
        engine.flush().expect_err("its second sync fails");
        disk.set_hook(None);
        let failed = engine.stats();
        let left = failed.dirty_blocks;
        assert!(left > 0 && left < BLOCKS, "{name}: {left}");
        assert_eq!(failed.write_back_errors, 1, "{name}");
        engine.flush().expect("flush");
        let after = engine.stats();
        assert_eq!(given(&failed, &after), (left * 4096, 1), "{name}");
        assert_eq!(after.dirty_blocks, 0, "{name}");
        assert!(
            rig.disk_holds(&disk.crash_state().durable(), &truth),
            "{name}"
        );
    }
}

#[test]
fn nothing_is_written_to_the_disk_after_a_failed_fence() {
    for name in DESIGNS {
        let rig = eager(name);
        let disk = rig.disk();
        let (shadow, engine) = rig.create(&disk);
        engine.write(3, &rig.bytes_of(7)).expect("write");
        // The one that would make the round's entries durable.
        shadow.set_fence_failure(FenceFailure::From(0));
        engine.background_turn().expect_err("the fence fails");
        shadow.set_fence_failure(FenceFailure::Never);
        let before = engine.stats();
        // A Classic has them clean in DRAM, rightly, and nothing to do.
        drop(engine.background_turn());
        drop(engine.flush());
        assert_eq!(given(&before, &engine.stats()), (0, 0), "{name}");
    }
}

/// Where the disk fails, clients get the room of clean blocks, and the disk is asked once for each that lacks room.
#[test]
fn a_disk_that_fails_is_asked_once_by_a_client_that_lacks_room() {
    for name in DESIGNS {
        let rig = rig(name, (1000, 1000, 2));
        let disk = rig.disk();
        let (_shadow, engine) = rig.create(&disk);
        let mut refused = 0;
        disk.fail_next(u32::MAX, u32::MAX);
        for block in 0..rig.disk_blocks as u64 {
            let before = engine.stats();
            if engine.write(block, &rig.bytes_of(block)).is_err() {
                refused += 1;
                let asked = engine.stats().write_back_errors - before.write_back_errors;
                assert_eq!(asked, 1, "{name}: block {block}");
            }
        }
        assert!(refused > 0, "{name}");
    }
}
