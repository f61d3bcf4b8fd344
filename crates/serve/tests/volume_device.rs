//! A volume seen as bytes behaves like an array of bytes, whatever the sizes, alignments and splits.

mod bytes_model;

use bytes_model::{Operation, apply, operation};
use forebay::{Backing, Pool, PoolOptions, Region};
use forebay_serve::{BlockDevice, DeviceError, MemoryDevice, VolumeDevice};
use proptest::prelude::*;

/// The last block reaches past the end.
const DISK_BYTES: u64 = (1 << 20) + 512;
const POOL_BYTES: u64 = 4 << 20;

fn new_device() -> VolumeDevice {
    let region = Region::shadow(POOL_BYTES);
    let pool = Pool::create_on(vec![region], &PoolOptions::default()).unwrap();
    VolumeDevice::new(pool.attach(Backing::memory(DISK_BYTES)).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_volume_is_an_array_of_bytes(operations in prop::collection::vec(operation(DISK_BYTES), 1..40)) {
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
