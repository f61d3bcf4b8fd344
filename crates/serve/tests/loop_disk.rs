//! The exported file under a loop device: no request size may be mangled on the way.

mod common;

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use common::{
    AlignedBuffer, LoopDevice, TestMount, check_transfer, fill_pattern, no_loop, open, skip,
};
use forebay_serve::MemoryDevice;

const DISK_BYTES: usize = 64 << 20;
const SIZES: [usize; 9] = [
    512,
    4096,
    65_536,
    131_072,
    524_288,
    1 << 20,
    2 << 20,
    4 << 20,
    8 << 20,
];

fn check_all_sizes(is_direct: bool) {
    let device = Arc::new(MemoryDevice::new(DISK_BYTES, 4096));
    let mount = TestMount::new(Arc::clone(&device));
    let looped = LoopDevice::new(&mount.disk_path(), is_direct);
    let file = open(&looped.path, libc::O_DIRECT);
    for (index, length) in SIZES.into_iter().enumerate() {
        for offset in [0_u64, 4096, (8 << 20) - 4096] {
            let seed = (index as u64) << 40 | offset;
            check_transfer(&file, &device, (offset, length), seed);
        }
    }
}

/// Four writers at once, each with its own region and its own sizes.
fn check_concurrent(is_direct: bool) {
    let device = Arc::new(MemoryDevice::new(DISK_BYTES, 4096));
    let mount = TestMount::new(Arc::clone(&device));
    let looped = LoopDevice::new(&mount.disk_path(), is_direct);
    let file = open(&looped.path, libc::O_DIRECT);
    const REGION_BYTES: usize = DISK_BYTES / 4;
    std::thread::scope(|scope| {
        for writer in 0..4_usize {
            let file = &file;
            scope.spawn(move || {
                let base = (writer * REGION_BYTES) as u64;
                for round in 0..24 {
                    let length = SIZES[(writer * 5 + round) % SIZES.len()];
                    let offset = base + (round * 8192) as u64;
                    let mut data = AlignedBuffer::new(length);
                    fill_pattern(data.as_mut(), (writer as u64) << 32 | round as u64);
                    file.write_all_at(data.as_mut(), offset).unwrap();
                    let mut back = AlignedBuffer::new(length);
                    file.read_exact_at(back.as_mut(), offset).unwrap();
                    assert!(
                        back.as_mut() == data.as_mut(),
                        "writer {writer} round {round}: {length} bytes at {offset}"
                    );
                }
            });
        }
    });
}

#[test]
fn no_size_is_mangled_with_buffered_loop() {
    match no_loop() {
        Some(why) => skip("no_size_is_mangled_with_buffered_loop", why),
        None => check_all_sizes(false),
    }
}

#[test]
fn no_size_is_mangled_with_direct_loop() {
    match no_loop() {
        Some(why) => skip("no_size_is_mangled_with_direct_loop", why),
        None => check_all_sizes(true),
    }
}

#[test]
fn concurrent_requests_keep_apart_with_buffered_loop() {
    match no_loop() {
        Some(why) => skip("concurrent_requests_keep_apart_with_buffered_loop", why),
        None => check_concurrent(false),
    }
}

#[test]
fn concurrent_requests_keep_apart_with_direct_loop() {
    match no_loop() {
        Some(why) => skip("concurrent_requests_keep_apart_with_direct_loop", why),
        None => check_concurrent(true),
    }
}
