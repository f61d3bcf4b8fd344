//! A block that a commit moves from one cache to the other while the cleaner has it.

use std::sync::Arc;

use forebay::{Backing, Region};
use forebay_pmem::shadow::{FenceFailure, Shadow, ShadowModel};

use super::super::Spindle;
use super::super::layout::Cache;
use super::tiny;
use crate::Engine;
use crate::cleaner::{Cleanable, Goal, Watermarks};
use crate::shared::ReadThrough;

#[test]
fn a_commit_that_fails_while_it_moves_a_block_has_told_the_cleaner_before() {
    let mut rig = tiny();
    rig.options.cleaner = Some(Watermarks::default());
    let shadow = Arc::new(Shadow::new(rig.region_bytes, ShadowModel::Lines));
    let region = Region::on_shadow(shadow.clone());
    let spindle = Spindle::made(region, Backing::from_store(rig.disk()), &rig.options);
    let spindle = spindle.expect("an engine is made");
    for block in [3, 4] {
        spindle.write(block, &rig.bytes_of(block)).expect("write");
    }
    let picked = spindle.pick(&[(Cache::Data as usize, Goal::Clean(2))]);
    assert_eq!(spindle.have_changed(&picked), [false; 2]);
    // Block 3 moves with two fences; then the first one of block 4 fails.
    shadow.set_fence_failure(FenceFailure::From(2));
    let mut transaction = spindle.begin();
    for block in [3, 4] {
        let bytes = rig.bytes_of(block);
        let inode = 0..8;
        transaction.update(block, &bytes, &[inode]).expect("update");
    }
    transaction.commit().expect_err("a fence fails");
    let is_moved = |block| spindle.lock().metadata_slot(block).is_some();
    assert!(is_moved(3) && !is_moved(4));
    assert_eq!(spindle.have_changed(&picked), [true; 2]);
}
