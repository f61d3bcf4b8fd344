//! Streams to two regions: the same bytes, sum and counts as two streams, whatever the two are mapped from.

use std::sync::{Arc, Mutex};

use forebay_pmem::shadow::{Shadow, ShadowEvent, ShadowEventKind, ShadowModel};
use forebay_pmem::{
    EmulatedMedia, Kernel, PersistenceDomain, Region, RegionOptions, crc32c, thread_counters,
};
use tempfile::TempDir;

const LEN: u64 = 64 << 10;

/// The places of a block in the two regions, in bytes.
const PLACES: (u64, u64) = (4096, 192);

fn noise(len: usize) -> Vec<u8> {
    (0..len as u32)
        .map(|at| (at.wrapping_mul(0x9E37_79B1) >> 24) as u8)
        .collect()
}

/// One of each kind.
fn regions(directory: &TempDir) -> Vec<Region> {
    let create = |name: &str, options: RegionOptions| {
        Region::create(&directory.path().join(name), LEN, &options).unwrap()
    };
    let mapped = create("mapped", RegionOptions::default());
    vec![
        create("second", RegionOptions::default()),
        create(
            "pages",
            RegionOptions::default().domain(PersistenceDomain::Page),
        ),
        create("slow", RegionOptions::default().media(EmulatedMedia::Pcm)),
        Region::in_dram(LEN, &mapped).unwrap(),
        mapped,
        Region::shadow(LEN),
        Region::shadow_page(LEN),
    ]
}

fn bytes_of(region: &Region) -> Vec<u8> {
    let mut bytes = vec![0; region.len() as usize];
    region.read(0, &mut bytes);
    bytes
}

#[test]
fn two_regions_of_any_kinds_get_what_two_streams_give_them() {
    let directories = [(); 2].map(|()| TempDir::new_in("/dev/shm").unwrap());
    let [regions, copies] = directories.each_ref().map(regions);
    let source = noise(8192);
    for region in &regions {
        for copy in &copies {
            for (round, lines) in [(0, 64), (3, 1), (7, 5), (1, 0), (2, 67)] {
                let block = &source[round..][..64 * lines];
                let before = (region.counters(), copy.counters(), thread_counters());
                let crc = region.stream_crc32c_pair(PLACES.0, copy, PLACES.1, block);
                assert_eq!(crc, crc32c(block));
                let rest = &source[64 * round + 5..][..128];
                region.stream_pair(32768, copy, 16384, rest);
                let once = lines as u64 + 2;
                let counted = |now: forebay_pmem::Counters, then| {
                    let counted = now - then;
                    (counted.lines_streamed, counted.bytes, counted.fences)
                };
                assert_eq!(counted(region.counters(), before.0), (once, 64 * once, 0));
                assert_eq!(counted(copy.counters(), before.1), (once, 64 * once, 0));
                let of_thread = (2 * once, 128 * once, 0);
                assert_eq!(counted(thread_counters(), before.2), of_thread);
                for (of, at, other) in [(region, PLACES.0, 32768), (copy, PLACES.1, 16384)] {
                    of.fence().unwrap();
                    let bytes = bytes_of(of);
                    assert_eq!(bytes[at as usize..][..block.len()], *block);
                    assert_eq!(bytes[other as usize..][..128], *rest);
                    if let Some(shadow) = of.shadow_state() {
                        assert_eq!(shadow.crash_state().durable(), bytes);
                    }
                }
            }
        }
    }
}

#[test]
fn every_kernel_streams_to_two_regions() {
    let directory = TempDir::new_in("/dev/shm").unwrap();
    let regions = regions(&directory);
    let block = noise(4096);
    for kernel in Kernel::ORDER.into_iter().filter(|one| one.is_supported()) {
        kernel.switch_to().unwrap();
        for region in &regions {
            // One region may hold both places.
            let crc = region.stream_crc32c_pair(8192, region, 4096, &block);
            assert_eq!(crc, crc32c(&block), "{kernel}");
            let bytes = bytes_of(region);
            assert_eq!(bytes[4096..8192], block, "{kernel}");
            assert_eq!(bytes[8192..12288], block, "{kernel}");
            region.stream(4096, &[0; 8192]);
        }
    }
    Kernel::best().switch_to().unwrap();
}

/// The region's stream is under way before the copy's, each of the whole block.
#[test]
fn a_model_is_told_of_one_stream_after_the_other() {
    let shadows =
        [ShadowModel::Lines, ShadowModel::Pages].map(|model| Arc::new(Shadow::new(LEN, model)));
    let seen = Arc::new(Mutex::new(Vec::new()));
    for (number, shadow) in shadows.iter().enumerate() {
        let seen = Arc::clone(&seen);
        shadow.set_hook(Some(Arc::new(move |event: ShadowEvent| {
            let event = (number, event.kind, event.offset, event.len);
            seen.lock().unwrap().push(event);
        })));
    }
    let [region, copy] = shadows.map(Region::on_shadow);
    let block = noise(4096);
    region.stream_crc32c_pair(PLACES.0, &copy, PLACES.1, &block);
    copy.stream_pair(0, &region, 64, &block[..128]);
    let stream = ShadowEventKind::Stream;
    let expected = [
        (0, stream, PLACES.0, 4096),
        (1, stream, PLACES.1, 4096),
        (1, stream, 0, 128),
        (0, stream, 64, 128),
    ];
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[test]
fn a_pair_meets_a_lost_page_of_either_region() {
    let (region, copy) = (Region::shadow(LEN), Region::shadow(LEN));
    copy.shadow_state().unwrap().lose_page(4096);
    region.stream_pair(0, &copy, 0, &noise(4096));
    copy.fence().unwrap();
    region.stream_crc32c_pair(0, &copy, 4096, &noise(64));
    region.fence().unwrap();
    copy.fence().unwrap_err();
    assert_eq!(copy.media_errors(), [4096]);
}

#[test]
#[should_panic(expected = "lie outside")]
fn a_copy_beyond_the_end_panics() {
    let (region, copy) = (Region::shadow(LEN), Region::shadow(4096));
    region.stream_pair(4096, &copy, 4096, &[0; 64]);
}

#[test]
#[should_panic(expected = "whole lines")]
fn a_copy_between_lines_panics() {
    let (region, copy) = (Region::shadow(LEN), Region::shadow(LEN));
    region.stream_crc32c_pair(64, &copy, 8, &[0; 64]);
}
