//! Regions over files: creation, locking, detection, refusal, loads and stores.

use forebay_pmem::shadow::{Fault, FenceFailure};
use forebay_pmem::{
    EmulatedMedia, MediaKind, PersistenceDomain, PmemErrorKind, Region, RegionOptions,
    crc32c as crc32c_of,
};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const LEN: u64 = 64 << 10;

fn shm_directory() -> TempDir {
    TempDir::new_in("/dev/shm").unwrap()
}

fn disk_directory() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn options(domain: PersistenceDomain) -> RegionOptions {
    RegionOptions::default().domain(domain)
}

fn create(directory: &TempDir) -> (PathBuf, Region) {
    let path = directory.path().join("region");
    let region = Region::create(&path, LEN, &RegionOptions::default()).unwrap();
    (path, region)
}

fn noise(len: usize, mut seed: u64) -> Vec<u8> {
    let next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 56) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

#[test]
fn a_created_file_is_private_reserved_and_zero() {
    for directory in [shm_directory(), disk_directory()] {
        let (path, region) = create(&directory);
        let metadata = std::fs::metadata(&path).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        assert_eq!(metadata.len(), LEN);
        assert!(metadata.blocks() * 512 >= LEN, "reserved, not sparse");
        assert_eq!(
            region.crc32c(0, LEN as usize),
            crc32c_of(&[0; LEN as usize])
        );
        assert_eq!((region.len(), region.path()), (LEN, path.as_path()));
    }
}

#[test]
fn a_file_in_memory_is_adr_and_one_on_a_disk_is_page() {
    let directory = shm_directory();
    let (_, region) = create(&directory);
    assert_eq!(region.kind(), MediaKind::Shm);
    assert_eq!(region.domain(), PersistenceDomain::Adr);
    assert!(region.kind().survives().contains("power cut loses"));

    let directory = disk_directory();
    let (_, region) = create(&directory);
    let detected = match region.kind() {
        MediaKind::PlainFile => PersistenceDomain::Page,
        // The build directory itself may be in memory or on a DAX file system.
        _ => PersistenceDomain::Adr,
    };
    assert_eq!(region.domain(), detected);
}

#[test]
fn the_domain_can_be_forced() {
    let directory = shm_directory();
    let (path, region) = create(&directory);
    drop(region);
    for domain in [
        PersistenceDomain::Adr,
        PersistenceDomain::Eadr,
        PersistenceDomain::Page,
    ] {
        let region = Region::open(&path, &options(domain)).unwrap();
        assert_eq!(region.domain(), domain);
        region.store(0, b"bytes");
        region.flush(0, 5);
        region.fence().unwrap();
    }
}

#[test]
fn bytes_come_back_after_reopening() {
    for directory in [shm_directory(), disk_directory()] {
        let (path, region) = create(&directory);
        let streamed = noise(4096, 1);
        let stored = noise(333, 2);
        let crc = region.stream_crc32c(8192, &streamed);
        region.stream(16_384, &streamed[..128]);
        region.store(77, &stored);
        region.store_u64(32_768, 0x0102_0304_0506_0708);
        region.store_u128(32_784, 0x0102_0304_0506_0708_090A_0B0C_0D0E_0F10);
        region.flush(0, 4096);
        region.flush(32_768, 32);
        region.fence().unwrap();
        drop(region);

        let region = Region::open(&path, &RegionOptions::default()).unwrap();
        let mut out = vec![0; 4096];
        assert_eq!(region.read_crc32c(8192, &mut out), crc);
        assert_eq!((crc, &out), (crc32c_of(&streamed), &streamed));
        region.read(16_384, &mut out[..128]);
        assert_eq!(out[..128], streamed[..128]);
        region.read(77, &mut out[..333]);
        assert_eq!(out[..333], stored);
        assert_eq!(region.load_u64(32_768), 0x0102_0304_0506_0708);
        let pair = region.load_u128(32_784);
        assert_eq!(pair, 0x0102_0304_0506_0708_090A_0B0C_0D0E_0F10);
        assert_eq!(std::fs::read(&path).unwrap()[32_768], 8, "little-endian");
    }
}

#[test]
fn a_second_opener_is_told_of_the_first() {
    let directory = shm_directory();
    let (path, region) = create(&directory);
    let error = Region::open(&path, &RegionOptions::default()).unwrap_err();
    assert_eq!(error.kind(), PmemErrorKind::Locked);
    assert!(
        error.to_string().contains(path.to_str().unwrap()),
        "{error}"
    );
    assert!(Region::open_read_only(&path).unwrap().is_open_elsewhere());
    drop(region);
    assert!(!Region::open_read_only(&path).unwrap().is_open_elsewhere());
    Region::open(&path, &RegionOptions::default()).unwrap();
}

