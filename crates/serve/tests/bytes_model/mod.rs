//! Requests to a disk, and what they do to an array of bytes.

use forebay_serve::BlockDevice;
use proptest::prelude::*;

#[derive(Debug, Clone)]
pub enum Operation {
    Write {
        offset: u64,
        length: usize,
        seed: u8,
    },
    Zero {
        offset: u64,
        length: u64,
    },
    Discard {
        offset: u64,
        length: u64,
    },
    Read {
        offset: u64,
        length: usize,
    },
    Drain,
}

/// Any alignment, with the interesting ones often, inside the disk.
fn range(disk_bytes: u64) -> impl Strategy<Value = (u64, u64)> {
    let offset = prop_oneof![
        0..disk_bytes,
        (0..disk_bytes / 512).prop_map(|sector| sector * 512),
        (0..disk_bytes / 4096).prop_map(|block| block * 4096),
    ];
    let length = prop_oneof![1..9000_u64, Just(4096), Just(65_536), 1..900_000_u64];
    (offset, length).prop_map(move |(offset, length)| (offset, length.min(disk_bytes - offset)))
}

pub fn operation(disk_bytes: u64) -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => (range(disk_bytes), any::<u8>()).prop_map(|((offset, length), seed)| Operation::Write {
            offset,
            length: length as usize,
            seed
        }),
        1 => range(disk_bytes).prop_map(|(offset, length)| Operation::Zero { offset, length }),
        1 => range(disk_bytes).prop_map(|(offset, length)| Operation::Discard { offset, length }),
        3 => range(disk_bytes).prop_map(|(offset, length)| Operation::Read {
            offset,
            length: length as usize
        }),
        1 => Just(Operation::Drain),
    ]
}

fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length)
        .map(|index| seed.wrapping_add((index / 13) as u8))
        .collect()
}

pub fn apply(device: &impl BlockDevice, operation: &Operation) -> Vec<u8> {
    match *operation {
        Operation::Write {
            offset,
            length,
            seed,
        } => device.write_at(offset, &pattern(length, seed)).unwrap(),
        Operation::Zero { offset, length } => device.write_zeroes(offset, length).unwrap(),
        Operation::Discard { offset, length } => device.discard(offset, length).unwrap(),
        Operation::Read { offset, length } => {
            let mut out = vec![0xEE; length];
            device.read_at(offset, &mut out).unwrap();
            return out;
        }
        Operation::Drain => {}
    }
    Vec::new()
}
