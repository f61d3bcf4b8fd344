//! A volume seen as bytes behaves like an array of bytes, whatever the sizes, alignments and splits.

use forebay::{Backing, Pool, PoolOptions, Region};
use forebay_serve::{BlockDevice, DeviceError, MemoryDevice, VolumeDevice};
use proptest::prelude::*;

/// The last block reaches past the end.
const DISK_BYTES: u64 = (1 << 20) + 512;
const POOL_BYTES: u64 = 4 << 20;

#[derive(Debug, Clone)]
enum Operation {
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
fn range() -> impl Strategy<Value = (u64, u64)> {
    let offset = prop_oneof![
        0..DISK_BYTES,
        (0..DISK_BYTES / 512).prop_map(|sector| sector * 512),
        (0..DISK_BYTES / 4096).prop_map(|block| block * 4096),
    ];
    let length = prop_oneof![1..9000_u64, Just(4096), Just(65_536), 1..900_000_u64];
    (offset, length).prop_map(|(offset, length)| (offset, length.min(DISK_BYTES - offset)))
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => (range(), any::<u8>()).prop_map(|((offset, length), seed)| Operation::Write {
            offset,
            length: length as usize,
            seed
        }),
        1 => range().prop_map(|(offset, length)| Operation::Zero { offset, length }),
        1 => range().prop_map(|(offset, length)| Operation::Discard { offset, length }),
        3 => range().prop_map(|(offset, length)| Operation::Read {
            offset,
            length: length as usize
        }),
        1 => Just(Operation::Drain),
    ]
}

fn new_device() -> VolumeDevice {
    let region = Region::shadow(POOL_BYTES);
    let pool = Pool::create_on(vec![region], &PoolOptions::default()).unwrap();
    VolumeDevice::new(pool.attach(Backing::memory(DISK_BYTES)).unwrap())
}

fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length)
        .map(|index| seed.wrapping_add((index / 13) as u8))
        .collect()
}

fn apply(device: &impl BlockDevice, operation: &Operation) -> Vec<u8> {
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_volume_is_an_array_of_bytes(operations in prop::collection::vec(operation(), 1..40)) {
        let volume = new_device();
        let model = MemoryDevice::new(DISK_BYTES as usize, 4096);
        for operation in &operations {
            let (found, expected) = (apply(&volume, operation), apply(&model, operation));
            prop_assert!(found == expected, "{:?}", operation);
            if matches!(operation, Operation::Drain) {
                volume.volume().flush().unwrap();
            }
        }
        let whole = Operation::Read { offset: 0, length: DISK_BYTES as usize };
        prop_assert!(apply(&volume, &whole) == apply(&model, &whole), "at the end");
    }
}

#[test]
fn a_request_past_the_end_is_refused_whole() {
    let device = new_device();
    let refused = device.write_at(DISK_BYTES - 10, &[1; 11]).unwrap_err();
    assert!(
        matches!(refused, DeviceError::OutOfRange { .. }),
        "{refused}"
    );
    let mut last = [9; 10];
    device.read_at(DISK_BYTES - 10, &mut last).unwrap();
    assert_eq!(last, [0; 10]);
    device.read_at(u64::MAX, &mut last).unwrap_err();
}