#[test]
fn an_existing_file_is_not_created_over() {
    let directory = shm_directory();
    let (path, region) = create(&directory);
    region.store(0, b"precious");
    drop(region);
    let error = Region::create(&path, LEN, &RegionOptions::default()).unwrap_err();
    assert_eq!(error.kind(), PmemErrorKind::AlreadyExists);
    assert!(std::fs::read(&path).unwrap().starts_with(b"precious"));
}

#[test]
fn a_full_file_system_is_an_error_at_creation() {
    const MORE_THAN_ANYBODY_HAS: u64 = 1 << 60;
    for directory in [shm_directory(), disk_directory()] {
        let path = directory.path().join("huge");
        let options = RegionOptions::default();
        let error = Region::create(&path, MORE_THAN_ANYBODY_HAS, &options).unwrap_err();
        let len = MORE_THAN_ANYBODY_HAS;
        assert_eq!(error.kind(), PmemErrorKind::NoSpace { len }, "{error}");
        assert!(!path.exists(), "nothing is left behind");
    }
}

#[test]
fn holes_of_an_opened_file_are_filled() {
    let directory = shm_directory();
    let path = directory.path().join("sparse");
    std::fs::File::create(&path).unwrap().set_len(LEN).unwrap();
    let _region = Region::open(&path, &RegionOptions::default()).unwrap();
    assert!(std::fs::metadata(&path).unwrap().blocks() * 512 >= LEN);
}

#[test]
fn what_is_no_region_is_refused() {
    let directory = shm_directory();
    let small = directory.path().join("small");
    std::fs::write(&small, [1; 100]).unwrap();
    let options = RegionOptions::default();
    let kind_of = |path: &Path| Region::open(path, &options).unwrap_err().kind();
    let (found, needed) = (100, 4096);
    assert_eq!(kind_of(&small), PmemErrorKind::TooSmall { found, needed });
    let error = Region::create(&directory.path().join("new"), 100, &options).unwrap_err();
    assert_eq!(error.kind(), PmemErrorKind::TooSmall { found, needed });
    // Every user may write it.
    let null = Path::new("/dev/null");
    assert!(matches!(kind_of(null), PmemErrorKind::Foreign(_)));
    let trusting = RegionOptions::default().trust_owner(true);
    let error = Region::open(null, &trusting).unwrap_err();
    assert!(matches!(error.kind(), PmemErrorKind::Unsupported(_)));
    assert!(matches!(kind_of(directory.path()), PmemErrorKind::Io(_)));
    assert!(matches!(
        kind_of(Path::new("/nowhere")),
        PmemErrorKind::Io(_)
    ));
}

#[test]
fn stores_into_a_private_view_stay_there() {
    let directory = shm_directory();
    let (path, region) = create(&directory);
    region.store(0, b"outer");
    let view = Region::open_read_only(&path).unwrap();
    view.store(0, b"inner");
    view.stream(64, &[7; 64]);
    view.flush(0, 5);
    view.fence().unwrap();
    assert_eq!(view.load_u64(0) as u8, b'i');
    assert_eq!(region.load_u64(0) as u8, b'o');
    assert_eq!(region.load_u64(64), 0);
}

#[test]
fn slow_media_keep_bytes_as_fast_ones_do() {
    let directory = shm_directory();
    let path = directory.path().join("pcm");
    let options = RegionOptions::default().media(EmulatedMedia::Pcm);
    let region = Region::create(&path, LEN, &options).unwrap();
    let bytes = noise(4096, 3);
    let crc = region.stream_crc32c(0, &bytes);
    region.store(4096, &bytes);
    region.flush(4096, 4096);
    region.fence().unwrap();
    let mut out = vec![0; 4096];
    assert_eq!(region.read_crc32c(0, &mut out), crc);
    assert_eq!(region.crc32c(4096, 4096), crc);
    assert_eq!(region.counters().lines(), 128);
}

#[test]
fn a_failed_fence_makes_all_later_ones_fail() {
    for region in [Region::shadow(LEN), Region::shadow_page(LEN)] {
        region.store(0, b"lost");
        region.flush(0, 4);
        region
            .shadow_state()
            .unwrap()
            .set_fence_failure(FenceFailure::After(0));
        region.fence().unwrap_err();
        assert!(region.is_poisoned());
        assert_eq!(region.fence().unwrap_err().kind(), PmemErrorKind::Poisoned);
    }
    let directory = shm_directory();
    let (_, region) = create(&directory);
    region.poison();
    assert_eq!(region.fence().unwrap_err().kind(), PmemErrorKind::Poisoned);
}

