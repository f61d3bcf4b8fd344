//! What a volume says of its extents: they cover the range, and what is said to be zero reads as
//! zeroes, whatever was written, zeroed, evicted and read before.

use std::os::unix::fs::FileExt;

use forebay::{Backing, Pool, PoolOptions, Volume};
use forebay_serve::{Access, BlockDevice, ExtentState, VolumeDevice};
use proptest::prelude::*;

/// The last block reaches past the end.
const DISK_BYTES: u64 = (8 << 20) + 512;
/// Less than the disk has.
const POOL_BYTES: u64 = 4 << 20;
const BLOCK_BYTES: u64 = 4096;

struct Disk {
    device: VolumeDevice,
    volume: Volume,
    pool: Pool,
    _folder: tempfile::TempDir,
}

/// A disk over a file with data at 2 MiB and holes elsewhere.
fn disk() -> Disk {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap());
    let path = folder.path().join("backing");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(DISK_BYTES).unwrap();
    file.write_all_at(&[1; 12_288], 2 << 20).unwrap();
    let pool = Pool::create(&PoolOptions::new(folder.path().join("pool"), POOL_BYTES)).unwrap();
    let volume = pool.attach(Backing::file(&path).unwrap()).unwrap();
    Disk {
        device: VolumeDevice::new(volume.clone()),
        volume,
        pool,
        _folder: folder,
    }
}

/// Checks that nothing is wrong about a range's extents and returns its bytes by state.
fn check(disk: &Disk, offset: u64, length: u64, extents_max: usize) -> [u64; 3] {
    let extents = disk.device.extents(offset, length, extents_max).unwrap();
    assert!((1..=extents_max).contains(&extents.len()), "{extents:?}");
    let mut bytes = [0; 3];
    let mut at = offset;
    for extent in &extents {
        assert!(extent.length > 0, "{extents:?}");
        bytes[extent.state as usize] += extent.length;
        if extent.state != ExtentState::Data {
            let mut data = vec![9; extent.length as usize];
            disk.device.read_at(at, &mut data).unwrap();
            assert!(data.iter().all(|byte| *byte == 0), "{extent:?} at {at}");
        }
        at += extent.length;
    }
    assert!(at <= offset + length);
    assert!(at == offset + length || extents.len() == extents_max);
    bytes
}

#[test]
fn holes_data_and_zeroed_blocks_are_told_apart() {
    let disk = disk();
    let [data, _, holes] = check(&disk, 0, DISK_BYTES, 100);
    if holes == 0 {
        eprintln!("skipped holes_data_and_zeroed_blocks_are_told_apart: no holes in the folder");
        return;
    }
    assert!((12_288..65_536).contains(&data), "{data}");
    disk.device.write_at(BLOCK_BYTES, &[7; 8192]).unwrap();
    disk.device.write_zeroes(BLOCK_BYTES, 4096).unwrap();
    let extents = disk.device.extents(0, 12_288, 9).unwrap();
    let states: Vec<_> = extents.iter().map(|e| (e.length, e.state)).collect();
    // The first block was cached as data when it was read above, or is still a hole.
    assert_eq!(states.iter().map(|s| s.0).sum::<u64>(), 12_288);
    assert!(states.contains(&(4096, ExtentState::Zero)), "{states:?}");
    assert_eq!(states.last().unwrap().1, ExtentState::Data);
    // An unaligned question gets an answer of its own length.
    let one = disk.device.extents(BLOCK_BYTES + 5, 10, 1).unwrap();
    assert_eq!((one[0].length, one[0].state), (10, ExtentState::Zero));
    assert!(disk.device.extents(DISK_BYTES, 1, 1).is_err());
}

#[test]
fn what_is_cached_is_quick_and_the_rest_is_not() {
    let disk = disk();
    assert!(!disk.device.is_quick(Access::Read, 0, 4096));
    assert!(disk.device.is_quick(Access::Write, 0, 8192));
    assert!(
        !disk.device.is_quick(Access::Write, 1, 4096),
        "parts are read"
    );
    disk.device.write_at(0, &[1; 8192]).unwrap();
    assert!(disk.device.is_quick(Access::Read, 100, 8000));
    assert!(!disk.device.is_quick(Access::Read, 100, 8100));
    assert!(disk.device.is_quick(Access::Write, 1, 4096));
    assert!(
        !disk.device.is_quick(Access::Write, 0, DISK_BYTES),
        "no room for that"
    );
    assert!(!disk.device.is_quick(Access::Read, u64::MAX, 2));
    assert!(disk.volume.check_durable().is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn zero_is_never_said_of_what_is_not(
        operations in proptest::collection::vec((0..6_u8, 0..DISK_BYTES, 1..400_000_u64), 1..40)
    ) {
        let disk = disk();
        for (kind, offset, length) in operations {
            let length = length.min(DISK_BYTES - offset);
            match kind {
                0 | 1 => {
                    // A bounded write: a storm of them would only wait for the backing.
                    let data = vec![kind + 1; length.min(40_000) as usize];
                    disk.device.write_at(offset, &data).unwrap();
                }
                2 => disk.device.write_zeroes(offset, length).unwrap(),
                3 => disk.device.discard(offset, length).unwrap(),
                4 => disk.volume.flush().unwrap(),
                _ => disk.device.read_at(offset, &mut vec![0; length as usize]).unwrap(),
            }
            check(&disk, offset, length, 3);
        }
        check(&disk, 0, DISK_BYTES, 10_000);
        disk.pool.close().unwrap();
    }
}
