//! The DRAM that an open pool takes for each block that it holds, counted by the allocator.

#![allow(unsafe_code, reason = "an allocator is unsafe to be one")]

use forebay_log::shadow::{Image, ShadowDevice, ShadowState};
use forebay_log::{Options, PAGE_BYTES, Transaction, create, open};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that are allocated.
static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: it passes everything on to the system's allocator, and counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SEGMENT_PAGES: u32 = 4096;
const SEGMENTS: u32 = 33;
const BLOCKS_A_TRANSACTION: u64 = 64;

#[test]
fn a_block_takes_at_most_44_bytes_of_dram() {
    let pages = SEGMENT_PAGES * (SEGMENTS + 1);
    let state = ShadowState::new(Image::zeroed(pages as usize), PAGE_BYTES);
    let device = Arc::new(ShadowDevice::new(state));
    let options = Options {
        segment_pages: Some(SEGMENT_PAGES),
        ..Options::default()
    };
    let log = create(device.clone(), options.clone()).unwrap();
    for number in 0.. {
        let mut transaction = Transaction::new();
        for block in 0..BLOCKS_A_TRANSACTION {
            let bytes = [number as u8; PAGE_BYTES];
            let block = number * BLOCKS_A_TRANSACTION + block;
            transaction.write(1, block, &bytes).unwrap();
        }
        if log.commit(transaction).is_err() {
            break;
        }
    }
    log.close().unwrap();
    let before = LIVE_BYTES.load(Ordering::Relaxed);
    let log = open(device, options).unwrap();
    let bytes = LIVE_BYTES.load(Ordering::Relaxed) - before + log.recent_bytes_max();
    let blocks = log.cached_blocks();
    assert!(blocks > 100_000, "{blocks} blocks");
    let per_block = bytes as f64 / blocks as f64;
    assert!(per_block <= 44.0, "{per_block} bytes a block");
}
