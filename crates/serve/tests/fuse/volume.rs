//! A cached volume used through the mounted file: every size and alignment, many requests at once,
//! while the pool writes back and evicts under it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use forebay::Backing;
use proptest::prelude::*;
use rustix::fs::FallocateFlags;

use crate::common::{
    AlignedBuffer, TestVolume, fill_pattern, open, pattern_of, patterned_file, skip,
};
use crate::mounting::{mounted, no_fuse};

/// Several times what the pool holds, and its last block is not whole.
const DISK_BYTES: u64 = (24 << 20) + 512;
const POOL_BYTES: u64 = 8 << 20;
const REQUEST_BYTES_MAX: u64 = 4 << 20;

#[derive(Debug, Clone, Copy)]
enum Kind {
    Write(u64),
    Read,
    PunchHole,
    WriteBack,
}

#[derive(Debug, Clone, Copy)]
struct Operation {
    kind: Kind,
    offset: u64,
    length: u64,
    is_direct: bool,
}

/// Sizes from a byte to 4 MiB, small and round ones often, anywhere in the disk.
fn operation() -> impl Strategy<Value = Operation> {
    let length = prop_oneof![
        1..9000_u64,
        prop_oneof![Just(512_u64), Just(4096), Just(65_536), Just(1 << 20)],
        (1..=REQUEST_BYTES_MAX / 512).prop_map(|sectors| sectors * 512),
    ];
    let kind = prop_oneof![
        6 => any::<u64>().prop_map(Kind::Write),
        4 => Just(Kind::Read),
        1 => Just(Kind::PunchHole),
        1 => Just(Kind::WriteBack),
    ];
    (kind, 0..DISK_BYTES, length, any::<bool>()).prop_map(|(kind, offset, length, is_direct)| {
        let unit = if is_direct { 512 } else { 1 };
        let offset = offset / unit * unit;
        let length = length.next_multiple_of(unit).min(DISK_BYTES - offset);
        Operation {
            kind,
            offset,
            length,
            is_direct,
        }
    })
}

struct Disk {
    buffered: File,
    direct: File,
    volume: TestVolume,
    model: Vec<u8>,
}

impl Disk {
    fn apply(&mut self, operation: &Operation) {
        let Operation { offset, length, .. } = *operation;
        let file = if operation.is_direct {
            &self.direct
        } else {
            &self.buffered
        };
        let range = offset as usize..(offset + length) as usize;
        let mut buffer = AlignedBuffer::new(length as usize);
        match operation.kind {
            Kind::Write(seed) => {
                fill_pattern(buffer.as_mut(), seed);
                file.write_all_at(buffer.as_mut(), offset).unwrap();
                self.model[range].copy_from_slice(buffer.as_mut());
            }
            Kind::Read => {
                file.read_exact_at(buffer.as_mut(), offset).unwrap();
                assert!(buffer.as_mut() == &self.model[range], "{operation:?}");
            }
            Kind::PunchHole => {
                let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                rustix::fs::fallocate(file, mode, offset, length).unwrap();
                self.model[range].fill(0);
            }
            Kind::WriteBack => self.volume.device.volume().flush().unwrap(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn the_mounted_file_is_an_array_of_bytes(
        operations in prop::collection::vec(operation(), 1..40)
    ) {
        if let Some(why) = no_fuse() {
            skip("the_mounted_file_is_an_array_of_bytes", why);
            return Ok(());
        }
        let volume = TestVolume::new(POOL_BYTES, DISK_BYTES);
        let mount = mounted(Arc::clone(&volume.device));
        let mut disk = Disk {
            buffered: open(&mount.disk_path(), 0),
            direct: open(&mount.disk_path(), libc::O_DIRECT),
            volume,
            model: vec![0; DISK_BYTES as usize],
        };
        for operation in &operations {
            disk.apply(operation);
        }
        let mut whole = vec![1; DISK_BYTES as usize];
        disk.buffered.read_exact_at(&mut whole, 0).unwrap();
        prop_assert!(whole == disk.model, "at the end");
    }
}

#[test]
fn requests_of_many_threads_at_once_keep_apart() {
    if let Some(why) = no_fuse() {
        return skip("requests_of_many_threads_at_once_keep_apart", why);
    }
    const THREADS: u64 = 16;
    const REGION_BYTES: u64 = (24 << 20) / THREADS;
    let volume = TestVolume::new(POOL_BYTES, DISK_BYTES);
    let mount = mounted(Arc::clone(&volume.device));
    let file = open(&mount.disk_path(), libc::O_DIRECT);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let file = &file;
            scope.spawn(move || {
                let base = thread * REGION_BYTES;
                for round in 0..24_u64 {
                    // 512 bytes to a megabyte, at any sector.
                    let length = 512_u64 << ((thread + round * 5) % 12);
                    let offset = base + round * 7 * 512 % (REGION_BYTES - length);
                    let mut data = AlignedBuffer::new(length as usize);
                    fill_pattern(data.as_mut(), thread << 32 | round);
                    file.write_all_at(data.as_mut(), offset).unwrap();
                    let mut back = AlignedBuffer::new(length as usize);
                    file.read_exact_at(back.as_mut(), offset).unwrap();
                    assert!(back.as_mut() == data.as_mut(), "{thread} {round}");
                }
            });
        }
    });
    let (_, bad) = volume.pool.check(|_, _| {});
    assert_eq!(bad, []);
}

/// More misses at a time than the mount has threads, from a file, which they may wait for together; each block is read by one thread.
#[test]
fn misses_of_many_threads_are_each_answered_with_their_own_block() {
    if let Some(why) = no_fuse() {
        return skip(
            "misses_of_many_threads_are_each_answered_with_their_own_block",
            why,
        );
    }
    const THREADS: u64 = 24;
    const BLOCKS: u64 = 2400;
    let backing = patterned_file(BLOCKS);
    let volume = TestVolume::before(Backing::file(backing.path()).unwrap(), 2 * POOL_BYTES);
    let mount = mounted(Arc::clone(&volume.device));
    let file = open(&mount.disk_path(), libc::O_DIRECT);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let file = &file;
            scope.spawn(move || {
                // Far apart, so that most are of no run.
                for number in 0..BLOCKS / THREADS {
                    let block = (number * THREADS + thread) * 1009 % BLOCKS;
                    let mut back = AlignedBuffer::new(4096);
                    file.read_exact_at(back.as_mut(), block * 4096).unwrap();
                    assert!(back.as_mut() == pattern_of(block), "block {block}");
                }
            });
        }
    });
    drop(file);
    drop(mount);
    let totals = volume.pool.stats().totals;
    assert_eq!(totals.read_misses, BLOCKS);
    // Where another block of its stripe is brought in between its answer and its own turn, one is not.
    assert!(totals.fills >= BLOCKS * 9 / 10, "{totals:?}");
    let (_, bad) = volume.pool.check(|_, _| {});
    assert_eq!(bad, []);
}
