//! Small changes of cached blocks, one after the other, ask for no memory of the heap.

#![allow(unsafe_code, reason = "an allocator is an unsafe trait")]

#[path = "pools/rig/mod.rs"]
mod rig;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Of this thread alone: the test's harness has others.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the trait's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the trait's contract.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const CHANGES: u64 = 1000;

/// Allocations of so many transactions, after as many that gather the memory.
fn allocations(mut change: impl FnMut(u64)) -> u64 {
    (0..CHANGES).for_each(&mut change);
    let before = ALLOCATIONS.get();
    (0..CHANGES).for_each(&mut change);
    ALLOCATIONS.get() - before
}

#[test]
fn a_small_change_allocates() {
    let rig = rig::rig(16 << 20, false);
    let (_, _, backing) = rig::faulty(64);
    let volume = rig.pool.attach(backing).unwrap();
    (0..64).for_each(|block| rig::put(&volume, block, 1));
    let before = rig.pool.stats().totals.deltas_written;
    let one = allocations(|number| {
        let mut transaction = volume.begin();
        let offset = number * 4352 % (63 << 12);
        transaction.write_at(offset, &[number as u8; 256]).unwrap();
        transaction.commit().unwrap();
    });
    let several = allocations(|number| {
        let mut transaction = volume.begin();
        for part in 0..4 {
            let offset = (((number * 7 + part) % 60) << 12) + 100;
            transaction.write_at(offset, &[number as u8; 40]).unwrap();
            transaction.write_at(offset + 200, &[3; 250]).unwrap();
        }
        transaction.commit().unwrap();
    });
    let written = rig.pool.stats().totals.deltas_written - before;
    assert!(written >= 10 * CHANGES, "{written} changes in place");
    // Checkpoints, of which there are few, have lists of their own.
    assert!(one < CHANGES / 10, "{one} of one part each");
    assert!(several < CHANGES / 10, "{several} of eight parts each");
}