#[test]
fn a_shadow_serves_what_was_stored() {
    let region = Region::shadow_from(&noise(LEN as usize, 4));
    assert_eq!(region.kind(), MediaKind::Shadow);
    assert_eq!(
        region.crc32c(0, 4096),
        crc32c_of(&noise(LEN as usize, 4)[..4096])
    );
    let bytes = noise(128, 5);
    assert_eq!(region.stream_crc32c(4096, &bytes), crc32c_of(&bytes));
    region.store_u64(0, 42);
    region.store_u128(16, 43 << 64 | 44);
    assert_eq!(
        (region.load_u64(0), region.load_u128(16)),
        (42, 43 << 64 | 44)
    );
    let mut out = vec![0; 128];
    region.read(4096, &mut out);
    assert_eq!(out, bytes);
    region.flush(0, 32);
    region.fence().unwrap();
}

#[test]
fn a_pair_is_never_seen_half_stored() {
    const STORES: u64 = 200_000;
    let directory = shm_directory();
    let (_, region) = create(&directory);
    if !region.has_atomic_u128() {
        println!("16-byte loads are not atomic on this processor: not checked");
        return;
    }
    for region in [&region, &Region::shadow(LEN)] {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for value in 0..STORES {
                    region.store_u128(64, u128::from(value) << 64 | u128::from(value));
                }
            });
            let mut last = 0;
            while last < STORES - 1 {
                let pair = region.load_u128(64);
                assert_eq!(pair as u64, (pair >> 64) as u64);
                assert!(pair as u64 >= last);
                last = pair as u64;
                std::thread::yield_now();
            }
        });
    }
}

#[test]
#[should_panic(expected = "lie outside")]
fn a_load_beyond_the_end_panics() {
    Region::shadow(LEN).read(LEN - 1, &mut [0; 2]);
}

#[test]
#[should_panic(expected = "lie outside")]
fn an_offset_that_wraps_panics() {
    Region::shadow(LEN).store(u64::MAX - 1, &[0; 8]);
}

#[test]
#[should_panic(expected = "is aligned")]
fn a_misaligned_word_panics() {
    Region::shadow(LEN).store_u128(8, 0);
}

#[test]
#[should_panic(expected = "whole lines")]
fn a_stream_of_part_of_a_line_panics() {
    Region::shadow(LEN).stream(64, &[0; 65]);
}

#[test]
fn a_file_is_extended_where_it_ends_and_only_while_nobody_has_it_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("region");
    let region = Region::create(&path, 8192, &RegionOptions::default()).unwrap();
    region.store(8000, b"kept");
    region.flush(8000, 4);
    region.fence().unwrap();
    let refused = forebay_pmem::extend(&path, 16384).unwrap_err();
    assert_eq!(refused.kind(), PmemErrorKind::Locked);
    drop(region);
    forebay_pmem::extend(&path, 16384).unwrap();
    forebay_pmem::extend(&path, 4096).unwrap();
    let region = Region::open(&path, &RegionOptions::default()).unwrap();
    assert_eq!(region.len(), 16384);
    let mut found = [9; 8384];
    region.read(8000, &mut found);
    assert_eq!(found[..4], *b"kept");
    assert!(found[4..].iter().all(|byte| *byte == 0));
    assert!(forebay_pmem::extend(&folder.path().join("nothing"), 4096).is_err());
}

#[test]
fn an_eviction_changes_nothing_but_where_loads_come_from() {
    let directory = shm_directory();
    let (_, mapped) = create(&directory);
    let disk = disk_directory();
    let (_, pages) = create(&disk);
    for region in [mapped, pages, Region::shadow(LEN), Region::shadow_page(LEN)] {
        let bytes = noise(1000, 7);
        region.store(70, &bytes);
        let before = region.counters();
        for (offset, len) in [(70, 1000), (0, LEN as usize), (500, 1), (LEN, 0)] {
            region.evict(offset, len);
            let mut out = vec![0; 1000];
            region.read(70, &mut out);
            assert_eq!(out, bytes);
        }
        assert_eq!(region.counters(), before);
    }
}

#[test]
fn an_eviction_shows_that_a_write_was_lost() {
    let region = Region::shadow(LEN);
    let shadow = region.shadow_state().unwrap();
    shadow.inject(Fault::LostWrite {
        offset: 128,
        len: 64,
    });
    region.stream(64, &[5; 128]);
    region.fence().unwrap();
    let (seen, lost) = (
        crc32c_of(&[5; 128]),
        crc32c_of(&[[5; 64], [0; 64]].concat()),
    );
    assert_eq!(region.crc32c(64, 128), seen);
    region.evict(64, 64);
    assert_eq!(region.crc32c(64, 128), seen);
    region.evict(191, 1);
    assert_eq!(region.crc32c(64, 128), lost);
}
